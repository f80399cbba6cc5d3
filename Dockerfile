# A machine that grades. Build it in a clean checkout: docker build -t across .
#
# The box is made of namespaces, which Docker's defaults forbid. As the ordinary user below, boxes need three of them back:
#   docker run --rm --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined \
#       -v "$PWD/class:/class" across grade 03 --submissions /class/submissions.zip --out /class/graded
# `docker run ... --entrypoint across across doctor` says whether a box can be built. What holds then, and what a container
# adds or takes away: docs/security.md. Not run by this project's CI, which has no Docker.
FROM python:3.12-slim-bookworm

RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends bubblewrap g++ \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir uv \
    && useradd --create-home --uid 1000 grader

COPY --chown=grader . /across
USER grader
WORKDIR /across
RUN uv sync --frozen --no-dev --compile-bytecode --extra postgres
ENV PATH=/across/.venv/bin:$PATH
ENTRYPOINT ["autograder"]
CMD ["--help"]
