"""Whose file it is: the names that Canvas, Moodle, nbgrader's exchange and nbgrader's folders give to what was handed in.

Names are read by nbgrader's own `FileNameCollectorPlugin`, so that a pattern that serves `nbgrader zip_collect` serves
`grade --name-pattern`, too. A name is taken apart from its front, which the system writes, never from its end, which the
student does: `adalovelace_12_34_bobbrown_56_78_x.ipynb` is Ada's.

    Canvas    lovelaceada_[LATE_]12345_67890_x-2.ipynb          student lovelaceada_12345 (the user's number)
    Moodle    Ada Lovelace_123_assignsubmission_file_/x.ipynb   student Ada Lovelace; x.ipynb may follow without a folder
    exchange  ada+03_x+2026-11-30 12:00:00.000000 UTC+random/x.ipynb
    nbgrader  ada/03_x/03_x.ipynb
"""

from __future__ import annotations

import csv
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nbgrader.plugins.zipcollect import FileNameCollectorPlugin

from autograder.model.course import CourseError

LOG = logging.getLogger("autograder.submissions.filenames")
LOG.setLevel(logging.CRITICAL)  # the plugin warns of every name that does not match
ANY = [".ipynb", ""]

CANVAS = r"(?P<student_id>[^_/]+)_(?:(?P<late>LATE)_)?(?P<lms>\d{1,20})_(?P<submission>\d{1,20})_(?P<file_id>[^/]+)\Z"
MOODLE = r"(?P<student_id>[^/]+?)_(?P<lms>\d{1,20})_assignsubmission_(?P<kind>[a-z]+)_?/?(?P<file_id>(?s:.*))\Z"
EXCHANGE = (
    r"(?P<student_id>[^/]+)\+(?P<chapter>[^+/]+)\+(?P<timestamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? [A-Za-z/_]+)"
    r"(?:\+[^+/]*)?/(?P<file_id>(?s:.+))\Z"
)
NBGRADER = r"(?P<student_id>[^/]+)/(?P<chapter>[^/]+)/(?P<file_id>[^/]+)\Z"


class Layout(StrEnum):
    """Who named the files."""

    MOODLE = "a Moodle download"
    EXCHANGE = "nbgrader's exchange"
    CANVAS = "a Canvas download"
    NBGRADER = "nbgrader's folders"
    PATTERN = "the names of --name-pattern"


PATTERNS = {
    Layout.MOODLE: MOODLE,
    Layout.EXCHANGE: EXCHANGE,
    Layout.CANVAS: CANVAS,
    Layout.NBGRADER: NBGRADER,
}


@dataclass(frozen=True)
class Claim:
    """What a name says."""

    name: str  # the student's, as the system gives it
    file: str  # the file's own name
    lms: str = ""  # the system's number of the student
    chapter: str = ""
    when: str = ""  # when it was handed in, as the name says
    submission: int = 0  # the system's number, which grows
    late: bool = False  # the system says so
    text: bool = False  # typed into the system: no file


class Reader:
    """Reads names of one layout. Raises CourseError for a pattern that cannot serve."""

    def __init__(self, layout: Layout, pattern: str = "") -> None:
        self.layout = layout
        said = pattern or PATTERNS[layout]
        try:
            groups = set(re.compile(said).groupindex)
        except re.error as error:
            raise CourseError(f"--name-pattern {said!r} is no regular expression ({error}); mend it") from None
        if missing := {"student_id", "file_id"} - groups:
            raise CourseError(
                f"--name-pattern {said!r}: it names no group {min(missing)}; write (?P<{min(missing)}>...), as for "
                "nbgrader zip_collect"
            )
        self._plugin: Any = FileNameCollectorPlugin(named_regexp=said, valid_ext=ANY, log=LOG)

    def read(self, parts: tuple[str, ...]) -> Claim | None:
        """What the path says; None where it is no name of this layout."""
        # the plugin looks at what follows the last dot, too, which for an exchange's folder is a fraction of a second
        extension = os.path.splitext(parts[-1])[1]
        if extension not in self._plugin.valid_ext:
            self._plugin.valid_ext = [*ANY, extension]
        found = self._plugin.collect("/".join(parts))
        if (
            not found
            or not found["file_id"]
            or found["student_id"] in (None, "", ".", "..")
            or "/" in found["student_id"]
        ):
            return None
        file = found["file_id"].rsplit("/", 1)[-1]
        if self.layout is Layout.PATTERN and not file.endswith(".ipynb"):
            file += extension
        return Claim(
            found["student_id"],
            file,
            lms=found.get("lms") or "",
            chapter=found.get("chapter") or "",
            when=found.get("timestamp") or "",
            submission=int(found.get("submission") or 0),
            late=bool(found.get("late")),
            text=(found.get("kind") or "file") != "file",
        )


