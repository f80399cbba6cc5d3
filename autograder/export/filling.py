"""What came of filling a downloaded gradebook: how many cells, and what an instructor must know of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograder.export.totals import Total
from autograder.gradebook.record import number
from autograder.model import harmless
from autograder.model.course import CourseError

LISTED = 20


@dataclass
class Filled:
    """A file to be imported, as an instructor wants it, and what is not in it."""

    scale: bool = False  # to the points that the system has
    as_it_stands: bool = False  # what waits for a mark by hand, too
    data: bytes = b""
    filled: int = 0
    changed: int = 0  # of them: another mark stood there
    untouched: int = 0  # cells of students without a mark
    worth: int = 0  # marks above 0 among the filled
    waiting: int = 0  # marks left out because of a person's that is not given yet
    troubles: list[str] = field(default_factory=list)  # somebody's mark is not in it

    @property
    def zeros_alone(self) -> bool:
        """Whether nothing but zeros is in it, because who has more waits for a mark by hand."""
        return bool(self.filled and self.waiting) and not self.worth

    def said(self) -> list[str]:
        """The troubles, a line each, of the first `LISTED`."""
        more = len(self.troubles) - LISTED
        return self.troubles[:LISTED] + ([f"and {more} more"] if more > 0 else [])


def owners(path: Path, found: Sequence[set[str]], students: set[str], filled: Filled) -> list[str]:
    """The one student that each row is of, or none: who has no row, two rows, or shares one is told in `filled`."""
    claimed = Counter(student for who in found for student in who)
    made = []
    for line, who in enumerate(found):
        clear = len(who) == 1 and claimed[min(who)] == 1
        made.append(min(who) if clear else "")
        if len(who) > 1:
            names = ", ".join(harmless.line(student) for student in sorted(who))
            filled.troubles.append(f"{path.name}, student {line + 1}: may be {names}; give lms ids with --roster")
    for student in sorted(students):
        if not claimed[student]:
            mend = "give the lms id with --roster, or download anew"
            filled.troubles.append(f"{harmless.line(student)}: has a mark, but no row in {path.name}; {mend}")
        elif claimed[student] > 1:
            filled.troubles.append(
                f"{harmless.line(student)}: fits {claimed[student]} rows; give lms ids with --roster"
            )
    return made


def mark(total: Total, possible: str, where: str, filled: Filled) -> str | None:
    """What is written for a student, None for nothing yet. `possible` are the system's points.

    Raises CourseError when these are not the chapter's.
    """
    if why := total.not_yet(filled.as_it_stands):
        filled.troubles.append(f"{harmless.line(total.student)}, {total.chapter}: {why}")
        filled.waiting += not total.fault
        return None
    filled.worth += total.points > 0
    try:
        most = float(possible.replace(",", "."))
    except ValueError:
        raise CourseError(f"{where}: {possible!r} are no points; let the assignment be graded by points") from None
    if abs(most - total.max_points) < 0.005:
        return number(total.points)
    if not filled.scale:
        raise CourseError(
            f"{where}: {possible} points are possible there, {number(total.max_points)} here; set it to "
            f"{number(total.max_points)} there and download again, or add --scale"
        )
    return number(total.points / total.max_points * most)
