"""A CSV file as a system wrote it: read with its delimiter and byte-order mark, and written back with them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.model import harmless
from autograder.model.course import CourseError

NUMBER = re.compile(r"[-+]?[0-9][0-9.,]*%?|-|")  # `-` alone is Moodle's "no grade"
BOM = "\ufeff"


@dataclass(frozen=True)
class Sheet:
    """What a CSV file holds."""

    path: Path
    head: list[str]
    rows: list[list[str]]  # each as long as the head
    delimiter: str = ","
    bom: bool = False

    def column(self, name: str) -> int | None:
        """Where a column is; None if there is none."""
        return self.head.index(name) if name in self.head else None


def read(path: Path) -> Sheet:
    """Read a downloaded CSV file. Raises CourseError for what is none, OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CourseError(f"{path}: is not in UTF-8; download it again, and do not save it by a spreadsheet") from None
    bom, text = text.startswith(BOM), text.removeprefix(BOM)
    first = next(iter(text.splitlines()), "")
    delimiter = ";" if first.count(";") > first.count(",") else ","
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise CourseError(f"{path}: is no CSV ({error}); download it again") from None
    if not rows:
        raise CourseError(f"{path}: is empty; download it again")
    head = [cell.strip() for cell in rows[0]]
    width = len(head)
    if any(len(row) > width for row in rows):
        raise CourseError(f"{path}: a line has more cells than the first one; download it again")
    return Sheet(path, head, [row + [""] * (width - len(row)) for row in rows[1:]], delimiter, bom)


def written(head: list[str], rows: Iterable[list[str]], delimiter: str = ",", bom: bool = False) -> bytes:
    """A CSV file; no cell below the head is taken for a formula (OWASP, CSV injection), numbers stay as they are."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([cell if NUMBER.fullmatch(cell) else harmless.field(cell) for cell in row])
    return ((BOM if bom else "") + text.getvalue()).encode()
