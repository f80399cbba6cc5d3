"""What nbgrader's own tables say of a submission beyond the verdict: marks and comments by hand, when it was due, penalties.

A mark by hand is of the text that was read. It stays through every regrade of that, and goes where another text is handed in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nbgrader.api import BaseCell, Comment, Grade, MissingEntry, SubmittedAssignment, SubmittedNotebook
from sqlalchemy import select, true
from sqlalchemy.engine import Connection

from autograder.gradebook import evidence
from autograder.gradebook.tables import Gradebook
from autograder.model.course import Chapter, Exercise
from autograder.submissions import unanswered
from autograder.submissions.intake import Submission

EARLIER = "(Written about an earlier answer.)"  # before a comment without a mark, when its text is another by now
Scores = tuple[float | None, float | None, float | None]  # by machine, by hand, extra credit
ByHand = tuple[float | None, float | None]  # the mark, and extra credit


@dataclass(frozen=True)
class Given:
    """What the gradebook says of one submission beyond the verdict: by grade id."""

    scores: dict[str, Scores] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    seconds_late: float = 0.0
    penalty: float = 0.0  # points
    due: datetime | None = None  # in UTC, with the extension
    extension: float = 0.0  # seconds


def too_high(by_hand: float, most: float) -> bool:
    """Whether a mark by hand is more than its exercise has: beyond that there is extra credit."""
    return by_hand > most + 1e-6


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


def text(exercise: Exercise, answers: Submission) -> tuple[object, ...]:
    """What a mark by hand is of: an exercise's own cells; of nbgrader's tasks, which have none, the cells that were added.

    White space at the end of a line, or of a cell, makes no other text.
    """
    own = sorted(unanswered.own_cells(exercise))
    texts = map(answers.answers.get, own) if own else (part for cell in answers.added for part in cell)
    return tuple(each if each is None else "\n".join(map(str.rstrip, each.splitlines())).rstrip() for each in texts)


def take_back(
    book: Gradebook,
    connection: Connection,
    chapter: Chapter,
    student: str,
    answers: Submission | None,
    marked: Mapping[tuple[str, object], ByHand],
) -> dict[str, str]:
    """Take back the marks by hand that are of another text than `answers` have; in the transaction that records these.

    A text that comes back has the mark and the extra credit that it has in `marked`, by exercise and text.
    Returns of each such exercise what the comment said that went with the mark. Where one of the texts is not known, all stay.
    """
    before, taken = evidence.answers(connection, chapter.name, student), {}
    if answers is None or before is None:
        return taken
    for each in chapter.exercises:
        if text(each, before) == text(each, answers):
            continue
        try:
            grade: Any = book.find_grade(each.grade_id, chapter.name, chapter.name, student)
        except MissingEntry:  # an exercise that the chapter did not have then
            continue
        its = marked.get((each.name, text(each, answers)))
        if its is None and grade.manual_score is None and not grade.extra_credit:
            for comment in _comments(book, each, chapter.name, student):  # it stays, and says of what it is
                if not comment.manual_comment.startswith(EARLIER):
                    comment.manual_comment = f"{EARLIER} {comment.manual_comment}"
            continue
        grade.manual_score, grade.extra_credit = its or (None, None)
        taken[each.name] = ""
        for comment in _comments(book, each, chapter.name, student):
            taken[each.name] += comment.manual_comment
            comment.manual_comment = None
    return taken


def _comments(book: Gradebook, exercise: Exercise, chapter: str, student: str) -> Iterator[Any]:
    """The comments by hand on an exercise's cells."""
    for cell in dict.fromkeys((exercise.grade_id, *exercise.answer_ids)):
        with suppress(MissingEntry):
            comment: Any = book.find_comment(cell, chapter, chapter, student)
            if comment.manual_comment:
                yield comment


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
