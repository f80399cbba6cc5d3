"""What stands of a chapter, of everyone in the class: the rows of marks.csv and of totals.csv.

A total is what the gradebook and the feedback say: the points, less what the late policy takes off.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from autograder.gradebook import roll, tables
from autograder.gradebook.record import NOTHING, Record, Row, number
from autograder.model import harmless
from autograder.model.course import Chapter, Exercise
from autograder.model.verdict import UNREAD, Fault, Result
from autograder.store import files

FEW = 10  # students: of fewer a quartile or a correlation says nothing
COLUMNS = (
    "student", "chapter", "raw", "penalty", "total", "max_points", "seconds_late", "waiting", "file_of_download", "handed_in",
    "note",
)  # fmt: skip


@dataclass(frozen=True)
class Standing:
    """A chapter's class as it stands now."""

    chapter: Chapter
    records: Sequence[Record]  # of everyone who was graded, by student
    faults: Mapping[str, str] = field(default_factory=dict)  # student -> why this machine could not grade them
    absent: Sequence[str] = ()  # who is on the roster, and handed in nothing
    attempts: Mapping[str, str] = field(default_factory=dict)  # student -> which file of a download counted: "2 of 3"

    @property
    def counted(self) -> list[Record]:
        """The records of whom nothing newer was left ungraded."""
        return [record for record in self.records if record.student not in self.faults]

    def rows(self) -> list[Row]:
        """The rows of marks.csv: who could not be graded has them, too, without points."""
        made = [row for record in self.counted for row in record.rows]
        for student, why in self.faults.items():
            made += self._without(student, Result.INVALID, Fault.INFRASTRUCTURE, why)
        for student in self.missing:
            made += self._without(student, Result.ABSENT, Fault.STUDENT, NOTHING)
        return made

    @property
    def missing(self) -> list[str]:
        """Who handed in nothing and was not left by a fault."""
        return [student for student in self.absent if student not in self.faults]

    def _without(self, student: str, verdict: Result, fault: Fault, why: str) -> list[Row]:
        """Rows without points."""
        name = self.chapter.name
        return [
            Row(student, name, each.name, 0.0, each.max_points, verdict, fault, why) for each in self.chapter.exercises
        ]

    def totals(self) -> list[list[str]]:
        """The lines of totals.csv: who could not be graded has no total, which is not one of 0 points."""
        graded = [self._total(record) for record in self.counted]
        left = [self._untold(student, "", f"not graded: {why}") for student, why in self.faults.items()]
        missing = [self._untold(student, "0", "absent") for student in self.missing]
        return sorted(graded + left + missing, key=lambda line: line[0])

    def _total(self, record: Record) -> list[str]:
        raw = sum(row.points for row in record.rows)
        waiting = sum(row.waiting for row in record.rows)
        when = tables.moment(record.timestamp)
        points = [number(each) for each in (raw, record.penalty, record.points, self.chapter.max_points)]
        late = number(record.seconds_late) if record.seconds_late else ""
        handed_in = f"{when:%Y-%m-%d %H:%M:%S} UTC" if when else ""
        attempt = self.attempts.get(record.student, "")
        return [record.student, self.chapter.name, *points, late, str(waiting or ""), attempt, handed_in, _note(record)]

    def _untold(self, student: str, points: str, note: str) -> list[str]:
        """The line of who was not graded: `points` are all of theirs, if that is known."""
        points_ = [points, points, points, number(self.chapter.max_points)]
        return [student, self.chapter.name, *points_, "", "", "", "", note]


def write_totals(out: Path, chapters: Iterable[Standing]) -> Path:
    """Write OUT/totals.csv: a line for each student of each chapter; no field of it is taken for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in chapters:
        writer.writerows([harmless.field(cell) for cell in line] for line in each.totals())
    return files.replace(Path(out) / "totals.csv", text.getvalue().encode())


def _note(record: Record) -> str:
    """Why a total is less than the answers might be worth: nothing came, nothing could be read, cells are not there."""
    if roll.handed_in_nothing(record):
        return "absent"
    unread = [row for row in record.rows if row.verdict in UNREAD]
    if unread and len({(row.verdict, row.message) for row in unread}) == 1 and len(unread) == len(record.rows):
        return unread[0].message
    return "; ".join(f"{row.verdict}: {row.exercise}" for row in unread)


@dataclass(frozen=True)
class Marked:
    """The points of a class in the exercises that are marked for all of it: what is not, would only look like failure."""

    points: tuple[float, ...]  # of each submission, less what the late policy takes off
    max_points: float
    left_out: tuple[Exercise, ...]  # where an answer waits for its mark by hand

    @property
    def median(self) -> float | None:
        """Of the points; None if there are none."""
        return statistics.median(self.points) if self.points and self.max_points > 0 else None

    @property
    def middle(self) -> tuple[float, float] | None:
        """Between which points the middle half of the class is: the quartiles, inclusive; None of fewer than FEW."""
        if len(self.points) < FEW:
            return None
        lower, _, upper = statistics.quantiles(self.points, n=4, method="inclusive")
        return lower, upper


def marked(chapter: Chapter, class_: Iterable[Record]) -> Marked:
    """Count what is marked by now: not the exercises of which an answer waits, nor who handed in nothing that can be read."""
    there = [record for record in class_ if not nothing_read(record)]
    waiting = {row.exercise for record in there for row in record.rows if row.waiting}
    left_out = tuple(each for each in chapter.exercises if each.name in waiting)
    points = [
        max(0.0, sum(row.points for row in record.rows if row.exercise not in waiting) - record.penalty)
        for record in there
    ]
    return Marked(tuple(points), chapter.max_points - sum(each.max_points for each in left_out), left_out)


def told_apart(chapter: Chapter, class_: Iterable[Record]) -> dict[str, tuple[float, float | None]]:
    """Of each exercise the mean share of its points, and its discrimination: the correlation with the points of all others.

    Of who handed in something that can be read, in exercises of which no answer waits; the correlation of FEW or more of them.
    """
    there = [record for record in class_ if not nothing_read(record)]
    waiting = {row.exercise for record in there for row in record.rows if row.waiting}
    points = [{row.exercise: row.points for row in record.rows if row.exercise not in waiting} for record in there]
    found = {}
    for exercise in chapter.exercises:
        own = [each[exercise.name] for each in points if exercise.name in each]
        if not own or exercise.max_points <= 0:
            continue
        apart, rest = None, [sum(each.values()) - each[exercise.name] for each in points if exercise.name in each]
        if len(own) >= FEW:
            with suppress(statistics.StatisticsError):  # all have as many
                apart = statistics.correlation(own, rest)
        found[exercise.name] = (statistics.fmean(own) / exercise.max_points, apart)
    return found


def nothing_read(record: Record) -> bool:
    """Whether no answer was there that could be read."""
    return all(row.verdict in {Result.ABSENT, *UNREAD} for row in record.rows)
