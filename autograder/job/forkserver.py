"""The warm servers of one worker: student's kernels, one chapter's checkers, drivers. Started once, used for every job.

One that died is started anew for the next job, so that a death costs the jobs that it met one try each. So are those whose
chapter has changed on the disk since they read it: nobody is graded by checks that were.

Each is a process of `across._process.warm`; they end with the process that started them. The student's server gets an
environment with hardly anything of ours in it, because its memory is inherited by every student's kernel.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from across._process import warm
from autograder.model import course
from autograder.sandbox import boxes

_LOCK = threading.Lock()
_STARTED: dict[str, Servers] = {}
_ENDING = threading.Event()


@dataclass(frozen=True)
class Servers:
    """The servers that grade one chapter on this machine."""

    student: warm.ForkServer
    checker: warm.ForkServer
    driver: warm.ForkServer
    made_of: bytes  # the chapter's notebook and checks, as they were when the servers were launched

    def close(self) -> None:
        """End the servers and all their children."""
        for server in (self.driver, self.student, self.checker):
            server.close()

    def revive(self) -> None:
        """Start anew what has died, and wait for all that is starting. Raises warm.ServerError."""
        every = (self.student, self.checker, self.driver)
        for server in every:
            if not server.alive():
                server.launch()
        for server in every:
            server.ready()


def launch(chapter: str) -> None:
    """Start the servers for `chapter` without waiting for them: they import TensorFlow while we do something else."""
    with _LOCK:
        if _ENDING.is_set():
            raise warm.ServerError("the grader is ending")
        if chapter not in _STARTED:
            if not _STARTED:
                atexit.register(close)
            _STARTED[chapter] = _launched(chapter)


def servers(chapter: str) -> Servers:
    """The servers for `chapter`, started on first use and when they have died: about 5 s.

    Raises warm.ServerError with what they printed.
    """
    launch(chapter)
    with _LOCK:
        started = _STARTED[chapter]
        if started.made_of != _made_of(chapter):
            started.close()
            started = _STARTED[chapter] = _launched(chapter)
        started.revive()
        return started


def close() -> None:
    """End every server that was started here."""
    with _LOCK:
        while _STARTED:
            _STARTED.popitem()[1].close()


@contextmanager
def ending() -> Iterator[None]:
    """End every server, and so every job that runs on them, and let none be started in the block."""
    _ENDING.set()
    try:
        close()
        yield
    finally:
        _ENDING.clear()


def _launched(chapter: str) -> Servers:
    place = {"ACROSS_COURSE": str(course.root()), "ACROSS_WORKROOM": str(boxes.workroom())}
    place["ACROSS_CHAPTER"] = chapter
    student = warm.ForkServer("autograder.job.student_server", env=_plain(), bare=True)
    checker = warm.ForkServer("autograder.job.checker", env={**place, "ACROSS_SERVES": "checker"})
    driver = warm.ForkServer("autograder.job.driver", env={**place, "ACROSS_SERVES": "driver"})
    started = Servers(student, checker, driver, _made_of(chapter))
    try:
        for server in (student, checker, driver):
            server.launch()
    except BaseException:
        started.close()
        raise
    return started


def _made_of(chapter: str) -> bytes:
    found = hashlib.sha256()
    for path in (course.root() / "notebooks" / f"{chapter}.ipynb", *course.check_sources(chapter)):
        with contextlib.suppress(OSError):  # what is missing is told by whoever needs it
            found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.digest()


def _plain() -> dict[str, str]:
    keep = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")
    return {name: os.environ[name] for name in keep if name in os.environ} | {"PYTHONHASHSEED": "0"}
