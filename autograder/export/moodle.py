"""The offline grading worksheet of a Moodle assignment, with its grades filled, to be uploaded again.

What Moodle's importer reads (moodle, mod/assign/feedback/offline/importgradeslib.php and locallib.php): the columns
`Identifier` ("Participant 5101"), `Grade` and `Last modified (grade)`, called so in the language of whoever uploads it. A grade
that was changed in Moodle after that time, that is locked, or that is over the maximum is passed over; a blank one too. The
columns of feedback would be written back, so they are left out. A comma is decimal where the worksheet's own numbers have one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autograder.export import filling, spreadsheet
from autograder.export.filling import Filled
from autograder.export.people import People
from autograder.export.spreadsheet import Sheet
from autograder.export.totals import Total
from autograder.model.course import Chapter, CourseError

IDENTIFIER, GRADE, MODIFIED, MOST = "Identifier", "Grade", "Last modified (grade)", "Maximum Grade"
KEYS = ("ID number", "Email address", "Username")
CHANGEABLE = "Grade can be changed"
PARTICIPANT = re.compile(r"\D*([0-9]{1,20})")


def fill(sheet: Sheet, chapter: Chapter, totals: Sequence[Total], people: People, filled: Filled) -> None:
    """Fill in the totals of a chapter. Raises CourseError for what is no worksheet of Moodle's, and for other points."""
    missing = [name for name in (IDENTIFIER, GRADE, MODIFIED, MOST) if name not in sheet.head]
    if missing:
        raise CourseError(
            f"{sheet.path}: its first line names no {', '.join(missing)}; download the assignment's grading worksheet "
            "(View all submissions, Download grading worksheet), with Moodle in English"
        )
    where = {name: sheet.head.index(name) for name in (IDENTIFIER, GRADE, MODIFIED, MOST)}
    changeable = sheet.column(CHANGEABLE)
    keys = [at for name in KEYS if (at := sheet.column(name)) is not None]
    found = []
    for row in sheet.rows:
        participant = PARTICIPANT.fullmatch(row[where[IDENTIFIER]].strip())
        found.append(people.find(participant[1] if participant else "", [row[at].strip() for at in keys], ""))
    owners = filling.owners(sheet.path, found, people.students, filled)
    marks = {total.student: total for total in totals}
    for row, student in zip(sheet.rows, owners, strict=True):
        total = marks.get(student)
        if total is None:
            filled.untouched += 1
            continue
        if changeable is not None and row[changeable].strip() == "No":
            filled.troubles.append(f"{student}, {total.chapter}: the grade is locked there; the cell stays")
            continue
        possible = row[where[MOST]].strip()
        said = filling.mark(total, possible, f"{sheet.path}, {MOST}", filled)
        if said is not None:
            said = said.replace(".", ",") if "," in possible else said
            before = row[where[GRADE]].strip()
            filled.filled += 1
            filled.changed += bool(before not in ("", "-") and _value(before) != _value(said))
            row[where[GRADE]] = said
    kept = [
        sheet.head.index(name) for name in (IDENTIFIER, "Full name", *KEYS, GRADE, MOST, MODIFIED) if name in sheet.head
    ]
    rows = [[row[at] for at in kept] for row in sheet.rows]
    filled.data = spreadsheet.written([sheet.head[at] for at in kept], rows, sheet.delimiter, sheet.bom)


def _value(said: str) -> float | str:
    try:
        return float(said.replace(",", "."))
    except ValueError:
        return said
