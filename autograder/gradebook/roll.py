"""The roll of a chapter: who handed in nothing, or how often, and whom this machine failed at, beside nbgrader's gradebook; and
names and addresses of a class in its table of students, where nbgrader's formgrader and its exports take them from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Table, delete, insert, select

from autograder.gradebook import database, record
from autograder.gradebook.record import Record
from autograder.gradebook.schema import ABSENT, ATTEMPT, LEFT, VERDICTS
from autograder.model.course import Chapter
from autograder.model.harmless import visible
from autograder.model.verdict import Result
from autograder.submissions.roster import Enrolled


def left(out: Path, chapter: Chapter) -> dict[str, str]:
    """The students whom this machine could not grade when they were graded last, and why."""
    return _said(out, chapter, LEFT, LEFT.c.why)


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
    return _said(out, chapter, ATTEMPT, ATTEMPT.c.said)


def keep_attempts(out: Path, chapter: Chapter, said: Mapping[str, str], of: Collection[str]) -> None:
    """Keep it of these students, in place of what was before. Raises CourseError, GradebookError."""
    there = attempts(out, chapter)
    now = {student: each for student, each in there.items() if student not in of}
    now |= {student: each for student, each in said.items() if student in of}
    if now != there:
        lines = [{"chapter": chapter.name, "student": student, "said": each} for student, each in now.items()]
        _replace(out, chapter, ATTEMPT, lines)


def handed_in_nothing(one: Record) -> bool:
    """Whether all that is recorded is that nothing came."""
    return all(row.verdict is Result.ABSENT for row in one.rows)


def enter(out: Path, chapter: Chapter, enrolled: Mapping[str, Enrolled]) -> None:
    """Enter who is enrolled, by id; what is not said of somebody stays as it is. Raises CourseError, GradebookError."""
    with record.book(out, chapter) as book, book.transaction():
        there: dict[str, Any] = {str(student.id): student for student in book.students}
        for student, each in enrolled.items():
            said: dict[str, Any] = {name: value for name, value in asdict(each).items() if value}
            known = there.get(student)
            if known is None or any(getattr(known, name) != value for name, value in said.items()):
                book.update_or_create_student(student, **said)


def _said(out: Path, chapter: Chapter, table: Table, column: Column[Any]) -> dict[str, str]:
    """What a column says of each student of the chapter, by name; nothing where nobody was graded yet."""
    if not database.exists(out):
        return {}
    with record.book(out, chapter) as book, book.reading() as connection:
        query = select(table.c.student, column).where(table.c.chapter == chapter.name).order_by(table.c.student)
        return {student: said for student, said in connection.execute(query)}


def emails(out: Path, chapter: Chapter) -> dict[str, str]:
    """The addresses of who has one, by id. Raises CourseError, GradebookError."""
    with record.book(out, chapter) as book:
        there: list[Any] = book.students
        return {str(student.id): student.email for student in there if student.email}


def names(out: Path, chapter: Chapter) -> dict[str, str]:
    """The first and last names of who has any, by id: whatever they chose to be called. Raises CourseError, GradebookError."""
    with record.book(out, chapter) as book:
        there: list[Any] = book.students
        called = {str(each.id): f"{each.first_name or ''} {each.last_name or ''}".strip() for each in there}
        return {student: name for student, name in called.items() if name not in ("", student)}


def _replace(out: Path, chapter: Chapter, table: Table, lines: list[dict[str, Any]]) -> None:
    with record.book(out, chapter) as book, book.transaction() as connection:
        connection.execute(delete(table).where(table.c.chapter == chapter.name))
        if lines:
            connection.execute(insert(table), lines)
