"""When each student handed in, as a table of the instructor's says: `grade --handed-in times.csv`.

A Canvas zip does not say: its members are streamed into it as it is made (canvas-lms, lib/content_zipper.rb,
`add_attachment_to_zip`), so that all have the time of the download. Canvas's API does: the columns of its Submission
object (`user_id`, `submitted_at`, `late`; https://canvas.instructure.com/doc/api/submissions.html) are read as they are.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder.model import headers
from autograder.model.course import CourseError

COLUMNS = {  # as they may be called, squashed -> what they are
    "id": "id",
    "student": "id",
    "lms id": "lms id",
    "user id": "lms id",
    "handed in": "when",
    "submitted at": "when",
    "late": "late",
    "chapter": "chapter",
}
FORMAT = "%Y-%m-%d %H:%M:%S.%f UTC"  # as nbgrader writes timestamp.txt
YES, NO = frozenset({"yes", "true", "1", "late"}), frozenset({"no", "false", "0"})


@dataclass(frozen=True)
class Told:
    """What a line says of a student."""

    when: str  # in UTC, as in timestamp.txt
    late: bool | None = None  # what the system says, if the table has it


class Times:
    """A CSV with the columns `id` (or `lms id`, `user_id`) and `handed in` (or `submitted_at`); `late` and `chapter` may be
    there. A line without a time says nothing; one of another chapter than `chapter` is passed over.

    Raises CourseError, which names the file, the line and the mend; OSError.
    """

    def __init__(self, path: Path, chapter: str) -> None:
        self.path = path
        self._by_id: dict[str, Told] = {}
        self._by_number: dict[str, Told] = {}
        self._used: set[int] = set()
        self._lines: dict[int, str] = {}  # of each `Told`, to be named
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                self._read(csv.reader(file), chapter)
        except (UnicodeDecodeError, csv.Error) as error:
            raise CourseError(f"{path}: cannot be read ({error}); save it as CSV in UTF-8") from None

    def _read(self, rows: Any, chapter: str) -> None:
        head = [COLUMNS.get(" ".join(cell.replace("_", " ").casefold().split()), "") for cell in next(rows, [])]
        twice = [name for name, count in Counter(filter(None, head)).items() if count > 1]
        if "when" not in head or not {"id", "lms id"} & set(head) or twice:
            raise CourseError(
                f"{self.path}: its first line must name the columns `id` (or `lms id`) and `handed in`, each once, as in "
                "id,handed in"
            )
        for row in rows:
            cells = dict(zip(head, (cell.strip() for cell in row), strict=False))
            if cells.get("when") and cells.get("chapter", "") in ("", chapter, chapter[:2], chapter[3:]):
                self._line(f"{self.path}, line {rows.line_num}", cells)

    def _line(self, where: str, cells: dict[str, str]) -> None:
        when = headers.date(f"{where}: {cells['when']!r}", cells["when"])
        says = cells.get("late", "").casefold()
        if says and says not in YES | NO:
            raise CourseError(f"{where}: late: {cells['late']!r}; write yes or no")
        told = Told(f"{datetime.fromisoformat(when):{FORMAT}}", says in YES if says else None)
        names = [(self._by_id, cells.get("id", "")), (self._by_number, cells.get("lms id", ""))]
        if not any(name for _, name in names):
            raise CourseError(f"{where}: it says a time, but of nobody; write the id")
        for table, name in names:
            if name and table.setdefault(name, told) is not told:
                raise CourseError(f"{where}: {name} stands on an earlier line, too; keep one of them")
        self._lines[id(told)] = f"{where} ({' '.join(name for _, name in names if name)})"

    def find(self, student: str, lms: str) -> Told | None:
        """What is said of a student, by id, else by the system's number."""
        told = self._by_id.get(student) or (self._by_number.get(lms) if lms else None)
        if told:
            self._used.add(id(told))
        return told

    def unused(self) -> list[str]:
        """The lines that are of nobody who handed in."""
        return [where for key, where in self._lines.items() if key not in self._used]