def recognise(paths: Iterable[tuple[str, ...]], chapter: str) -> tuple[Layout, int] | None:
    """Who named these files, and how many folders they all lie in; None if nobody that is known."""
    paths = [parts for parts in paths if parts]
    for above in range(4):
        if above and len({parts[:above] for parts in paths}) != 1:
            return None
        for layout in PATTERNS:
            reader = Reader(layout)
            claims = (reader.read(parts[above:]) for parts in paths if len(parts) > above)
            if any(claim and (layout is not Layout.NBGRADER or claim.chapter == chapter) for claim in claims):
                return layout, above
    return None


def rank(file: str, chapter: str) -> tuple[bool, int]:
    """Whether a file is called as the chapter is, and its number: `x-2.ipynb`, `x_2.ipynb` and `x (2).ipynb` are 2."""
    stem = file[: -len(".ipynb")] if file.lower().endswith(".ipynb") else file
    found = re.fullmatch(rf"{re.escape(chapter)}(?:[-_](\d{{1,6}})| ?\((\d{{1,6}})\))?", stem, re.IGNORECASE)
    return (True, int(found[1] or found[2] or 0)) if found else (False, 0)


class Roster:
    """A CSV with the columns `id`, `name`, `lms id` (any one of the last two will do): which student is which.

    Raises CourseError, which names the file, the line and the mend; OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._by_number: dict[str, str] = {}
        self._by_name: dict[str, set[str]] = {}
        self.ids: set[str] = set()
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                self._read(csv.reader(file))
        except (UnicodeDecodeError, csv.Error) as error:
            raise CourseError(f"{path}: cannot be read ({error}); save it as CSV in UTF-8") from None

    def _read(self, rows: Any) -> None:
        head = [cell.strip().casefold().replace("_", " ") for cell in next(rows, [])]
        if "id" not in head or not {"name", "lms id"} & set(head) or max(Counter(head).values()) > 1:
            raise CourseError(f"{self.path}: its first line is {head}; it must name the columns id, name, lms id")
        for row in rows:
            line = f"{self.path}, line {rows.line_num}"
            if not any(cell.strip() for cell in row):
                continue
            cells = dict(zip(head, (cell.strip() for cell in row), strict=False))
            student, number, name = cells.get("id", ""), cells.get("lms id", ""), cells.get("name", "")
            if not student or "/" in student or "\0" in student or student in (".", "..") or len(student) > 100:
                raise CourseError(f"{line}: {student!r} is no id; give one without a slash, of 1 to 100 characters")
            if student in self.ids:
                raise CourseError(f"{line}: the id {student!r} stands on an earlier line, too; keep one of them")
            self.ids.add(student)
            if number and self._by_number.setdefault(number, student) != student:
                raise CourseError(f"{line}: the lms id {number} is another student's, too; correct one of them")
            for key in _squashed(name):
                self._by_name.setdefault(key, set()).add(student)

    def find(self, claim: Claim) -> tuple[str | None, str]:
        """The id of who is claimed to have handed in, or None and what to do about it."""
        if claim.lms and claim.lms in self._by_number:
            return self._by_number[claim.lms], ""
        if claim.name in self.ids:
            return claim.name, ""
        found = set().union(*(self._by_name.get(key, set()) for key in _squashed(claim.name)))
        if len(found) == 1:
            return found.pop(), ""
        if found:
            return None, f"{self.path}: {len(found)} students are called so; give their lms id ({claim.lms or 'none'})"
        number = f", lms id {claim.lms}" if claim.lms else ""
        return None, f"{self.path}: no such name{number}; add a line"


def _squashed(name: str) -> set[str]:
    """A name as systems squash it: letters and digits only, first name first and last name first."""
    words = name.replace(",", " ").split()
    turned = {"".join(words[at:] + words[:at]) for at in range(len(words))}
    return {key for each in turned if (key := "".join(c for c in each.casefold() if c.isalnum()))}
