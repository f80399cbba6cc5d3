"""What a class of OUT has of a chapter, for a term: every attempt that was graded, with what was given by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from autograder.gradebook import evidence, extensions, given, history, record, roll, tables
from autograder.gradebook.evidence import Kept
from autograder.gradebook.given import Given, Scores
from autograder.gradebook.history import Entry
from autograder.gradebook.record import Record, Row
from autograder.model.course import Chapter
from autograder.model.verdict import UNREAD

NONE: Scores = (None, None, None)


@dataclass(frozen=True)
class Attempt:
    """A notebook that was handed in, and graded."""

    number: int  # from 1, in the order in which they were graded
    handed_in: datetime | None  # in UTC, naive; None: nobody says
    points: float  # before the late policy, and without marks that are too high
    waiting: int = 0  # exercises that wait for a mark by hand
    unread: int = 0  # exercises whose cell was not in it, or could not be read
    other_checks: bool = False  # than those by which the last one was graded
    above: str = ""  # marks by hand that are too high: see `record.above`


@dataclass(frozen=True)
class Theirs:
    """What a student has of a chapter."""

    attempts: tuple[Attempt, ...] = ()  # the last one stands in the gradebook; none: nothing was handed in
    fault: str = ""  # why this machine could not grade what was handed in last
    extension: timedelta = timedelta()
    until: datetime | None = None  # what the extension was said to be, if that was a date


@dataclass(frozen=True)
class ChapterClass:
    """A chapter, and everyone of its class."""

    chapter: Chapter
    due: datetime | None = None  # in UTC, naive, without extensions
    theirs: Mapping[str, Theirs] = field(default_factory=dict)  # by student
    zone: str = ""  # where the class is


def of(out: Path, chapter: Chapter, students: Collection[str] | None = None) -> ChapterClass:
    """The class of a chapter that was graded into OUT, or these students of it. Raises CourseError, GradebookError."""
    records = record.records(out, chapter, students)
    absent, faults = roll.absent(out, chapter), roll.left(out, chapter)
    with record.book(out, chapter) as book:
        told: dict[str, list[Entry]] = {}
        for line in history.entries(book, chapter.name):
            told.setdefault(line.student, []).append(line)
        by_hand = given.given(book, chapter.name, students) if records else {}
        with book.reading() as connection:
            kept, dates = evidence.every(connection, chapter.name, students), extensions.dates(connection, chapter.name)
    due = next((each.due - timedelta(seconds=each.extension) for each in records if each.due), None)
    theirs = {student: Theirs() for student in absent}
    for each in records:
        extension, until = timedelta(seconds=each.extension), tables.moment(dates.get(each.student))
        dated = until if until and due and until - due == extension else None  # else nbgrader's came after it
        own = kept.get(each.student, []), told.get(each.student, []), by_hand.get(each.student, Given())
        tries = () if roll.handed_in_nothing(each) else _attempts(chapter, each, *own)
        theirs[each.student] = Theirs(tries, "", extension, dated)
    theirs |= {student: Theirs(fault=why) for student, why in faults.items()}
    return ChapterClass(chapter, due, theirs, next((each.zone for each in records), ""))


def _attempts(
    chapter: Chapter, stands: Record, kept: Sequence[Kept], lines: Iterable[Entry], by_hand: Given
) -> tuple[Attempt, ...]:
    """Each notebook that a verdict is kept of, the one that stands at the end, with the marks by hand of what it says."""
    last: list[Kept] = []
    for each in kept:  # what was graded again counts once, and where it was graded last
        last = [one for one in last if not _same(one, each)] + [each]
    checks = stands.verdict.evidence.parts.get("checks")
    of_texts, made = history.of_texts(chapter, kept, lines), []
    for each in last[:-1]:
        if each.verdict.nothing:
            continue
        marks = {mark.exercise: mark for mark in each.verdict.marks}
        there = [one for one in chapter.exercises if one.name in marks]
        scores = {}
        for one in there:
            read, reads = (None if it.answers is None else given.text(one, it.answers) for it in (each, last[-1]))
            rest = by_hand.scores.get(one.grade_id, NONE)[1:]
            if None not in (read, reads) and (read != reads or rest == NONE[1:]):
                rest = of_texts.get((one.name, read), NONE[1:])
            scores[one.grade_id] = (marks[one.name].points, *rest)
        then = replace(by_hand, scores=scores)  # what a machine gave for another attempt is not this one's
        rows = [record.row(each.verdict, marks[one.name], one, then) for one in there]
        other = each.verdict.evidence.parts.get("checks") != checks
        made.append(_attempt(len(made) + 1, each.timestamp, rows, other))
    return (*made, _attempt(len(made) + 1, stands.timestamp, stands.rows))


def _same(one: Kept, other: Kept) -> bool:
    """Whether verdicts are of one notebook: by what counts of it, and when it was handed in, as far as both times are known."""
    if one.answers is None or other.answers is None:
        return one.answers is other.answers and one.timestamp == other.timestamp
    counts = ("answers", "invalid", "missing", "refused", "added")
    if any(getattr(one.answers, name) != getattr(other.answers, name) for name in counts):
        return False
    return one.timestamp == other.timestamp or None in (one.timestamp, other.timestamp)


def _attempt(
    number: int, timestamp: str | None, rows: list[Row] | tuple[Row, ...], other_checks: bool = False
) -> Attempt:
    unread = sum(row.verdict in UNREAD for row in rows)
    points = sum(row.points for row in rows if not row.above)
    waiting, above = sum(row.waiting for row in rows), record.above(rows)
    return Attempt(number, tables.moment(timestamp), points, waiting, unread, other_checks, above)
