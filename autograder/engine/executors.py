"""Where a class is graded: on this machine, or on workers of a Dask cluster, which Slurm may start.

    local                this machine
    dask://HOST:PORT     a scheduler that runs already, and its workers
    slurm:FILE           workers as jobs of Slurm, as FILE says (see `clusters.Slurm`); they end with the command

All but the first need `uv sync --extra cluster`, and certificates that `autograder certificates FOLDER` writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from autograder.model.course import Course, CourseError

LOCAL = "local"


@contextmanager
def opened(
    said: str, course: Course, chapter: str, tls: Path | None = None, gpus: int | None = None
) -> Iterator[Executor | None]:
    """The executor of an engine, for the time of the block; None for `local`.

    `tls` is the folder of the cluster's certificate, which a file names itself. Every worker has been seen to have our
    course. Raises CourseError for what is said, grade.InfrastructureError for what does not answer.
    """
    if said == LOCAL:
        yield None
        return
    kind, address = _parted(said)
    _there()
    from autograder.engine import clusters, dask_executor

    with ExitStack() as stack:
        if kind == "dask":
            if tls is None:
                raise CourseError(
                    f"--engine {said}: add --tls FOLDER, of the certificate that its scheduler was started with"
                )
            executor = dask_executor.DaskExecutor(f"tls://{address}", dask_executor.security(tls))
        else:
            plan = clusters.read(Path(address))
            cluster = stack.enter_context(plan.cluster())
            executor = dask_executor.DaskExecutor(cluster, plan.security, patience=plan.patience)
        stack.enter_context(executor)
        executor.same_course(course, chapter, gpus)
        yield executor


def shown(said: str) -> str:
    """What an engine would send: Slurm's job script. Contacts nobody. Raises CourseError."""
    kind, address = _parted(said)
    if kind == "dask":
        raise CourseError(f"--engine {said}: nothing is sent to start it; slurm:FILE can be shown")
    _there()
    from autograder.engine import clusters

    return f"# {clusters.UNRUN}\n{clusters.read(Path(address)).text()}"


def certificates(folder: Path) -> tuple[Path, Path]:
    """Write a cluster's certificate and key into `folder`. Raises CourseError where there are some, OSError."""
    _there()
    from autograder.engine import dask_executor

    return dask_executor.write_certificates(folder)


def _parted(said: str) -> tuple[str, str]:
    if match := re.fullmatch(r"dask://([^\s/]+:\d{1,5})", said):
        return "dask", match[1]
    if match := re.fullmatch(r"slurm:(.+)", said):
        return "slurm", match[1]
    raise CourseError(f"--engine {said}: write local, dask://HOST:PORT or slurm:FILE")


def _there() -> None:
    missing = [name for name in ("distributed", "cryptography", "dask_jobqueue") if not find_spec(name)]
    if missing:
        raise CourseError(f"this needs Dask ({', '.join(missing)} not found): uv sync --extra cluster")
