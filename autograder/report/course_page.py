"""The course at a glance: one self-contained page, chapters by students, with everyone's total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.gradebook.record import number
from autograder.model.verdict import Result
from autograder.report import rendering
from autograder.report.class_page import feedback_link, page_name
from autograder.report.standing import Standing
from autograder.store import files

NOT_GRADED, ABSENT, WAITS = "?", "–", "✎"


@dataclass(frozen=True)
class Cell:
    """What stands of one student in one chapter."""

    text: str = ""
    points: float | None = None  # None: not known, or not in that class
    says: str = ""  # under the pointer
    link: str = ""


@dataclass(frozen=True)
class Line:
    """A student: a cell a chapter, in order, and what they add up to."""

    student: str
    cells: tuple[Cell, ...]

    @property
    def total(self) -> float:
        """The sum of what is known."""
        return sum(cell.points or 0.0 for cell in self.cells)

    @property
    def whole(self) -> bool:
        """Whether nothing of it is left ungraded."""
        return all(cell.text != NOT_GRADED for cell in self.cells)


def write(out: Path, standings: Sequence[Standing]) -> Path:
    """Write OUT/report.html for a course of several chapters."""
    there = {each.chapter.name for each in standings if (Path(out) / page_name(each.chapter)).is_file()}
    return files.replace(Path(out) / "report.html", render(standings, there).encode("utf-8"))


def render(standings: Sequence[Standing], pages: set[str]) -> str:
    """Return the page as HTML, without scripts; `pages` are the chapters with a page of their own."""
    chapters = [
        (each, page_name(each.chapter) if each.chapter.name in pages else "", _facts(each)) for each in standings
    ]
    left = [(each.chapter, student, why) for each in standings for student, why in each.faults.items()]
    return rendering.render(
        "course_page.html",
        course=standings[0].chapter.course,
        chapters=chapters,
        left=left,
        lines=lines(standings),
        max_points=sum(each.chapter.max_points for each in standings),
        signs=f"{NOT_GRADED} not graded: this machine failed  {ABSENT} absent  {WAITS} waits for a mark by hand",
    )


def lines(standings: Sequence[Standing]) -> list[Line]:
    """Everyone of any chapter's class, by name."""
    cells = [_cells(each) for each in standings]
    students = sorted({student for each in cells for student in each})
    return [Line(student, tuple(each.get(student, Cell()) for each in cells)) for student in students]


def _cells(standing: Standing) -> dict[str, Cell]:
    found = {student: Cell(ABSENT, 0.0, "absent") for student in standing.missing}
    found |= {student: Cell(NOT_GRADED, None, f"not graded: {why}") for student, why in standing.faults.items()}
    for record in standing.counted:
        says = [f"late, −{number(record.penalty)}"] if record.penalty else ["late"] if record.seconds_late else []
        waiting = sum(row.waiting for row in record.rows)
        says += [f"{waiting} answers wait for a mark by hand"] if waiting else []
        absent = all(row.verdict is Result.ABSENT for row in record.rows)
        text = ABSENT if absent else number(record.points) + (f" {WAITS}" if waiting else "")
        link = feedback_link(record.student, standing.chapter)
        found[record.student] = Cell(text, record.points, "; ".join(["absent"] if absent else says), link)
    return found


def _facts(standing: Standing) -> str:
    count = len(standing.counted)
    facts = [f"{count} graded"]
    facts += [f"{len(standing.missing)} absent"] if standing.missing else []
    facts += [f"{len(standing.faults)} not graded"] if standing.faults else []
    if count:
        points = sorted(record.points for record in standing.counted)
        middle = (points[(count - 1) // 2] + points[count // 2]) / 2
        facts.append(f"median {number(middle)} of {number(standing.chapter.max_points)}")
    return " · ".join(facts)
