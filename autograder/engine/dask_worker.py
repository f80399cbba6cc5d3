"""What a Dask worker does: `grade.grade_job` with its own fork servers, its own copy of the course and its own sandbox.

A job carries its rubric: limits and devices, and digests of the chapter, its checks, the grader and versions. A worker whose
own are others refuses it, so that one class is graded by one course. `dask worker --preload` names this module; the worker's
course is that of its working folder, see `course.find`.
"""

from __future__ import annotations

import atexit
import os
import socket
import threading
from functools import cache
from typing import Any

from distributed import get_worker

from autograder.job import forkserver, grade
from autograder.job.forkserver import InfrastructureError
from autograder.job.grade import Job
from autograder.model import course, digests
from autograder.model.course import Course, CourseError
from autograder.model.verdict import Verdict
from autograder.sandbox import boxes

MENDS = {
    "course": "id of the course; start the worker in the folder of the same one",
    "release": "the chapter's notebook; install the same course there, run `autograder build`",
    "checks": "the checks; install the same course there",
    "environment": "versions; install the same uv.lock there",
    "grader": "grading code; install the same course there and start the worker again",
}

_problem = cache(boxes.problem)
_LOCK = threading.Lock()
_running = 0
GRADER = digests.grader()  # as this process has loaded it: taken when it starts


def dask_setup(worker: Any) -> None:
    """Take away what Dask sets for tasks that compute in its worker, a thread a library: here servers do. Called by Dask."""
    from dask import config

    for name in config.get("distributed.nanny.pre-spawn-environ", None) or {}:
        os.environ.pop(name, None)


def grade_job(job: Job) -> Verdict:
    """Grade one submission on this worker.

    Raises InfrastructureError, for another try; CourseError when this worker would grade by another course.
    """
    global _running
    if said := differs(job.chapter, job.parts):
        raise CourseError(f"worker {place()}: {said}")
    if job.rubric.sandboxed and (problem := _problem()):
        raise InfrastructureError(f"worker {place()}: {problem}")
    with _LOCK:
        _running += 1
    try:
        return grade.grade_job(job, course.find())
    finally:
        with _LOCK:
            _running -= 1


def parts(course: Course, chapter: str) -> dict[str, str]:
    """What verdicts on a chapter rest on here, each by its SHA-256, without the answers; read from the disk anew."""
    return {
        "course": course.id,
        "release": digests.of_release(course.chapter(chapter).release),
        "checks": digests.of_checks(course.check_sources(chapter)),
        "environment": forkserver.environment(course),
        "grader": GRADER,
    }


def differs(chapter: str, wanted: dict[str, str]) -> str:
    """What here is not as `wanted`, with the mend; empty when all is."""
    try:
        ours = parts(course.find(), chapter)
    except (CourseError, OSError) as error:
        return f"{error}; it must have the same course"
    for name, mend in MENDS.items():
        if ours[name] != wanted.get(name):
            seen = f" (here {ours[name]}; there {wanted.get(name)})" if name in ("course", "environment") else ""
            return f"it would grade by other {mend}{seen}"
    return ""


def place() -> str:
    """This worker, by its host and its address."""
    return f"{socket.gethostname()} ({get_worker().address})"


def close() -> None:
    """End this worker's warm servers, unless it runs jobs for others, who end them then."""
    with _LOCK:
        if not _running:
            forkserver.close()


atexit.register(forkserver.close)
