"""The history of marks: who changed one, when, from what to what. Lines are added, never changed: the database refuses that.

A line of the grader's is written in the same transaction as the mark. A mark by hand is the formgrader's, which tells nobody:
it is noticed, and dated, when `autograder grade` or `report` comes by next.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nbgrader.api import SubmittedAssignment
from sqlalchemy import insert, select
from sqlalchemy.engine import Connection

from autograder.gradebook import evidence, given, tables
from autograder.gradebook.given import ByHand
from autograder.gradebook.schema import HISTORY
from autograder.gradebook.tables import Gradebook
from autograder.model.amounts import number
from autograder.model.course import Chapter
from autograder.model.verdict import Result, Verdict

BY_HAND = "by hand"  # how it begins who gave or took back a mark in the formgrader
TAKEN, COMMENT = "another answer was handed in", "; the comment on the one before was: "  # why one was taken back
ABOVE = f"{Result.MANUAL}, too high"  # how a mark by hand stands that is more than there is to have
LATE = "late policy"  # in place of an exercise: the points that it takes off, below zero


@dataclass(frozen=True)
class State:
    """What a mark is: its points, how the exercise ended, and whether a person says so."""

    points: float
    verdict: str
    by_hand: bool = False

    def differs(self, other: State | None) -> bool:
        """Whether it is another mark than the one before, if there was one."""
        if other is None or (self.verdict, self.by_hand) != (other.verdict, other.by_hand):
            return True
        return round(self.points, 6) != round(other.points, 6)


@dataclass(frozen=True)
class Entry:
    """A line of the history."""

    chapter: str
    student: str
    exercise: str  # or LATE
    moment: str  # UTC, ISO 8601: when it was written
    who: str
    by_hand: bool
    points_was: float | None  # None: there was no mark
    was: str
    points_now: float
    now: str
    digest: str

    @property
    def points(self) -> str:
        """What stands since: points and how the exercise ended, or that it waits for a mark by hand, which is no 0."""
        if self.now == Result.MANUAL.value and not self.by_hand:
            return "waits for a mark by hand"
        return f"{number(self.points_now)} {self.now}".rstrip()


States = Mapping[str, State]  # by exercise


def _verdict(connection: Connection, chapter: str, student: str) -> Verdict | None:
    """The verdict that stands; what cannot be read is written anew, as if it had never been."""
    with suppress(ValueError, LookupError, TypeError):
        return next((verdict for verdict, *_ in tables.kept(connection, chapter, [student])), None)
    return None


def settled(book: Gradebook, connection: Connection, chapter: Chapter, student: str) -> States:
    """What the history says of a student's marks, after it was added what was given by hand since, for the verdict that
    stands; in a transaction.
    """
    before = _last(connection, chapter.name, student).get(student, {})
    verdict = _verdict(connection, chapter.name, student)
    if verdict is None:
        return before
    there = _standing(book, chapter, verdict)
    after = {name: there[name] for name in there if there[name].by_hand or (name in before and before[name].by_hand)}
    _add(connection, _entries(chapter, student, verdict.digest, before, after))
    return {**before, **after}


def marked(connection: Connection, chapter: Chapter, student: str) -> Mapping[tuple[str, object], ByHand]:
    """What a person gave a student's texts so far; in a transaction."""
    lines = _read(connection, chapter.name, student)
    kept = evidence.every(connection, chapter.name, [student]) if any(line.by_hand for line in lines) else {}
    return of_texts(chapter, kept.get(student, ()), lines)


def of_texts(
    chapter: Chapter, kept: Iterable[evidence.Kept], lines: Iterable[Entry]
) -> dict[tuple[str, object], ByHand]:
    """The marks by hand that were given, and not taken back by who gave them, by exercise and the text that they are of.

    Each with its extra credit: where the mark was not too high, that is what is above the exercise's points.
    """
    answers = {each.verdict.digest: each.answers for each in kept}
    exercises = {each.name: each for each in chapter.exercises}
    found: dict[tuple[str, object], ByHand] = {}
    for line in lines:
        if (read := answers.get(line.digest)) and line.exercise in exercises:
            what = line.exercise, given.text(exercises[line.exercise], read)
            if line.by_hand:
                most = line.points_now if line.now == ABOVE else exercises[line.exercise].max_points
                found[what] = min(line.points_now, most), max(0.0, line.points_now - most) or None
            elif line.who.startswith(BY_HAND):
                found.pop(what, None)
    return found


def keep(
    book: Gradebook,
    connection: Connection,
    chapter: Chapter,
    verdict: Verdict,
    before: States,
    taken: Mapping[str, str],
) -> None:
    """Add what a verdict has changed against `before`; in the transaction that has just recorded it.

    `taken`: the exercises of which a mark by hand was taken back, and the comment on it, which is kept here.
    """
    made = _entries(chapter, verdict.student, verdict.digest, before, _standing(book, chapter, verdict))
    for line in made:
        if (comment := taken.get(line["exercise"])) is not None:
            said = f"{COMMENT}{comment}" if comment else ""
            line["who"] = f"autograder, run by {_user()}: {TAKEN}{said}"
    _add(connection, made)


