"""What stood at a moment: the record of a student as it was then, marks by hand as they had been noticed by then."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path

from autograder.gradebook import evidence, history, late_penalty, record
from autograder.gradebook.given import Given
from autograder.gradebook.history import LATE, Entry
from autograder.gradebook.record import BY_HAND, Record, Row
from autograder.model import headers
from autograder.model.course import Chapter, CourseError
from autograder.model.verdict import Fault, Result


def at(out: Path, chapter: Chapter, student: str, moment: datetime) -> tuple[Record, list[Entry]]:
    """The record, without its notebook, and the history up to it. Raises CourseError if nothing had been recorded then."""
    with record.book(out, chapter) as opened:
        kept = evidence.at(opened, chapter.name, student, moment)
        lines = history.entries(opened, chapter.name, student)
    told = [each for each in lines if each.moment <= evidence.stamp(moment)]
    if kept is None:
        known = f"; the first mark of {student!r} is of {lines[0].moment}" if lines else ""
        raise CourseError(f"{chapter.name}: nothing is kept of what stood on {evidence.stamp(moment)}{known}")
    stood = {each.exercise: each for each in told}
    marks = {mark.exercise: mark for mark in kept.verdict.marks}
    rows = (
        _as_it_stood(record.row(kept.verdict, marks[each.name], each, Given()), stood.get(each.name))
        for each in chapter.exercises
        if each.name in marks
    )
    penalty = -stood[LATE].points_now if LATE in stood else 0.0
    return Record(kept.verdict, tuple(rows), kept.timestamp, penalty=penalty), told


def moment(out: Path, said: str) -> datetime:
    """The moment that an instructor says: a day, which means its end, or a time; without an offset, where the class is.

    Raises CourseError.
    """
    try:
        when = datetime.fromisoformat(said)
        if len(said) == len("2026-11-20"):
            when = datetime.combine(date.fromisoformat(said), time.max)
    except ValueError:
        raise CourseError(f"--at {said!r} is no date; write it like 2026-11-20 or 2026-11-20T18:00+01:00") from None
    return when if when.tzinfo else when.replace(tzinfo=headers.there(late_penalty.zone(out)))


def _as_it_stood(row: Row, line: Entry | None) -> Row:
    if line is None or not line.by_hand:
        return row
    return replace(row, points=line.points_now, verdict=Result.MANUAL, fault=Fault.NONE, message=BY_HAND, waiting=False)
