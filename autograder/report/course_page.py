"""The course at a glance: one self-contained page, chapters by students, with everyone's total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.gradebook import roll
from autograder.gradebook.record import number, some
from autograder.model import harmless
from autograder.model.course import Chapter
from autograder.report import attention, rendering
from autograder.report.class_page import feedback_link, page_name
from autograder.report.standing import Standing, marked
from autograder.store import files

NOT_GRADED, ABSENT, WAITS = "?", "–", "✎"
FILTERS = {"": "everyone", "waiting": "waiting for a mark", "late": "late", "none": "absent or not graded somewhere"}


@dataclass(frozen=True)
class Cell:
    """What stands of one student in one chapter."""

    text: str = ""
    points: float | None = None  # None: not known, or not in that class
    says: str = ""  # under the pointer
    link: str = ""
    flags: tuple[str, ...] = ()  # which of FILTERS it is in


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

    @property
    def flags(self) -> list[str]:
        """Which of FILTERS it is in."""
        return sorted({flag for cell in self.cells for flag in cell.flags})


@dataclass(frozen=True)
class ChapterLine:
    """A chapter: how its class stands."""

    chapter: Chapter
    page: str  # of its own; empty if there is none
    graded: int
    absent: int
    median: str
    needs: tuple[str, ...]  # what a person should look at first


def write(out: Path, standings: Sequence[Standing]) -> Path:
    """Write OUT/report.html for a course of several chapters, a page run by no script but ours."""
    left = [(each.chapter, student, why) for each in standings for student, why in each.faults.items()]
    everyone = lines(standings)
    page = rendering.render(
        "course_page.html",
        script="table.js",
        course=standings[0].chapter.course,
        chapters=[_chapter(Path(out), each) for each in standings],
        left=left,
        lines=everyone,
        called=roll.names(out, standings[0].chapter),
        filters=[
            (flag, says, count)
            for flag, says in FILTERS.items()
            if (count := sum(not flag or flag in line.flags for line in everyone)) or not flag
        ],
        max_points=sum(each.chapter.max_points for each in standings),
        signs=f"{NOT_GRADED} not graded: this machine failed  {ABSENT} absent  {WAITS} waits for a mark by hand",
    )
    return files.replace(Path(out) / "report.html", page.encode("utf-8"))


def lines(standings: Sequence[Standing]) -> list[Line]:
    """Everyone of any chapter's class, by name."""
    cells = [_cells(each) for each in standings]
    students = sorted({student for each in cells for student in each}, key=lambda each: (each.casefold(), each))
    return [Line(student, tuple(each.get(student, Cell()) for each in cells)) for student in students]


def _cells(standing: Standing) -> dict[str, Cell]:
    found = {student: Cell(ABSENT, 0.0, "absent", flags=("none",)) for student in standing.missing}
    for student, why in standing.faults.items():
        found[student] = Cell(NOT_GRADED, None, f"not graded: {why}", flags=("none",))
    for record in standing.counted:
        says = [f"late, −{number(record.penalty)}"] if record.penalty else ["late"] if record.seconds_late else []
        waiting = sum(row.waiting for row in record.rows)
        says += [f"{some(waiting, 'answer')} wait{'s' * (waiting == 1)} for a mark by hand"] if waiting else []
        absent = roll.handed_in_nothing(record)
        text = ABSENT if absent else number(record.points) + (f" {WAITS}" if waiting else "")
        link = feedback_link(record.student, standing.chapter.name)
        is_in = {"waiting": waiting, "late": record.seconds_late, "none": absent}
        flags = tuple(flag for flag, holds in is_in.items() if holds)
        found[record.student] = Cell(text, record.points, "; ".join(["absent"] if absent else says), link, flags)
    return found


def _chapter(out: Path, standing: Standing) -> ChapterLine:
    page = page_name(standing.chapter) if (out / page_name(standing.chapter)).is_file() else ""
    counted = marked(standing.chapter, standing.counted)
    median = "" if counted.median is None else f"{number(counted.median)} of {number(counted.max_points)}"
    if median and counted.left_out:
        median += f" without {', '.join(harmless.line(each.name) for each in counted.left_out)}"
    needs = attention.needs(standing.chapter, standing.counted, standing.faults, {})
    said = tuple(f"{need.short}: {sum(len(seen.students) for seen in need.seen)}" for need in needs)
    return ChapterLine(standing.chapter, page, len(standing.counted), len(standing.missing), median, said)