def answered(book: Gradebook, connection: Connection, chapter: Chapter, student: str, exercise: str, says: str) -> None:
    """Add that a mark was contested, and what was answered; in a transaction. The mark is the one that stands."""
    verdict = _verdict(connection, chapter.name, student)
    if verdict is None:
        raise ValueError(f"{student}: nothing is recorded of {chapter.name}")
    was = _last(connection, chapter.name, student).get(student, {}).get(exercise)
    now = _standing(book, chapter, verdict).get(exercise, State(0.0, ""))
    line = _line(chapter, student, exercise, was, now, verdict.digest, f"contested; {_user()} answered: {says}")
    _add(connection, [line])


def notice(book: Gradebook, chapter: Chapter, class_: Iterable[tuple[str, str, States]]) -> None:
    """Add what was changed by hand since: of each student the digest of the verdict, and what stands now."""
    with book.reading() as connection:
        known = _last(connection, chapter.name)
    found = []
    for student, digest, after in class_:
        before = known.get(student, {})
        noticed = {
            exercise: state
            for exercise, state in after.items()
            if not (was := before.get(exercise))
            or (was.points, was.by_hand) != (state.points, state.by_hand)
            or (state.by_hand and state.differs(was))
        }
        found += _entries(chapter, student, digest, before, noticed)
    if found:
        with book.transaction() as connection:
            _add(connection, found)


def entries(book: Gradebook, chapter: str, student: str = "") -> list[Entry]:
    """The lines of a chapter, or of one student in it, oldest first."""
    with book.reading() as connection:
        return _read(connection, chapter, student)


def _read(connection: Connection, chapter: str, student: str) -> list[Entry]:
    columns = [HISTORY.c[name] for name in Entry.__dataclass_fields__]
    query = select(*columns).where(HISTORY.c.chapter == chapter).order_by(HISTORY.c.id)
    query = query.where(HISTORY.c.student == student) if student else query
    return [Entry(*line) for line in connection.execute(query)]


def _last(connection: Connection, chapter: str, student: str = "") -> dict[str, dict[str, State]]:
    found: dict[str, dict[str, State]] = {}
    for line in _read(connection, chapter, student):
        found.setdefault(line.student, {})[line.exercise] = State(line.points_now, line.now, line.by_hand)
    return found


def _standing(book: Gradebook, chapter: Chapter, verdict: Verdict) -> States:
    """What stands of a student in the gradebook: what was given by hand goes before the verdict's marks."""
    scores = {cell: its for _, cell, its in given.scores(book, chapter.name, [verdict.student])}
    made = {}
    for mark in verdict.marks:
        grade_id = next((each.grade_id for each in chapter.exercises if each.name == mark.exercise), "")
        by_machine, by_hand, extra = scores.get(grade_id, (mark.points, None, None))
        points = (by_machine if by_hand is None else by_hand) or 0.0
        how = mark.result.value
        if by_hand is not None:
            how = ABOVE if given.too_high(by_hand, mark.max_points) else Result.MANUAL.value
        made[mark.exercise] = State(points + (extra or 0.0), how, by_hand is not None)
    off: Any = SubmittedAssignment.late_submission_penalty
    query = select(off).where(SubmittedAssignment.student_id == verdict.student)
    penalty: Any = given.of(query, book, chapter.name).scalar()
    return made | {LATE: State(-float(penalty or 0.0), "")}


def _entries(chapter: Chapter, student: str, digest: str, before: States, after: States) -> list[dict[str, Any]]:
    made = []
    for exercise, state in after.items():
        was = before.get(exercise)
        if not state.differs(was) or (was is None and exercise == LATE and not state.points):
            continue
        by_hand = state.by_hand or (was is not None and was.by_hand)
        who = f"{BY_HAND}, noticed by autograder as {_user()} ran it" if by_hand else f"autograder, run by {_user()}"
        made.append(_line(chapter, student, exercise, was, state, digest, who))
    return made


def _line(
    chapter: Chapter, student: str, exercise: str, was: State | None, now: State, digest: str, who: str
) -> dict[str, Any]:
    entry = Entry(
        chapter=chapter.name,
        student=student,
        exercise=exercise,
        moment=datetime.now(UTC).isoformat(timespec="seconds"),
        who=who,
        by_hand=now.by_hand,
        points_was=None if was is None else was.points,
        was="" if was is None else was.verdict,
        points_now=now.points,
        now=now.verdict,
        digest=digest,
    )
    return entry.__dict__


def _add(connection: Connection, lines: list[dict[str, Any]]) -> None:
    if lines:
        connection.execute(insert(HISTORY), lines)


def _user() -> str:
    """Who runs this process, as the system knows them: no variable of the environment says it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without a name
        return f"user {os.getuid()}"
