"""What decides a mark besides the answers: one frozen value, built once a run and carried by every job.

Two jobs with equal answers and equal rubrics get equal verdicts, wherever and whenever they are graded. Nothing else may
decide one: no environment variable, no file that is read again, no order of tests.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from autograder.model import digests
from autograder.model.course import Chapter, Exercise

TIMES = ("cell_seconds", "notebook_seconds", "question_seconds")


@dataclass(frozen=True)
class InBox:
    """That a test is a test cell of nbgrader's, which runs where the student's code runs: weaker than a check."""

    cell: str  # its grade id
    uses: tuple[str, ...]  # the global names that it reads, its hidden tests too
    binds: tuple[str, ...]


@dataclass(frozen=True)
class PlannedTest:
    """A test that will be run, with the exercise whose points it shares, by weight, with that exercise's other tests."""

    exercise: str
    name: str
    weight: float = 1.0
    in_box: InBox | None = None
    trusting: bool = False  # its evidence is what the student's process says: see `asking.exercise`

    @property
    def weak(self) -> bool:
        """Whether what it found was computed where the student's code runs."""
        return self.trusting or self.in_box is not None


@dataclass(frozen=True)
class Rubric:
    """How one chapter is graded in one run."""

    chapter: Chapter  # as released; its limits, and how many cards it gets, are those of this run
    tests: tuple[PlannedTest, ...]  # all that will be run, in order
    checks: str  # digest of what the tests were read from
    grader: str  # digest of the code that executes, asks and judges
    environment: str  # versions of what was preloaded and the like, and how inputs are drawn
    sandboxed: bool = True  # False: `--trust-submissions`
    reference: tuple[tuple[str, str], ...] = ()  # grade id, source: where the chapter follows errors through
    time: float = 1.0  # the factor of this student's limits of time: those of `chapter` have it already

    @cached_property
    def release(self) -> str:
        """The digest of the chapter as released."""
        return digests.of_release(self.chapter.release)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return digests.of_json(self.parts | {"tests": [asdict(test) for test in self.tests]})

    @cached_property
    def parts(self) -> dict[str, str]:
        """What decides a verdict besides the answers, each thing by name, to say what differs between two verdicts."""
        share, gpus = self.chapter.follow_through, self.chapter.gpus
        known = digests.of_json(self.references) if self.reference else "no reference"
        return {
            "release": self.release,
            "course": self.chapter.course,
            "limits": digests.of_json([asdict(self.chapter.limits), asdict(self.chapter.checker)]),
            "graphs": digests.of_json(sorted(self.chapter.allowed_ops)),
            "checks": self.checks,
            "grader": self.grader,
            "environment": self.environment,
            "sandbox": "sandboxed" if self.sandboxed else "trusted: graded without a sandbox",
            "devices": f"{gpus} {'simulated GPUs' if self.chapter.simulated else 'cards'}" if gpus else "no card",
            "points": f"{self.chapter.step!r} a step",
            "follow-through": "none" if share is None else f"{share!r}, {known}",
            **({"files": digests.of_files(self.chapter.files)} if self.chapter.files else {}),
            **({} if self.time == 1.0 else {"time": f"{self.time:g} times the chapter's"}),
        }

    def with_time(self, factor: float) -> Rubric:
        """The same for a student who has `factor` times the time: for a cell, the notebook and a question."""
        limits = {name: factor * getattr(self.chapter.limits, name) for name in TIMES}
        if factor == 1.0:
            return self
        return replace(self, chapter=replace(self.chapter, limits=replace(self.chapter.limits, **limits)), time=factor)

    @cached_property
    def references(self) -> dict[str, str]:
        """The reference's source of each answer, if errors are followed through; else nothing."""
        return dict(self.reference)

    @cached_property
    def made_of(self) -> str:
        """The digest of what the warm servers that grade by it must have read."""
        return made_of(self.chapter.name, self.release, self.checks, self.grader, self.environment)

    def exercise(self, name: str) -> Exercise:
        """The exercise of that name. Raises KeyError."""
        return {exercise.name: exercise for exercise in self.chapter.exercises}[name]

    def tests_of(self, exercise: str) -> tuple[PlannedTest, ...]:
        """The tests among which the points of `exercise` are shared."""
        return tuple(test for test in self.tests if test.exercise == exercise)

    def weak(self, exercise: str) -> bool:
        """Whether what decides an exercise's points is computed where the student's code runs."""
        return any(test.in_box for test in self.tests_of(exercise))


def made_of(chapter: str, release: str, checks: str, grader: str, environment: str) -> str:
    """One digest of a chapter's name, three digests, and what was preloaded."""
    return hashlib.sha256("\0".join((chapter, release, checks, grader, environment)).encode()).hexdigest()
