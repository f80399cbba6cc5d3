"""Where a class is graded: on this machine, or on workers of a Dask cluster.

    local                this machine
    dask://HOST:PORT     a scheduler that runs already, and its workers

The second needs `uv sync --extra cluster`, and a certificate: see docs/scale.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from autograder.model.course import Course, CourseError

LOCAL = "local"


@contextmanager
def opened(
    said: str, course: Course, chapter: str, tls: Path | None = None, gpus: int | str | None = None
) -> Iterator[Executor | None]:
    """The executor of an engine, for the time of the block; None for `local`.

    `tls` is the folder of the cluster's certificate. Every worker has been seen to have our course. Raises CourseError for
    what is said, grade.InfrastructureError for what does not answer.
    """
    if said == LOCAL:
        yield None
        return
    match = re.fullmatch(r"dask://([^\s/]+:\d{1,5})", said)
    if not match:
        raise CourseError(f"--engine {said}: write local or dask://HOST:PORT")
    if not find_spec("distributed"):
        raise CourseError(f"--engine {said}: this needs Dask: uv sync --extra cluster")
    from autograder.engine import dask_executor

    if tls is None:
        raise CourseError(f"--engine {said}: add --tls FOLDER, of the certificate that its scheduler was started with")
    with dask_executor.DaskExecutor(f"tls://{match[1]}", dask_executor.security(tls)) as executor:
        executor.same_course(course, chapter, gpus)
        yield executor
