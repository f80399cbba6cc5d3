"""The warm servers of one worker: student's kernels, one chapter's checkers, drivers. Started once, used for every job.

Each is a process of `across._process.warm`; they end with the process that started them. They get an environment with
hardly anything of ours in it: the memory of the student's server is inherited by every student's kernel, and the others
listen to what those say. The student's has a fixed seed of hashes, so that the same answers order a set in the same way.

Servers know what they were made of: the chapter, its checks and the grader, as these were on the disk when they were
launched and still were when they stood. A job is graded by servers that were made of what its rubric says, or by none.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from across._gpu import building
from across._process import warm
from across._system import version
from autograder.gpu import leases, simulated
from autograder.job import messages
from autograder.model import digests, rubric
from autograder.model.course import Chapter, Course, CourseError
from autograder.model.rubric import Rubric
from autograder.sandbox import boxes

SEED_POLICY = "hmac-sha256 of the answers' digest, keyed by the class's secret"
DRAWN_BY = ("numpy", "across")  # what every checker and every kernel has, whatever its course preloads
PLAN = 60.0  # seconds for a checker to tell its plan, once it stands

_LOCK = threading.Lock()
_STARTED: dict[tuple[Course, str], Servers] = {}  # by the course and the chapter
_ENDING = threading.Event()


class InfrastructureError(RuntimeError):
    """This machine's fault: the job may be tried again and is not scored."""


@dataclass
class Servers:
    """The servers that grade one chapter on this machine."""

    course: Course
    chapter: str
    student: warm.ForkServer
    checker: warm.ForkServer
    driver: warm.ForkServer
    made_of: str = ""  # see `Rubric.made_of`
    plan: messages.Plan | None = None

    @property
    def every(self) -> tuple[warm.ForkServer, ...]:
        """All of them."""
        return self.student, self.checker, self.driver

    def launch(self) -> None:
        """Start those that do not run, without waiting for them: they import while we do something else.

        Raises CourseError when what is to be preloaded is not installed.
        """
        now = _made_of(self.course, self.chapter)
        if now != self.made_of:  # what runs was made of something else
            self.close()
            self.made_of, self.plan = now, None
        for server in self.every:
            if not server.alive():
                server.launch()

    def ready(self) -> None:
        """Wait until all stand, and see that they are made of what they say. Raises warm.ServerError."""
        fresh = self.plan is None
        for server in self.every:
            try:
                server.ready()
            except warm.ServerError:  # killed while it imported, for one; what cannot start says so again
                server.start()
        if not fresh:
            return
        plan = _plan_of(self.checker)
        if _made_of(self.course, self.chapter) != self.made_of:
            self.close()
            raise InfrastructureError(f"{self.chapter} was changed while its servers were started; run this again")
        self.plan = plan

    def close(self) -> None:
        """End the servers and all their children."""
        for server in (self.driver, self.student, self.checker):
            server.close()


def launch(course: Course, chapter: str) -> None:
    """Start the servers for `chapter` without waiting for them. Raises CourseError."""
    with _LOCK:
        _launched(course, chapter).launch()


def make_rubric(
    course: Course,
    chapter: str,
    *,
    sandboxed: bool = True,
    limits: Mapping[str, Any] | None = None,
    gpus: int | str | None = None,
) -> Rubric:
    """The rubric by which `chapter` is graded from now on; its servers are started, which takes 5 s.

    `limits` go before the chapter's own, and so does `gpus`, see `limited`. Raises CourseError for the author's fault,
    InfrastructureError where simulated GPUs cannot be had, warm.ServerError with what the servers printed.
    """
    read = course.chapter(chapter)
    with _LOCK:
        started = _launched(course, chapter)
        started.launch()
        started.ready()
        plan = started.plan
    assert plan is not None
    if plan.author:
        raise CourseError(plan.author)
    if plan.machine:
        raise InfrastructureError(plan.machine)
    made = limited(read, limits, gpus)
    if made.gpus and not read.gpus:  # its servers were not prepared for any, and who witnesses has simulated ones
        try:
            building.build()
        except building.NoGpu as error:
            raise InfrastructureError(str(error)) from None
    return Rubric(made, tuple(plan.tests), plan.checks, digests.grader(), environment(course), sandboxed)


def limited(chapter: Chapter, limits: Mapping[str, Any] | None = None, gpus: int | str | None = None) -> Chapter:
    """The chapter with `limits` before its own, and its GPUs settled for a run.

    `gpus`: so many cards instead of its own number, or "simulated": its own number, without cards. None: its own number, of
    this machine's cards where it has as many, else simulated.
    """
    its = replace(chapter.limits, **(limits or {}))
    if isinstance(gpus, int):
        return replace(chapter, limits=its, gpus=gpus)
    simulates = chapter.gpus > 0 and (gpus == simulated.SIMULATED or leases.cards() < chapter.gpus)
    return replace(chapter, limits=its, simulated=simulates)


