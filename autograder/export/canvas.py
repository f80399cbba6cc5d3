"""A gradebook that was downloaded from Canvas, with the chapters' columns filled, to be imported again.

What Canvas's importer reads (canvas-lms, lib/gradebook_importer.rb, and lib/gradebook_exporter.rb, which wrote the file): the
first cells of the head are `Student`, `ID` (or `LastName`, `FirstName`, `ID`), some of `SIS User ID`, `SIS Login ID`,
`Integration ID`, `Root Account`, and `Section`; then a column an assignment, `Title (ID)`. A line of `Manual Posting` and one
that begins with `    Points Possible` may come before the students. A student is found by `ID`, then by the SIS ids. A blank
cell takes a mark away: so the cells of whom we have no mark of stay as they were downloaded. Columns that are not in the file
are left alone: only the filled ones are written, so that no other mark goes back to what it was at the download.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from autograder.export import filling, spreadsheet
from autograder.export.filling import Filled
from autograder.export.people import People
from autograder.export.spreadsheet import Sheet
from autograder.export.totals import Total
from autograder.model.course import Chapter, CourseError

TITLE = re.compile(r"(?P<title>.*?)(?:\s*\((?P<id>[0-9]+)\))?")
KEYS = ("SIS User ID", "SIS Login ID", "Integration ID")
UNGRADED = {"EX": "is excused there", "N/A": "is not assigned to them there"}


def fill(
    sheet: Sheet,
    chapters: Sequence[tuple[Chapter, Sequence[Total]]],
    people: People,
    filled: Filled,
    columns: Mapping[str, str],
) -> None:
    """Fill in the totals of some chapters. `columns`: chapter -> its column's title or id, where it is called otherwise.

    Raises CourseError for what is no gradebook of Canvas's, a column that is not there, and other points.
    """
    section = sheet.column("Section")
    ours = sheet.column("ID")
    if section is None or ours is None or sheet.head[0] not in ("Student", "LastName") or ours > section:
        raise CourseError(
            f"{sheet.path}: its first line is no gradebook's of Canvas (Student, ID, ..., Section); export one in Canvas: "
            "Grades, Export, Export Entire Gradebook"
        )
    first = next((n for n, row in enumerate(sheet.rows) if "Points Possible" in row[0]), None)
    if first is None:
        raise CourseError(f"{sheet.path}: no line says Points Possible; export the gradebook anew")
    above, students = sheet.rows[: first + 1], sheet.rows[first + 1 :]
    keys = [at for name in KEYS if (at := sheet.column(name)) is not None]
    found = [people.find(row[ours].strip(), [row[at].strip() for at in keys], _name(sheet, row)) for row in students]
    owners = filling.owners(sheet.path, found, people.students, filled)
    wanted = {}
    for chapter, totals in chapters:
        at = _column(sheet, chapter, section, columns.get(chapter.name, ""))
        if at in wanted:
            raise CourseError(f"{sheet.path}: two chapters are the column {sheet.head[at]!r}; name each with --column")
        wanted[at] = {total.student: total for total in totals}
    for row, student in zip(students, owners, strict=True):
        for at, totals in wanted.items():
            total = totals.get(student)
            if total is None:
                filled.untouched += 1
                continue
            if why := UNGRADED.get(row[at].strip()):
                filled.troubles.append(f"{student}, {total.chapter}: {why}; the cell stays")
                continue
            where = f"{sheet.path}, {sheet.head[at]!r}"
            said = filling.mark(total, above[-1][at].strip(), where, filled)
            if said is not None:
                filled.filled += 1
                filled.changed += row[at].strip() not in ("", said)
                row[at] = said
    kept = [*range(section + 1), *sorted(wanted)]
    rows = [[row[at] for at in kept] for row in (*above, *students)]
    filled.data = spreadsheet.written([sheet.head[at] for at in kept], rows, sheet.delimiter, sheet.bom)


def _name(sheet: Sheet, row: list[str]) -> str:
    return f"{row[0]}, {row[1]}" if sheet.head[0] == "LastName" else row[0]


def _column(sheet: Sheet, chapter: Chapter, section: int, said: str) -> int:
    """Which column is the chapter's: the one that `said` names, else the one called like it."""
    titles = {at: TITLE.fullmatch(sheet.head[at]) for at in range(section + 1, len(sheet.head))}
    number, _, words = chapter.name.partition("_")
    names = {_plain(each) for each in (chapter.name, chapter.title, words, f"{number} {chapter.title}")}
    fits = []
    for at, title in titles.items():
        if title and (
            (said in (sheet.head[at], title["title"], title["id"])) if said else _plain(title["title"]) in names - {""}
        ):
            fits.append(at)
    if len(fits) == 1:
        return fits[0]
    there = ", ".join(repr(sheet.head[at]) for at in titles) or "none"
    what = f"no column is called {said!r}" if said else f"no column is called like {chapter.name}"
    what = what if not fits else f"{len(fits)} columns may be {chapter.name}'s"
    raise CourseError(f'{sheet.path}: {what}; say which: --column "{chapter.name}=TITLE OR ID"; there are: {there}')


def _plain(title: str) -> str:
    return "".join(character for character in title.casefold() if character.isalnum())
