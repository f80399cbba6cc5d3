"""More time for some: what `grade --extensions` says, remembered in the gradebook beside what nbgrader has of it.

nbgrader keeps an extension with a submission (`SubmittedAssignment.extension`, which `Gradebook.grant_extension` writes), and
what it has counts. Ours is written there once a submission is, and again only when we say something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from nbgrader.api import SubmittedAssignment
from sqlalchemy import Column, Float, Text, delete, insert, select
from sqlalchemy.engine import Connection

from autograder.gradebook import tables
from autograder.gradebook.schema import of_each
from autograder.gradebook.tables import Gradebook
from autograder.model.course import Chapter, CourseError
from autograder.submissions.extensions import Extension

# of an empty chapter: every one
SAID = of_each("across_extension", Column("seconds", Float), Column("until", Text), Column("time", Float))
WRITTEN = of_each("across_extended", Column("seconds", Float, nullable=False))  # into nbgrader's table, by us


class Extensions:
    """Those of one chapter, as they stand; `said` now goes before what was said before. In a transaction.

    Raises CourseError for a date that cannot be one: no due date, or an earlier one than that.
    """

    def __init__(
        self, book: Gradebook, connection: Connection, chapter: Chapter, due: str | None, said: Sequence[Extension] = ()
    ) -> None:
        self._chapter = chapter.name
        self._due = tables.moment(due)
        for each in said:
            self._check(each)
            _remember(connection, each)
        self.times: dict[str, float] = {}  # student -> the factor of their limits of time
        self._wanted: dict[str, float] = {}
        for each in _said(connection, chapter.name):
            self.times |= {each.student: each.time} if each.time else {}
            self._wanted |= self._seconds(each)
        query = select(WRITTEN.c.student, WRITTEN.c.seconds).where(WRITTEN.c.chapter == chapter.name)
        self._written: dict[str, float] = {student: seconds for student, seconds in connection.execute(query)}
        self._theirs: dict[str, float] = {}  # as nbgrader has them
        columns: Any = (SubmittedAssignment.student_id, SubmittedAssignment.extension)
        query = select(*columns).where(SubmittedAssignment.assignment_id == book.find_assignment(chapter.name).id)
        found: Any = book.db.execute(query).all()
        for student, extension in found:
            if (new := self.new(student)) is not None:
                book.find_submission(chapter.name, student).extension = new  # pyright: ignore[reportAttributeAccessIssue]
                self.wrote(connection, student)
            else:
                self._theirs[student] = extension.total_seconds() if extension else 0.0
        book.db.flush()

    def new(self, student: str) -> timedelta | None:
        """What is to be written into nbgrader's table with a student's submission; None: what is there stays."""
        wanted = self._wanted.get(student)
        return None if wanted is None or wanted == self._written.get(student) else timedelta(seconds=wanted)

    def wrote(self, connection: Connection, student: str) -> None:
        """Take down that it is written."""
        if (new := self.new(student)) is not None:
            seconds = new.total_seconds()
            mine = (WRITTEN.c.chapter == self._chapter) & (WRITTEN.c.student == student)
            connection.execute(delete(WRITTEN).where(mine))
            connection.execute(insert(WRITTEN).values(chapter=self._chapter, student=student, seconds=seconds))
            self._written[student] = self._theirs[student] = seconds

    def late(self, student: str, when: datetime, grace: float) -> bool:
        """Whether `when` is later than `grace` seconds after it is due for a student; False where nobody says when that is."""
        more = self._wanted.get(student, self._theirs.get(student, 0.0))
        return self._due is not None and when > self._due + timedelta(seconds=more + grace)

    def applied(self, student: str, policy: str | None) -> str | None:
        """What decides a student's penalty besides their time: the class's `policy`, and their extension."""
        return extended(policy, self._theirs.get(student, 0.0))

    def _check(self, each: Extension) -> None:
        if each.until and each.chapter == self._chapter:
            until = tables.moment(each.until)
            if self._due is None or until is None:
                raise CourseError(f"{each.where}: nothing says when {self._chapter} is due; add --due, with an offset")
            if until < self._due:
                due = f"{self._due:%Y-%m-%dT%H:%M:%SZ}"
                raise CourseError(f"{each.where}: until {each.until} is before it is due, {due}; correct it")

    def _seconds(self, each: Extension) -> dict[str, float]:
        until = tables.moment(each.until) if each.until else None
        if until and self._due:
            return {each.student: max(0.0, (until - self._due).total_seconds())}
        return {} if each.seconds is None else {each.student: each.seconds}


def extended(policy: str | None, seconds: float) -> str | None:
    """What decides the penalty of somebody with an extension of so many seconds."""
    return f"{policy} extended by {seconds:g} s" if policy and seconds else policy


def dates(connection: Connection, chapter: str) -> dict[str, str]:
    """Until when each student has, in UTC, of whom a date was said for a chapter."""
    return {each.student: each.until for each in _said(connection, chapter) if each.until}


def _remember(connection: Connection, each: Extension) -> None:
    """Keep what a line says, in place of what was said before; of what it does not say that stays."""
    mine = (SAID.c.chapter == each.chapter) & (SAID.c.student == each.student)
    before: Any = connection.execute(select(SAID).where(mine)).mappings().one_or_none()
    values = {"seconds": each.seconds, "until": each.until or None, "time": each.time}
    if before:
        moved = each.seconds is not None or each.until
        values |= {} if moved else {name: before[name] for name in ("seconds", "until")}
        values |= {} if each.time is not None else {"time": before["time"]}
        connection.execute(delete(SAID).where(mine))
    connection.execute(insert(SAID).values(chapter=each.chapter, student=each.student, **values))


def _said(connection: Connection, chapter: str) -> list[Extension]:
    """What is said of a chapter, what is said of every one first: the chapter's own goes before it."""
    query = select(SAID).where(SAID.c.chapter.in_(["", chapter])).order_by(SAID.c.chapter, SAID.c.student)
    return [
        Extension(row["student"], row["chapter"], row["seconds"], row["until"] or "", row["time"])
        for row in connection.execute(query).mappings()
    ]