def servers(course: Course, wanted: Rubric) -> Servers:
    """The servers that grade by `wanted`, on `course` as it lies here, started on first use and when they have died.

    With TensorFlow that takes about 5 s. Raises InfrastructureError when what is on the disk is not, or no longer, what the
    rubric was made of; warm.ServerError with what they printed.
    """
    with _LOCK:
        started = _launched(course, wanted.chapter.name)
        if started.made_of != wanted.made_of or not all(server.alive() for server in started.every):
            started.launch()
        if started.made_of != wanted.made_of:
            raise InfrastructureError(
                f"{wanted.chapter.name}, its checks or the grader were changed since this run began; run it again"
            )
        started.ready()
        return started


def running(course: Course, wanted: Rubric) -> tuple[int, ...]:
    """The process numbers of the servers that grade by `wanted` already; none where they do not all run."""
    started = _STARTED.get((course, wanted.chapter.name))
    if started is None or started.made_of != wanted.made_of:
        return ()
    processes = [server.process for server in started.every if server.alive()]
    return tuple(each.pid for each in processes if each) if len(processes) == len(started.every) else ()


def environment(course: Course) -> str:
    """What a verdict depends on besides the chapter, the grader and the answers. Raises CourseError."""
    python = ".".join(map(str, sys.version_info[:3]))
    names = dict.fromkeys((*course.preload, *DRAWN_BY))
    return f"python {python}, {', '.join(f'{name} {_version(course, name)}' for name in names)}, seeds: {SEED_POLICY}"


def _version(course: Course, module: str) -> str:
    """The version of the package that a module is of. Raises CourseError where it is not installed."""
    package = module.partition(".")[0]
    if package not in sys.modules and find_spec(package) is None:
        raise CourseError(f"{course.file}: preload: {module!r} is not installed here; add it to this environment")
    if found := version(package):
        return found
    return ", ".join(metadata.version(name) for name in _packages().get(package, ())) or "of Python itself"


@cache
def _packages() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


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


def _launched(course: Course, chapter: str) -> Servers:
    """The servers of `chapter`, whether or not they run."""
    if _ENDING.is_set():
        raise warm.ServerError("the grader is ending")
    if (course, chapter) not in _STARTED:
        if not _STARTED:
            boxes.remove_leftovers()
            atexit.register(close)
        # a rerun orders sets in the same way, those in a check's sentence too
        env, gpu = {**_plain(), "PYTHONHASHSEED": "0"}, []
        with contextlib.suppress(CourseError):  # told by whoever needs it
            gpu = [simulated.PRELOADED] if course.chapter(chapter).gpus else []
        _STARTED[course, chapter] = Servers(
            course,
            chapter,
            warm.ForkServer("autograder.job.student_server", *course.preload, *gpu, env=env, bare=True),
            warm.ForkServer("autograder.job.checker", course.dumps(), chapter, env=env, bare=True),
            warm.ForkServer("autograder.job.driver", env=_plain(), bare=True),
        )
    return _STARTED[course, chapter]


def _plan_of(checker: warm.ForkServer) -> messages.Plan:
    """What the checker's server has read."""
    with checker.request({"plan": True}) as child:
        try:
            return messages.received(child.receive(PLAN) or {}, messages.Plan)
        except (TimeoutError, messages.MessageError) as error:
            raise warm.ServerError(f"the checker tells no plan: {error!r}\n{checker.printed()}") from None


def _made_of(course: Course, chapter: str) -> str:
    """The digest of what is on the disk now. Raises CourseError."""
    try:
        release = digests.of_release(course.chapter(chapter).release)
    except CourseError:  # told by whoever needs it
        release = ""
    checks = digests.of_checks(course.check_sources(chapter))
    return rubric.made_of(chapter, release, checks, digests.of_grader(), environment(course))


def _plain() -> dict[str, str]:
    """What a server needs of our environment: its children read what students' processes say, and hold no secret.

    It works in another folder than we do; an empty part of PYTHONPATH, which means the working folder, is left out.
    """
    keep = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "ACROSS_CACHE")
    places = [os.path.abspath(place) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    plain = {name: os.environ[name] for name in keep if name in os.environ}
    return plain | ({"PYTHONPATH": os.pathsep.join(places)} if places else {})
