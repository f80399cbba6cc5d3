"""The warm servers of one worker: student's kernels, one chapter's checkers, drivers. Started once, used for every job.

Each is a process of `across._process.warm`; they end with the process that started them. They get an environment with
hardly anything of ours in it: the memory of the student's server is inherited by every student's kernel, and the others
listen to what those say. The student's has a fixed seed of hashes, so that the same answers order a set in the same way.

Servers know what they were made of: the chapter, its checks and the grader, as these were on the disk when they were
launched and still were when they stood. A job is graded by servers that were made of what its rubric says, or by none.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from across._process import warm
from autograder.job import messages
from autograder.model import course, digests, rubric
from autograder.model.course import CourseError
from autograder.model.rubric import PlannedTest, Rubric
from autograder.sandbox import boxes

SEED_POLICY = "hmac-sha256 of the answers' digest, keyed by the class's secret"
PLAN = 60.0  # seconds for a checker to tell its plan, once it stands

_LOCK = threading.Lock()
_STARTED: dict[tuple[str, str], Servers] = {}  # by the course's folder and the chapter
_ENDING = threading.Event()


class InfrastructureError(RuntimeError):
    """This machine's fault: the job may be tried again and is not scored."""


@dataclass
class Servers:
    """The servers that grade one chapter on this machine."""

    chapter: str
    student: warm.ForkServer
    checker: warm.ForkServer
    driver: warm.ForkServer
    made_of: str = ""  # see `Rubric.made_of`
    plan: messages.Plan | None = None

    def launch(self) -> None:
        """Start those that do not run, without waiting for them: they import TensorFlow while we do something else."""
        now = _made_of(self.chapter)
        if now != self.made_of:  # what runs was made of something else
            self.close()
            self.made_of, self.plan = now, None
        for server in (self.student, self.checker, self.driver):
            if not server.alive():
                server.launch()

    def ready(self) -> None:
        """Wait until all stand, and see that they are made of what they say. Raises warm.ServerError."""
        fresh = self.plan is None
        for server in (self.student, self.checker, self.driver):
            server.ready()
        if not fresh:
            return
        plan = _plan_of(self.checker)
        if _made_of(self.chapter) != self.made_of:
            self.close()
            raise InfrastructureError(f"{self.chapter} was changed while its servers were started; run this again")
        self.plan = plan

    def close(self) -> None:
        """End the servers and all their children."""
        for server in (self.driver, self.student, self.checker):
            server.close()


def launch(chapter: str) -> None:
    """Start the servers for `chapter` without waiting for them."""
    with _LOCK:
        _launched(chapter).launch()


def make_rubric(
    chapter: str, *, sandboxed: bool = True, limits: dict[str, Any] | None = None, gpus: int | None = None
) -> Rubric:
    """The rubric by which `chapter` is graded from now on; its servers are started, which takes 5 s.

    `limits` go before the chapter's own, and so does `gpus`, the number of cards. Raises CourseError for the author's
    fault, warm.ServerError with what the servers printed.
    """
    course.chapter.cache_clear()  # it may have been built anew
    read = course.chapter(chapter)
    plan = read_plan(chapter)
    made = replace(read, limits=replace(read.limits, **(limits or {})), gpus=read.gpus if gpus is None else gpus)
    tests = tuple(PlannedTest(exercise, name, weight) for exercise, name, weight in plan.tests)
    return Rubric(made, tests, plan.checks, digests.grader(), environment(), sandboxed)


def read_plan(chapter: str) -> messages.Plan:
    """Every test of a chapter's checks. Raises CourseError for checks that cannot be read, warm.ServerError."""
    with _LOCK:
        started = _launched(chapter)
        started.launch()
        started.ready()
        plan = started.plan
    assert plan is not None
    if plan.author:
        raise CourseError(plan.author)
    return plan


def servers(wanted: Rubric) -> Servers:
    """The servers that grade by `wanted`, started on first use and when they have died: about 5 s.

    Raises InfrastructureError when what is on the disk is not, or no longer, what the rubric was made of;
    warm.ServerError with what they printed.
    """
    with _LOCK:
        started = _launched(wanted.chapter.name)
        every = (started.student, started.checker, started.driver)
        if started.made_of != wanted.made_of or not all(server.alive() for server in every):
            started.launch()
        if started.made_of != wanted.made_of:
            raise InfrastructureError(
                f"{wanted.chapter.name}, its checks or the grader were changed since this run began; run it again"
            )
        started.ready()
        return started


def environment() -> str:
    """What a verdict depends on besides the course, the grader and the answers."""
    python = ".".join(map(str, sys.version_info[:3]))
    return f"python {python}, tensorflow {version('tensorflow')}, across {version('across')}, seeds: {SEED_POLICY}"


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
    """The servers of `chapter`, whether or not they run."""
    if _ENDING.is_set():
        raise warm.ServerError("the grader is ending")
    here = str(course.root()), chapter
    if here not in _STARTED:
        if not _STARTED:
            boxes.remove_leftovers()
            atexit.register(close)
        checks = {"ACROSS_COURSE": here[0], "ACROSS_CHAPTER": chapter, "ACROSS_SERVES": "checker"}
        _STARTED[here] = Servers(
            chapter,
            warm.ForkServer("autograder.job.student_server", env={**_plain(), "PYTHONHASHSEED": "0"}, bare=True),
            warm.ForkServer("autograder.job.checker", env={**_plain(), **checks}, bare=True),
            warm.ForkServer("autograder.job.driver", env=_plain(), bare=True),
        )
    return _STARTED[here]


def _plan_of(checker: warm.ForkServer) -> messages.Plan:
    """What the checker's server has read."""
    with checker.request({"plan": True}) as child:
        try:
            return messages.received(child.receive(PLAN) or {}, messages.Plan)
        except (TimeoutError, messages.MessageError) as error:
            raise warm.ServerError(f"the checker tells no plan: {error!r}\n{checker.printed()}") from None


def _made_of(chapter: str) -> str:
    """The digest of what is on the disk now."""
    course.chapter.cache_clear()
    try:
        release = digests.of_release(course.chapter(chapter).release)
    except CourseError:  # told by whoever needs it
        release = ""
    return rubric.made_of(chapter, release, digests.of_checks(chapter), digests.of_grader())


def _plain() -> dict[str, str]:
    """What a server needs of our environment: its children read what students' processes say, and hold no secret."""
    keep = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")
    return {name: os.environ[name] for name in keep if name in os.environ}
