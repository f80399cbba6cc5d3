"""Workers that Slurm starts: what a file says of it, and what is sent to it.

None was there where this was written: what is sent is tested as text, and nothing here has been run against one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from autograder.model.course import CourseError
from autograder.store import settings

if TYPE_CHECKING:
    from distributed.security import Security

UNRUN = "Nothing was sent. This is checked as text only: no Slurm was there where it was written."
PORT = 8786


ONE_LINE = r"\A[^\n]+\Z"
Text = Annotated[str, Meta(pattern=ONE_LINE, description="a line in quotes")]
Lines = Annotated[list[Text], Meta(description='a list of lines in quotes: ["--exclusive"]')]
Count = Annotated[int, Meta(ge=1, description="a number of at least 1")]
Cards = Annotated[int, Meta(ge=0, description="a number of at least 0")]
Seconds = Annotated[float, Meta(ge=1, description="a number of seconds, at least 1")]
Size = Annotated[str, Meta(pattern=r"(?i)\A\d+(\.\d+)?\s?[KMGT]i?B?\Z", description='it like "16GiB"')]
Time = Annotated[str, Meta(pattern=r"\A(\d+-)?\d{1,3}:\d\d:\d\d\Z", description='it like "04:00:00"')]
Tls = Annotated[Text, Meta(description='the folder that `autograder certificates` wrote: tls = "/shared/across-tls"')]
Course = Annotated[Text, Meta(description='the course on the nodes: course = "/shared/across"')]


class Slurm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each worker is a job of Slurm, submitted by dask-jobqueue, and grades as many submissions at once as it has cores.

    The scheduler runs in our process.
    """

    tls: Tls
    workers: Count = 2
    cores: Count = 2  # of each worker
    memory: Size = (
        "8GiB"  # of each worker: 1.5 GiB for the warm servers, and what the chapter's limits let students have
    )
    gpus: Cards = 0  # of each worker
    patience: Seconds = 600.0  # seconds to wait for a worker: the queue may be long
    course: Course
    python: Text = ""  # on the nodes; empty: .venv/bin/python of the course
    queue: Text = ""
    account: Text = ""
    walltime: Time = "04:00:00"
    interface: Text = ""  # of the network: ib0
    directives: Lines = []  # further ones for sbatch: "--exclusive"

    @property
    def security(self) -> Security:
        """TLS for every role. Raises CourseError."""
        from autograder.engine import dask_executor

        return dask_executor.security(Path(self.tls))

    def _worker(self) -> list[str]:
        """What a worker's command line says besides its scheduler and its certificate."""
        # Dask's memory limit would look at the worker's own process only; the students' have limits of their own
        said = ["--nthreads", str(self.cores), "--memory-limit", "0", "--preload", "autograder.engine.dask_worker"]
        return said + (["--resources", f"GPU={self.gpus}"] if self.gpus else [])

    def options(self) -> dict[str, Any]:
        """What dask-jobqueue is given."""
        directives = [*self.directives, *([f"--gres=gpu:{self.gpus}"] if self.gpus else [])]
        return {
            "cores": self.cores,
            "processes": 1,
            "memory": self.memory,
            "queue": self.queue or None,
            "account": self.account or None,
            "walltime": self.walltime,
            "interface": self.interface or None,
            "python": self.python or f"{self.course.rstrip('/')}/.venv/bin/python",
            "job_name": "across-worker",
            "job_extra_directives": directives,
            "job_script_prologue": [f"cd {shlex.quote(self.course)}"],  # a worker's course is that of its folder
            "worker_extra_args": self._worker()[2:],  # it says --nthreads itself
            "death_timeout": 120,
            "protocol": "tls://",
            "security": self.security,
        }

    def text(self) -> str:
        """The job script of one worker; sbatch gets it once for each of `workers`."""
        from dask_jobqueue.slurm import SLURMJob

        return SLURMJob(f"tls://SCHEDULER:{PORT}", name="across", **self.options()).job_script()

    @contextmanager
    def cluster(self) -> Iterator[Any]:
        """Have the jobs submitted, for the time of the block."""
        from dask_jobqueue.slurm import SLURMCluster

        with SLURMCluster(
            n_workers=self.workers, scheduler_options={"dashboard_address": "127.0.0.1:0"}, **self.options()
        ) as made:
            yield made


def read(path: Path) -> Slurm:
    """What a file says. Raises CourseError, which names the file, the key and the mend."""
    return settings.read(path, Slurm, CourseError)
