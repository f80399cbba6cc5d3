"""One job: grading one submission, from its answers to its verdict.

`grade_job` is what an executor runs: a pure function of a picklable value. It works in processes of its own, which the warm
servers of this machine fork for it; see `lives`.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from across._process import warm
from autograder.gpu import leases, simulated
from autograder.job import carried, check, clocks, forkserver, judge
from autograder.job.forkserver import InfrastructureError
from autograder.job.kernel_process import StartError
from autograder.job.life import Place
from autograder.job.lives import Graded, Lives
from autograder.model import digests
from autograder.model.course import Course, CourseError
from autograder.model.rubric import Rubric
from autograder.model.verdict import Evidence, Mark, Verdict
from autograder.sandbox import boxes, owners
from autograder.submissions.intake import Submission

CARD = 3600.0  # seconds that a job waits for its cards, which the others of its class have
EXPECTED = (warm.ServerError, StartError, check.CheckerError, boxes.SandboxError, OSError)
LOG = logging.getLogger("autograder.job")


@dataclass(frozen=True)
class Job:
    """What there is to grade: a value that can travel to another machine, with all that decides its verdict."""

    submission: Submission
    rubric: Rubric
    seed: int
    reference: tuple[
        tuple[str, str], ...
    ] = ()  # grade id, source: asked at a limit of time, decides whether there is a mark

    @property
    def chapter(self) -> str:
        """The chapter's name."""
        return self.submission.chapter

    @cached_property
    def answers(self) -> str:
        """The digest of what the student wrote, as far as it counts."""
        whole = [self.submission.answers, self.submission.invalid, self.submission.refused]
        added = list(map(list, self.submission.added))
        if self.rubric.chapter.assignment:  # nothing is no blank notebook there
            whole += [added, self.submission.nothing]
        elif added:
            whole += [added]
        return digests.of_json(whole)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what decides the verdict: equal digest and equal seed, equal verdict."""
        return digests.of_json([self.answers, self.rubric.digest])

    @property
    def parts(self) -> dict[str, str]:
        """What decides the verdict, each thing by name, to say what differs between two."""
        return {"answers": self.answers, **self.rubric.parts}


def grade_job(job: Job, course: Course) -> Verdict:
    """Grade one submission, by `course` as it lies on this machine.

    Raises InfrastructureError, and CourseError; never anything for what it contains.
    """
    started = time.monotonic()
    chapter = job.rubric.chapter
    if job.submission.refused:
        marks = judge.judge(job.rubric, job.submission, set(), judge.Seen())
        return _verdict(job, started, Graded(marks, chapter.release, (), Evidence()))
    name = f"{owners.new_name('j')}."
    try:
        servers = forkserver.servers(course, job.rubric)
        sockets = (servers.student.path, servers.checker.path, servers.driver.path)
        with _cards(job) as cards:
            place = Place(*sockets, course.private, name, cards)
            beside = _beside(job, place) if job.reference else None
            graded = Lives(job.submission, job.rubric, job.seed, place, reference=beside).run()
            marks = carried.after(job.rubric, job.submission, graded.marks, _again(job, place, beside))
            return _verdict(job, started, replace(graded, marks=marks))
    except (CourseError, InfrastructureError):
        raise
    except Exception as error:  # whatever it is: one submission is not graded, the others are
        LOG.warning("a job failed", exc_info=not isinstance(error, EXPECTED), extra={"box": name})
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC and not job.rubric.sandboxed
        where = f"; make room in {boxes.workroom().parent}, where boxes are made" if full else ""
        raise InfrastructureError(f"{type(error).__name__}: {error}{where}") from error
    finally:
        for left in boxes.sweep(name):  # what could not be removed when they were closed
            LOG.warning("something of a box was left, and is removed now", extra={"box": left})


def _beside(job: Job, place: Place) -> clocks.Reference:
    """The chapter's own answers, to be asked beside a job as it is: by its rubric, with its seed, in boxes of their own."""
    limits, numbers, answers = job.rubric.chapter.limits, itertools.count(), dict(job.reference)

    def slow(limit: str, exercises: tuple[str, ...]) -> bool:
        whole = limit == clocks.NOTEBOOK
        its, at = Submission("(reference)", job.chapter, answers), replace(place, name=f"{place.name}b{next(numbers)}.")
        only = () if whole else exercises
        asked = clocks.Reference({}, lambda *_: True)  # it gets one life: the first limit that it reaches ends it
        run = Lives(its, job.rubric, job.seed, at, only, reference=asked)
        try:
            seconds = run.run().evidence.seconds
        except clocks.BusyError:
            return True
        took = seconds["cells"] + seconds["questions"] if whole else run.clocks.took[limit]
        return took > getattr(limits, limit) / 2

    return clocks.Reference(answers, slow)


def _again(job: Job, place: Place, beside: clocks.Reference | None) -> carried.Again:
    """What grades a job's answers once more, asked of some exercises alone: in all as long as a submission may take."""
    until = time.monotonic() + job.rubric.chapter.limits.notebook_seconds
    beside = beside and replace(beside, answers={})  # what is the reference's here was put there

    def again(submission: Submission, exercises: tuple[str, ...], number: int) -> tuple[Mark, ...]:
        if time.monotonic() > until:
            return ()
        at = replace(place, name=f"{place.name}a{number}.")
        return Lives(submission, job.rubric, job.seed, at, exercises, until, beside).run().marks

    return again


@contextlib.contextmanager
def _cards(job: Job) -> Iterator[dict[str, Any]]:
    """GPUs for the job's kernels, as `KernelProcess` takes them: simulated, or cards leased for the time of the `with`."""
    chapter = job.rubric.chapter
    if not chapter.cards:
        environment = simulated.environment(chapter.gpus)
        yield {"environment": environment} if environment else {}
        return
    try:
        with leases.here().lease(chapter.cards, CARD) as cards:
            yield cards
    except leases.LeaseError as error:
        raise InfrastructureError(str(error)) from error


def _verdict(job: Job, started: float, graded: Graded) -> Verdict:
    submission = job.submission
    return Verdict(
        submission.student,
        submission.chapter,
        job.digest,
        graded.marks,
        job.seed,
        time.monotonic() - started,
        graded.notebook,
        (*submission.notes, *graded.notes),
        replace(graded.evidence, parts=job.parts),
        submission.language,
    )
