"""A mark that a student contests: by the code on their page; who else has the same mistake; the reply, which is kept."""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from autograder.gradebook import history, record, released
from autograder.gradebook.record import Row
from autograder.gradebook.schema import EVIDENCE
from autograder.model.course import Chapter, CourseError, Exercise
from autograder.store import files


@dataclass(frozen=True)
class Contested:
    """What a code stands for: a student's page of a chapter, of the verdict that was recorded then."""

    chapter: str
    student: str
    moment: str  # UTC, ISO 8601
    stands: bool  # whether no other verdict has been recorded since


def code(out: Path, chapter: str, student: str, digest: str) -> str:
    """The code of a student's page: of this verdict alone, and guessed by nobody. Empty where OUT has no secret."""
    try:
        key = (Path(out) / files.SEED).read_bytes()
    except OSError:
        return ""
    drawn = hmac.digest(key, f"contest\0{chapter}\0{student}\0{digest}".encode(), "sha256")
    letters = base64.b32encode(drawn[:5]).decode().lower()
    return f"{letters[:4]}-{letters[4:]}"


def find(out: Path, course_id: str, said: str) -> Contested:
    """What a code stands for, in whatever case and with whatever blanks. Raises CourseError for what is no code of OUT."""
    chapters, wanted = released.every(out, course_id), "".join(said.split()).lower()
    for chapter in chapters:
        with record.book(out, chapter) as opened, opened.reading() as connection:
            columns = (EVIDENCE.c.student, EVIDENCE.c.digest, EVIDENCE.c.moment)
            query = select(*columns).where(EVIDENCE.c.chapter == chapter.name).order_by(EVIDENCE.c.id)
            lines = connection.execute(query).all()
        stands = {student: digest for student, digest, _ in lines}
        for student, digest, moment in reversed(lines):
            if hmac.compare_digest(code(out, chapter.name, student, digest), wanted):
                return Contested(chapter.name, student, moment, stands[student] == digest)
    raise CourseError(f"{said!r} stands on no page of {out}: it is at the end of a page of feedback, like k7q2-9xhb")


def others(out: Path, chapter: Chapter, student: str, row: Row) -> list[str]:
    """Who else has the same mistake as a row tells of: the same misconception or, where it has no name, the same sentence."""

    def same(other: Row) -> bool:
        if row.misconception:
            return other.misconception == row.misconception
        return other.message == row.message and other.verdict is row.verdict

    rows = (each for each in record.rows(out, chapter) if each.exercise == row.exercise and each.student != student)
    return [each.student for each in rows if each.points < each.max_points and same(each)]


def reply(out: Path, chapter: Chapter, student: str, exercise: Exercise, says: str) -> None:
    """Keep an answer to a student: as nbgrader's comment, which their page shows, and as a line of the mark's history."""
    with files.only_writer(out), record.book(out, chapter) as opened:
        place = exercise.answer_ids[0] if exercise.answer_ids else exercise.grade_id
        with opened.transaction() as connection:
            comment: Any = opened.find_comment(place, chapter.name, chapter.name, student)
            before = comment.manual_comment
            comment.manual_comment = f"{before}\n\n{says}" if before else says
            history.answered(opened, connection, chapter, student, exercise.name, says)
