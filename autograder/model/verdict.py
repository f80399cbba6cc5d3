"""What a submission is worth and why: the values that flow from the check to the record and the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import msgspec

CARRIED = "carried over from"  # how the label of an answer begins that is right on top of the reference's earlier ones
LOOK = "please look: "  # how a note begins that needs a person: what was taken may be another than was meant
NOTHING = "nothing was submitted"  # how intake's note of that begins


class Fault(StrEnum):
    """Whose fault it was that points were not given."""

    NONE = ""
    STUDENT = "STUDENT"  # scored
    LIMIT = "LIMIT"  # a limit was reached: scored, named
    AUTHOR = "AUTHOR"  # a check fails on the reference: stops the run; or it broke on an answer: no points, listed
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
    PROCESSES = "processes"
    BLANK = "blank"
    MISSING = "missing"  # its cell is not in the notebook
    INVALID = "invalid"
    ABSENT = "absent"  # nothing was handed in: of a row, never of a mark
    MANUAL = "manual"


UNREAD = frozenset({Result.MISSING, Result.INVALID})  # nobody has seen the answer: no mark of 0 by itself


class Stop(StrEnum):
    """Why a cell or a question was given up."""

    CRASHED = "crashed"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output"
    PROCESSES = "processes"


class Lost(StrEnum):
    """How a kernel or its checker was lost while a test ran: after it the kernel is not asked again."""

    DEADLINE = "deadline"  # no answer in time
    DIED = "died"
    SIZE = "size"  # the answer had too many bytes
    PROTOCOL = "protocol"  # what came was no answer, or ended the checker


# How a test ends that does what it promised: anything else is an exception that the check itself met.
ASSERT, REFUSED = "assert", "refused"
ENDS = frozenset({"", ASSERT, REFUSED, *Lost})


WEAK = "weak: computed where the student's code runs"  # what is said of such a test, wherever it is shown


@dataclass(frozen=True)
class Outcome:
    """What one test of an exercise found."""

    exercise: str
    test: str
    passed: bool
    weight: float = 1.0
    kind: str = ""  # ASSERT; REFUSED; one of Lost; or the exception that a check met
    says: str = ""  # for the student
    misconception: str = ""  # that the check's sentence speaks of
    share: float = 0.0  # of the test's points, where it did not pass
    weak: bool = False  # it was computed where the student's code runs

    @property
    def broke(self) -> bool:
        """Whether the check itself raised, on what the student's code had answered: the author's to mend."""
        return self.kind not in ENDS


@dataclass(frozen=True)
class Halt:
    """A kernel's life that ended too early: where, why, and at which limit."""

    stop: Stop
    cell: str = ""  # grade id of the answer whose cell ran; empty if it was being asked
    exercise: str = ""  # that it was being asked about
    life: int = 1  # which kernel of the submission it was
    limit: str = ""  # the field of course.Limits; empty if no limit did it
    value: float = 0.0  # of that limit: seconds or bytes
    note: str = ""  # what was seen


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on."""

    outcomes: tuple[Outcome, ...] = ()  # each test that was run, in order
    halts: tuple[Halt, ...] = ()
    lives: int = 0  # kernels that it had
    most_lives: int = 0  # that it might have had
    seconds: dict[str, float] = field(default_factory=dict)  # by step: start, cells, questions
    parts: dict[str, str] = field(default_factory=dict)  # what the digest is of: see grade.Job.parts
    kept_by: str = ""  # who kept its memory and processes within their limits: see sandbox.boxes.Box


@dataclass(frozen=True)
class Mark:
    """One exercise of one submission: a row of marks.csv and a grade cell of the gradebook."""

    exercise: str
    points: float
    max_points: float
    result: Result
    fault: Fault
    message: str  # one or two sentences for the student; plain text, any characters: escape where shown
    misconception: str = ""  # the listed wrong answer that `message` speaks of: see `probe.asking.misconception`


@dataclass(frozen=True)
class Verdict:
    """One submission of one chapter, graded."""

    student: str
    chapter: str
    digest: str  # of answers and rubric: equal digest, equal verdict
    marks: tuple[Mark, ...]  # one for each exercise of the chapter, in its order, whatever the submission was
    seed: int  # what the fresh inputs were drawn from
    seconds: float
    notebook: dict[str, Any] = field(repr=False)  # the assembled notebook as executed: nbformat 4 JSON
    notes: tuple[str, ...] = ()  # for the instructor: limits reached, restarts, what intake noticed
    evidence: Evidence = field(default_factory=Evidence)
    language: str = "en"  # of the student's page: see `intake.Submission`; no part of the digest

    @classmethod
    def from_json(cls, value: dict[str, Any], notebook: dict[str, Any]) -> Verdict:
        """Return the verdict that `to_json` wrote. Raises ValueError."""
        try:
            return msgspec.convert({**value, "notebook": notebook}, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"no verdict: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values: all but the notebook."""
        return {**asdict(replace(self, notebook={})), "notebook": None}

    @property
    def nothing(self) -> bool:
        """Whether nothing was handed in."""
        return any(note.startswith(NOTHING) for note in self.notes)

    @property
    def points(self) -> float:
        """The sum of the marks."""
        return sum(mark.points for mark in self.marks)
