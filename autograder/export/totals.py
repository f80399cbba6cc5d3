"""What a student has for a chapter: as gradebook and feedback say, and whether it may leave the house yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograder.gradebook import record, roll
from autograder.model import harmless
from autograder.model.course import Chapter
from autograder.model.verdict import Result


@dataclass(frozen=True)
class Total:
    """One student's mark of one chapter."""

    student: str
    chapter: str
    points: float  # what counts: less what the late policy takes off
    max_points: float
    waiting: int = 0  # exercises that wait for a mark by hand
    missing: int = 0  # exercises whose cell is not in the notebook: no mark of 0 by itself
    fault: str = ""  # why this machine could not grade what was handed in last

    def not_yet(self, waiting: bool, missing: bool = True) -> str:
        """Why it does not leave the house, and the mend; empty where it does. `waiting`: as it stands now.

        Without `missing`, cells that are not in the notebook keep nothing back.
        """
        mend = "give them in the formgrader, or add --waiting"
        if self.fault:
            return f"not graded: {harmless.line(self.fault)}; grade again"
        if self.missing and missing and not waiting:
            return f"{self.missing} answer cells are not in the notebook; have it handed in again, or {mend}"
        return f"{self.waiting} exercises wait for a mark by hand; {mend}" if self.waiting and not waiting else ""


def totals(out: Path, chapter: Chapter) -> list[Total]:
    """The totals of a chapter, by student; who was never graded has none. Raises CourseError if OUT has no gradebook."""
    faults = roll.left(out, chapter)
    return [
        Total(
            each.student,
            chapter.name,
            each.points,
            chapter.max_points,
            sum(row.waiting for row in each.rows),
            sum(row.verdict is Result.MISSING for row in each.rows),
            faults.get(each.student, ""),
        )
        for each in record.records(out, chapter)
    ]
