"""What stood at a moment: the record of a student as it was then, marks by hand as they had been noticed by then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path

from autograder.gradebook import evidence, given, history, late_penalty, record
from autograder.gradebook.evidence import Kept
from autograder.gradebook.given import Given
from autograder.gradebook.history import COMMENT, LATE, TAKEN, Entry
from autograder.gradebook.record import BY_HAND, Record, Row
from autograder.model import course, headers
from autograder.model.course import Chapter, CourseError, Exercise
from autograder.model.verdict import Fault, Result


def at(out: Path, chapter: Chapter, student: str, moment: datetime) -> tuple[Chapter, Record, list[Entry]]:
    """The chapter as it was then, the record, without its notebook, and the history up to it.

    Raises CourseError if nothing had been recorded then.
    """
    with record.book(out, chapter) as opened:
        kept = evidence.at(opened, chapter.name, student, moment)
        lines = history.entries(opened, chapter.name, student)
        says = given.given(opened, chapter.name, [student]).get(student, Given()).comments
    chapter = _then(out, chapter, kept)
    told = [each for each in lines if each.moment <= evidence.stamp(moment)]
    stood = {each.exercise: each for each in told}
    marks = {mark.exercise: mark for mark in kept.verdict.marks}
    exercises = {each.name: each for each in chapter.exercises}
    rows = (
        _as_it_stood(record.row(kept.verdict, marks[each.name], each, Given()), stood.get(each.name))
        for each in chapter.exercises
        if each.name in marks
    )
    rows = [replace(row, comment=_comment(row, exercises[row.exercise], lines[len(told) :], says)) for row in rows]
    penalty = -stood[LATE].points_now if LATE in stood else 0.0
    return chapter, Record(kept.verdict, tuple(rows), kept.timestamp, penalty=penalty), told


def _then(out: Path, chapter: Chapter, kept: Kept) -> Chapter:
    """The chapter with the exercises that it had, as far as its release is kept."""
    basis = evidence.read_basis(out, kept.basis)
    try:
        name = basis.files[f"release/{chapter.name}.ipynb"] if basis else ""
        release = json.loads((Path(out) / evidence.FOLDER / name).read_text(encoding="utf-8"))
        return replace(chapter, exercises=course.exercises(chapter.name, release))
    except (OSError, ValueError, LookupError, CourseError):
        return chapter


def moment(out: Path, said: str) -> datetime:
    """The moment that an instructor says: a day, which means its end, or a time; without an offset, where the class is.

    Raises CourseError.
    """
    said = said.strip()
    try:
        try:
            when = datetime.combine(date.fromisoformat(said), time.max)
        except ValueError:
            when = datetime.fromisoformat(said)
        here = when if when.tzinfo else when.replace(tzinfo=headers.there(late_penalty.zone(out)))
        evidence.stamp(here)
    except (ValueError, OverflowError):
        raise CourseError(f"--at {said!r} is no date; write it like 2026-11-20 or 2026-11-20T18:00+01:00") from None
    return here


def _comment(row: Row, exercise: Exercise, later: list[Entry], says: Mapping[str, str]) -> str:
    """What went with a mark by hand: what the history kept when it was taken back since, else what the gradebook says now."""
    if row.verdict is not Result.MANUAL or row.waiting:
        return ""
    for line in later:
        if line.exercise == row.exercise and TAKEN in line.who:
            return line.who.partition(COMMENT)[2]
    cells = dict.fromkeys((exercise.grade_id, *exercise.answer_ids))
    said = "\n".join(dict.fromkeys(says[cell] for cell in cells if cell in says))
    return f"{said} (as it is now: of a comment no date is kept)" if said else ""


def _as_it_stood(row: Row, line: Entry | None) -> Row:
    if line is None:
        return row
    if not line.by_hand:
        return replace(row, points=line.points_now)
    return replace(row, points=line.points_now, verdict=Result.MANUAL, fault=Fault.NONE, message=BY_HAND, waiting=False)
