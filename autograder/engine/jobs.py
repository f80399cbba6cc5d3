"""The jobs of a run: begun on an executor or on this machine's processes, awaited, and tried again where a machine failed.

Jobs may be begun ahead of the moment when it is certain that they are wanted, so that nobody waits for what decides that: they
are awaited under their digest and seed, and what nobody has asked for ends with the run.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from autograder.job import forkserver, grade
from autograder.job.forkserver import InfrastructureError
from autograder.job.grade import Job
from autograder.model.course import Course
from autograder.model.verdict import Verdict

TRIES = 3  # at a job that this machine failed at
LOG = logging.getLogger("autograder.engine")


class Jobs:
    """Jobs of one course, `workers` at once (0: one a core), or as many as `executor` runs.

    A context manager: leaving it ends what still runs, and this machine's warm servers with it; where nothing does, these stay.
    """

    def __init__(self, course: Course, workers: int = 0, executor: Executor | None = None) -> None:
        self._course = course
        self._given = executor
        self._workers = workers or os.cpu_count() or 1
        self._open()

    def _open(self) -> None:
        # a job's work is done in processes of its own: a thread a worker is enough to wait for them
        self.executor = self._given or ThreadPoolExecutor(self._workers, thread_name_prefix="grade")
        self._running: set[Future[Verdict]] = set()
        self._ahead: dict[tuple[str, int], tuple[Future[Verdict], float]] = {}

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()

    @property
    def ahead(self) -> bool:
        """Whether jobs were begun ahead of who asks for them."""
        return bool(self._ahead)

    def begin(self, jobs: Iterable[Job]) -> None:
        """Begin jobs that `verdicts` will probably be asked for: there they are known by digest and seed."""
        for job in jobs:
            self._ahead[job.digest, job.seed] = self._submit(job), time.monotonic()

    def forget(self) -> None:
        """End what was begun, and the warm servers with it."""
        self.end()
        self._open()

    def end(self) -> None:
        """End what still runs: nobody waits for it any more."""
        for future in self._running:
            future.cancel()
        if self._given is None and all(future.done() for future in self._running):
            self.executor.shutdown()
        elif self._given is None:
            nowhere = logging.NullHandler()  # whatever jobs say of their end, where no log is kept yet
            logging.getLogger("autograder").addHandler(nowhere)
            with forkserver.ending():
                self.executor.shutdown(wait=True, cancel_futures=True)
            logging.getLogger("autograder").removeHandler(nowhere)
        self._running.clear()

    def verdict(self, job: Job) -> Verdict:
        """The verdict on one job. Raises InfrastructureError when machines have failed at it for the last time."""
        future, _ = self._ahead.pop((job.digest, job.seed), None) or (self._submit(job), 0.0)
        for _ in range(TRIES - 1):
            with suppress(InfrastructureError):
                return future.result()
            future = self._submit(job)
        return future.result()

    def verdicts(self, jobs: Iterable[Job]) -> Generator[tuple[Job, Verdict | InfrastructureError], None, None]:
        """Yield each job with its verdict as it comes back, trying again what this machine failed at."""
        waiting: dict[Future[Verdict], tuple[Job, int, float]] = {}
        ended: SimpleQueue[Future[Verdict]] = SimpleQueue()

        def await_(job: Job, tries: int, future: Future[Verdict], started: float) -> None:
            waiting[future] = (job, tries, started)
            future.add_done_callback(ended.put)  # `as_completed` would look at all that wait, each time

        for job in jobs:
            future, started = self._ahead.pop((job.digest, job.seed), None) or (self._submit(job), time.monotonic())
            await_(job, 1, future, started)
        while waiting:
            future = ended.get()
            self._running.discard(future)
            job, tries, started = waiting.pop(future)
            try:
                verdict = future.result()
                LOG.info("graded", extra=_logged(job, tries, started, verdict))
                yield job, verdict
            except InfrastructureError as error:
                LOG.error("not graded", extra={**_logged(job, tries, started), "error": str(error)})
                if tries < TRIES:
                    await_(job, tries + 1, self._submit(job), time.monotonic())
                else:
                    yield job, error

    def _submit(self, job: Job) -> Future[Verdict]:
        future = self.executor.submit(grade.grade_job, job, self._course)
        self._running.add(future)
        return future


def _logged(job: Job, attempt: int, started: float, verdict: Verdict | None = None) -> dict[str, Any]:
    """What the log says of an attempt at a job."""
    line: dict[str, Any] = {"student": job.submission.student, "chapter": job.chapter, "job": job.digest[:16]}
    line |= {"attempt": attempt, "seconds": round(time.monotonic() - started, 3)}  # in line, too
    if verdict is not None:
        line["steps"] = {name: round(seconds, 3) for name, seconds in verdict.evidence.seconds.items()}
        line |= {"kernels": verdict.evidence.lives, "points": verdict.points, "notes": verdict.notes}
    return line
