"""Which file of a download is whose, as OUT's handed_in lists say: names that the system made, read from their front.

A file's own name is the student's choice, and so is a display name. The numbers in front of it are the system's.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from autograder.model import harmless
from autograder.model.course import CourseError
from autograder.submissions import filenames
from autograder.submissions.filenames import READERS, Claim, Layout

OURS = frozenset({"yes", "instead"})  # what a student was graded by


@dataclass(frozen=True)
class Handed:
    """A file that somebody was graded by."""

    student: str  # as a field of the list shows them: `harmless.field`
    claim: Claim
    notebook: bool = True  # False: it was handed in instead of one


def files(path: Path) -> tuple[Layout | None, list[Handed]]:
    """Who named the files in a list, and each one that somebody was graded by; no files but of Canvas's and Moodle's.

    Raises CourseError for a list that cannot be read, OSError.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = [row for row in csv.DictReader(file) if row.get("file") and row.get("student")]
    except (UnicodeDecodeError, csv.Error) as error:
        raise CourseError(f"{path}: cannot be read ({error}); delete it and grade again") from None
    parts = {line["file"]: tuple(harmless.unfield(line["file"]).split("/")) for line in lines}
    layout, above = filenames.most(parts.values(), ()) or (None, 0)
    if layout is None or layout not in (Layout.CANVAS, Layout.MOODLE):  # there a file's name is the student's own
        return layout, []
    found = []
    for line in lines:
        claim = READERS[layout].read(parts[line["file"]][above:])
        if claim and claim.lms and line.get("taken") in OURS:
            found.append(Handed(line["student"], claim, line["taken"] == "yes"))
    return layout, found
