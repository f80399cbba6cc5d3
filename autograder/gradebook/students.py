"""Names and addresses of a class in nbgrader's table of students, where its formgrader and its exports take them from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autograder.gradebook import record
from autograder.model.course import Chapter
from autograder.submissions.roster import Enrolled


def enter(out: Path, chapter: Chapter, enrolled: Mapping[str, Enrolled]) -> None:
    """Enter who is enrolled, by id; what is not said of somebody stays as it is. Raises CourseError, GradebookError."""
    with record.book(out, chapter) as book, book.transaction():
        there: dict[str, Any] = {str(student.id): student for student in book.students}
        for student, each in enrolled.items():
            said: dict[str, Any] = {name: value for name, value in asdict(each).items() if value}
            known = there.get(student)
            if known is None or any(getattr(known, name) != value for name, value in said.items()):
                book.update_or_create_student(student, **said)


def emails(out: Path, chapter: Chapter) -> dict[str, str]:
    """The addresses of who has one, by id. Raises CourseError, GradebookError."""
    with record.book(out, chapter) as book:
        there: list[Any] = book.students
        return {str(student.id): student.email for student in there if student.email}
