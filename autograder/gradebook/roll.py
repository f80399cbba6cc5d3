"""The roll of a chapter, beside nbgrader's gradebook: who handed in nothing, or how often, and whom this machine failed at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Table, delete, insert, select

from autograder.gradebook import database, record
from autograder.gradebook.schema import ABSENT, ATTEMPT, LEFT, VERDICTS
from autograder.model.course import Chapter
from autograder.model.harmless import visible


def left(out: Path, chapter: Chapter) -> dict[str, str]:
    """The students whom this machine could not grade when they were graded last, and why."""
    if not database.exists(out):
        return {}
    with record.book(out, chapter) as book, book.reading() as connection:
        query = select(LEFT.c.student, LEFT.c.why).where(LEFT.c.chapter == chapter.name).order_by(LEFT.c.student)
        return {student: why for student, why in connection.execute(query)}


def keep_left(out: Path, chapter: Chapter, faults: Mapping[str, str]) -> None:
    """Keep whom this machine could not grade, and why, in place of those before. Raises CourseError, GradebookError."""
    said = {visible(student): visible(why) for student, why in faults.items()}
    if said != left(out, chapter):
        lines = [{"chapter": chapter.name, "student": student, "why": why} for student, why in said.items()]
        _replace(out, chapter, LEFT, lines)


def absent(out: Path, chapter: Chapter) -> list[str]:
    """Who handed in nothing, as the roster had it, and was not graded since."""
    if not database.exists(out):
        return []
    with record.book(out, chapter) as book, book.reading() as connection:
        query = select(ABSENT.c.student).where(ABSENT.c.chapter == chapter.name)
        graded = select(VERDICTS.c.student).where(VERDICTS.c.chapter == chapter.name)
        return sorted({*connection.scalars(query)} - {*connection.scalars(graded)})


def keep_absent(out: Path, chapter: Chapter, students: Collection[str]) -> None:
    """Keep who handed in nothing, in place of those before. Raises CourseError, GradebookError."""
    _replace(out, chapter, ABSENT, [{"chapter": chapter.name, "student": each} for each in sorted(students)])


def attempts(out: Path, chapter: Chapter) -> dict[str, str]:
    """Which of a student's notebooks counted, of how many: "2 of 3"; of whom that is known."""
    if not database.exists(out):
        return {}
    with record.book(out, chapter) as book, book.reading() as connection:
        query = select(ATTEMPT.c.student, ATTEMPT.c.said).where(ATTEMPT.c.chapter == chapter.name)
        return {student: said for student, said in connection.execute(query)}


def keep_attempts(out: Path, chapter: Chapter, said: Mapping[str, str], of: Collection[str]) -> None:
    """Keep it of these students, in place of what was before. Raises CourseError, GradebookError."""
    there = attempts(out, chapter)
    now = {student: each for student, each in there.items() if student not in of}
    now |= {student: each for student, each in said.items() if student in of}
    if now != there:
        lines = [{"chapter": chapter.name, "student": student, "said": each} for student, each in now.items()]
        _replace(out, chapter, ATTEMPT, lines)


def _replace(out: Path, chapter: Chapter, table: Table, lines: list[dict[str, Any]]) -> None:
    with record.book(out, chapter) as book, book.transaction() as connection:
        connection.execute(delete(table).where(table.c.chapter == chapter.name))
        if lines:
            connection.execute(insert(table), lines)
