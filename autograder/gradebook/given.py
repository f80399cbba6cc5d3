"""What nbgrader's own tables say of a submission beyond the verdict: marks and comments by hand, when it was due, penalties."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nbgrader.api import BaseCell, Comment, Grade, SubmittedAssignment, SubmittedNotebook
from sqlalchemy import select, true

from autograder.gradebook.tables import Gradebook

Scores = tuple[float | None, float | None, float | None]  # by machine, by hand, extra credit


@dataclass(frozen=True)
class Given:
    """What the gradebook says of one submission beyond the verdict: by grade id."""

    scores: dict[str, Scores] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    seconds_late: float = 0.0
    penalty: float = 0.0  # points
    due: datetime | None = None  # in UTC, with the extension
    extension: float = 0.0  # seconds


def given(book: Gradebook, chapter: str, students: Collection[str] | None = None) -> dict[str, Given]:
    """The same of each student who is recorded of a chapter, or of these."""
    found = {}
    submissions = select(SubmittedAssignment).where(_theirs(students))
    for (submission,) in of(submissions, book, chapter):
        seconds_late = submission.total_seconds_late if submission.assignment.duedate else 0.0
        penalty = float(submission.late_submission_penalty or 0.0)
        due = submission.duedate if submission.assignment.duedate else None
        more = submission.extension.total_seconds() if due and submission.extension else 0.0
        found[submission.student_id] = Given({}, {}, float(seconds_late), penalty, due, more)
    for student, cell, its in scores(book, chapter, students):
        found[student].scores[cell] = its
    said = (
        select(SubmittedAssignment.student_id, BaseCell.name, Comment.manual_comment)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Comment, Comment.notebook_id == SubmittedNotebook.id)
        .join(BaseCell, BaseCell.id == Comment.cell_id)
        .where(Comment.manual_comment.is_not(None), _theirs(students))
    )
    for student, cell, comment in of(said, book, chapter):
        found[student].comments[cell] = comment
    return found


def scores(book: Gradebook, chapter: str, students: Collection[str] | None = None) -> Iterator[tuple[str, str, Scores]]:
    """The scores of each grade cell, by student and grade id; of all, or of these students."""
    query = (
        select(SubmittedAssignment.student_id, BaseCell.name, Grade.auto_score, Grade.manual_score, Grade.extra_credit)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
        .join(BaseCell, BaseCell.id == Grade.cell_id)
        .where(_theirs(students))
    )
    for who, cell, by_machine, by_hand, extra in of(query, book, chapter):
        yield who, cell, (by_machine, by_hand, extra)


def _theirs(students: Collection[str] | None) -> Any:
    return true() if students is None else SubmittedAssignment.student_id.in_(students)


def of(query: Any, book: Gradebook, chapter: str) -> Any:
    """The rows of a query of submissions that are of one chapter."""
    return book.db.execute(query.where(SubmittedAssignment.assignment_id == book.find_assignment(chapter).id))
