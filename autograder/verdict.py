"""What a submission is worth and why: the values that flow from the check to the record and the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """Whose fault it was that points were not given."""

    NONE = ""
    STUDENT = "STUDENT"  # scored
    LIMIT = "LIMIT"  # a limit was reached: scored, named
    AUTHOR = "AUTHOR"  # a check fails on the reference: stops the run
    INFRASTRUCTURE = "INFRASTRUCTURE"  # retried, never scored


class Result(StrEnum):
    """How one exercise of one submission ended: the column `verdict` of marks.csv."""

    PASSED = "passed"
    PARTIAL = "partial"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output"
    BLANK = "blank"
    INVALID = "invalid"
    MANUAL = "manual"


class Stop(StrEnum):
    """Why a cell or a question was given up."""

    CRASHED = "crashed"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output"


@dataclass(frozen=True)
class Outcome:
    """What one test of an exercise found."""

    exercise: str
    test: str
    passed: bool
    weight: float = 1.0
    kind: str = ""  # "assert"; "refused"; "deadline", "died", "size", "protocol"; or the exception that a check met
    says: str = ""  # for the student
    misconception: str = ""


@dataclass(frozen=True)
class Mark:
    """One exercise of one submission: a row of marks.csv and a grade cell of the gradebook."""

    exercise: str
    points: float
    max_points: float
    result: Result
    fault: Fault
    message: str  # one or two sentences for the student; plain text, any characters: escape where shown
    misconception: str = ""  # name of the listed wrong answer that this one resembles, if any


@dataclass(frozen=True)
class Verdict:
    """One submission of one chapter, graded."""

    student: str
    chapter: str
    digest: str  # of (answers, release, checks, seed policy, environment): equal digest, equal verdict
    marks: tuple[Mark, ...]  # one for each exercise of the chapter, in its order, whatever the submission was
    seed: int  # what the fresh inputs were drawn from
    seconds: float
    notebook: dict[str, Any] = field(repr=False)  # the assembled notebook as executed: nbformat 4 JSON
    notes: tuple[str, ...] = ()  # for the instructor: limits reached, restarts, what intake noticed

    @property
    def points(self) -> float:
        """The sum of the marks."""
        return sum(mark.points for mark in self.marks)
