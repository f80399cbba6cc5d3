"""A mark that a student contests: by the code on their page; who else has the same mistake; the reply, which is kept."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbgrader.api import MissingEntry

from autograder.gradebook import evidence, history, record, released
from autograder.gradebook.evidence import Kept
from autograder.gradebook.record import Row
from autograder.model import harmless
from autograder.model.course import Chapter, CourseError, Exercise
from autograder.model.verdict import Mark, Result
from autograder.store import files

MISTAKES = set(Result) - {Result.PASSED, Result.MANUAL, Result.BLANK, Result.MISSING, Result.INVALID, Result.ABSENT}


def find(out: Path, course_id: str, said: str) -> tuple[Kept, bool]:
    """The verdict that a code is of, in whatever case and with whatever blanks, and whether it still stands.

    Raises CourseError for what is no code of OUT.
    """
    wanted = "".join(said.split()).lower()
    for chapter in released.every(out, course_id):
        with record.book(out, chapter) as opened:
            if found := evidence.coded(opened, out, chapter.name, wanted):
                return found
    raise CourseError(
        f"{said!r} stands on no page of {out}: it is below the exercises of a page of feedback, like k7q2-9xhb"
    )


def others(class_: Iterable[Row], student: str, mark: Mark) -> list[str]:
    """Who else has the same mistake, of a class's rows: the same misconception or, where it has no name, the same sentence."""
    if mark.result not in MISTAKES:
        return []
    rows = (row for row in class_ if row.exercise == mark.exercise and row.verdict in MISTAKES)
    told = [(row.student, row.misconception or row.message) for row in rows]
    return [other for other, mistake in told if other != student and mistake == (mark.misconception or mark.message)]


def reply(out: Path, chapter: Chapter, student: str, exercise: Exercise, says: str) -> bool:
    """Keep an answer to a student: as nbgrader's comment, which their page shows, and as a line of the mark's history.

    Returns whether there is an answer cell to comment on, which nbgrader wants.
    """
    says, shown = harmless.visible(says), False
    with files.only_writer(out), record.book(out, chapter) as opened, opened.transaction() as connection:
        for cell in exercise.answer_ids[:1]:
            with suppress(MissingEntry):
                comment: Any = opened.find_comment(cell, chapter.name, chapter.name, student)
                before = comment.manual_comment
                comment.manual_comment = f"{before}\n\n{says}" if before else says
                shown = True
        history.answered(opened, connection, chapter, student, exercise.name, says)
    return shown
