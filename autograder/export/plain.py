"""A table for any other system: a line for each student and chapter."""

from __future__ import annotations

from collections.abc import Iterable

from autograder.export import spreadsheet
from autograder.export.people import People
from autograder.export.totals import Total
from autograder.gradebook.record import number

COLUMNS = ["student", "name", "email", "chapter", "raw", "penalty", "points", "max_points", "waiting", "note"]


def table(totals: Iterable[Total], people: People) -> bytes:
    """The table as CSV: who was left by a fault has no points, which are not 0 points."""
    rows = []
    for each in totals:
        points = [number(each.raw), number(each.penalty), number(each.points)] if not each.fault else [""] * 3
        who = [each.student, people.names.get(each.student, ""), people.emails.get(each.student, "")]
        note = f"not graded: {each.fault}" if each.fault else ""
        rows.append([*who, each.chapter, *points, number(each.max_points), str(each.waiting or ""), note])
    return spreadsheet.written(COLUMNS, rows)
