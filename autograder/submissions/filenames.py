"""Whose file it is: the names that Canvas, Moodle, nbgrader's exchange and nbgrader's folders give to what was handed in.

A pattern is matched as nbgrader's own `FileNameCollectorPlugin` does it, so that one that serves `nbgrader zip_collect` serves
`grade --name-pattern`, too. A name is taken apart from its front, which the system writes, never from its end, which the
student does: `adalovelace_12_34_bobbrown_56_78_x.ipynb` is Ada's. Who named the files of a class is what most of them say:
the system's front is before every file, whatever a student calls theirs.

    Canvas    lovelaceada_[LATE_]12345_67890_x-2.ipynb          student lovelaceada_12345 (the user's number)
    Moodle    Ada Lovelace_123_assignsubmission_file_/x.ipynb   student Ada Lovelace; x.ipynb may follow without a folder
    exchange  ada+03_x+2026-11-30 12:00:00.000000 UTC+random/x.ipynb
    nbgrader  ada/03_x/03_x.ipynb
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile

from autograder.model.course import CourseError

# Moodle writes a blank for an underscore in a name.
# Canvas (canvas-lms, lib/content_zipper.rb) says LATE by a student's own due date, extensions included; the second number is
# the file's, and what was typed in has none: lovelaceada_12345_text.html.
# Canvas leaves an underscore in a name; and it drops what is no letter, so that a name of signs only is empty
CANVAS = (
    r"(?P<student_id>[^/]*?)_(?:(?P<late>LATE)_)?(?P<lms>[0-9]{1,20})_"
    r"(?:(?P<submission>[0-9]{1,20})_|(?=(?:text|link)\.html\Z))(?P<file_id>[^/]+)\Z"
)
MOODLE = r"(?P<student_id>[^_/]+)_(?P<lms>[0-9]{1,20})_assignsubmission_(?P<kind>[a-z]+)_?/?(?P<file_id>(?s:.*))\Z"
EXCHANGE = (
    r"(?P<student_id>[^/]+)\+(?P<chapter>[^+/]+)\+(?P<timestamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? [A-Za-z/_]+)"
    r"(?:\+[^+/]*)?/(?P<file_id>(?s:.+))\Z"
)
NBGRADER = r"(?P<student_id>[^/]+)/(?P<chapter>[^/]+)/(?P<file_id>(?s:.+))\Z"
SIGNS = re.compile(r"[0-9]{1,20}_")  # a number before a file's own name in Canvas: it may be the end of a person's name
JUNK = {".DS_Store", "Thumbs.db", "desktop.ini"}
UNKNOWN = "?"  # in place of the names of files that are not looked at
ABOVE = 3  # folders, at most, that all of an archive's files may lie in


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
        expression = pattern or PATTERNS[layout]
        try:
            self._regexp = re.compile(expression)
        except re.error as error:
            raise CourseError(f"--name-pattern {expression!r} is no regular expression ({error}); mend it") from None
        if missing := {"student_id", "file_id"} - set(self._regexp.groupindex):
            raise CourseError(
                f"--name-pattern {expression!r}: it names no group {min(missing)}; write (?P<{min(missing)}>...), as for "
                "nbgrader zip_collect"
            )

    def read(self, parts: tuple[str, ...]) -> Claim | None:
        """What the path says; None where it is no name of this layout."""
        if not parts:
            return None
        match = self._regexp.match("/".join(parts))
        found = match.groupdict() if match else {}
        if not (file := found.get("file_id")) or (name := found["student_id"]) is None or "/" in name:
            return None
        if name in ("", ".", "..") and self.layout is not Layout.CANVAS:  # Canvas's number makes a name of it
            return None
        file = file.rsplit("/", 1)[-1]
        if self.layout is Layout.PATTERN and not file.endswith(".ipynb"):
            file += os.path.splitext(parts[-1])[1]
        return Claim(
            name,
            file,
            lms=found.get("lms") or "",
            chapter=found.get("chapter") or "",
            when=found.get("timestamp") or "",
            submission=int(found.get("submission") or 0) if self.layout is Layout.CANVAS else 0,
            late=bool(found.get("late")),
            text=(found.get("kind") or "file") != "file",
        )


READERS = {layout: Reader(layout) for layout in PATTERNS}


def junk(parts: tuple[str, ...]) -> bool:
    """Whether a file is one that systems add to archives and folders."""
    return "__MACOSX" in parts or (parts and parts[-1]) in JUNK


def front(parts: tuple[str, ...]) -> tuple[str, ...]:
    """What of a name says whose the file is: all of it, but what a file in folders is called itself."""
    return (*parts[:-1], UNKNOWN) if len(parts) > 1 else parts


@lru_cache(1000)  # one student's files without number are looked at once
def fits(parts: tuple[str, ...], layout: Layout, chapters: tuple[str, ...]) -> bool:
    """Whether a name is one of a layout; of nbgrader's folders any would be, but for the chapter, by whichever name."""
    claim = READERS[layout].read(parts)
    return claim is not None and (layout is not Layout.NBGRADER or claim.chapter in chapters)


def most(names: Iterable[tuple[str, ...]], chapters: tuple[str, ...]) -> tuple[Layout, int] | None:
    """The layout that most files of a class fit, and how many folders they all lie in; None if nobody named them."""
    every = [parts for parts in names if parts and not junk(parts)]
    levels = zip(*(parts[:-1] for parts in every), strict=False)
    deepest = min(ABOVE, len(list(takewhile(lambda level: len(set(level)) == 1, levels))))
    counts = Counter(
        (layout, above)
        for above in range(deepest + 1)
        for parts in every
        for layout in PATTERNS
        if fits(front(parts[above:]), layout, chapters)
    )
    order = list(PATTERNS)
    return max(counts, key=lambda key: (counts[key], -key[1], -order.index(key[0])), default=None)


def pattern(said: str) -> Reader | None:
    """What an instructor says of the names, as for nbgrader zip_collect. Raises CourseError for a pattern that cannot serve."""
    return Reader(Layout.PATTERN, said) if said else None


def rank(file: str, chapter: str) -> tuple[bool, int]:
    """Whether a file is called as the chapter is, and its number: `x-2.ipynb`, `x_2.ipynb` and `x (2).ipynb` are 2."""
    stem = file[: -len(".ipynb")] if file.lower().endswith(".ipynb") else file
    found = re.fullmatch(rf"{re.escape(chapter)}(?:[-_](\d{{1,6}})| ?\((\d{{1,6}})\))?", stem, re.IGNORECASE)
    return (True, int(found[1] or found[2] or 0)) if found else (False, 0)
