"""When each student handed in, as a table of the instructor's says: `grade --handed-in times.csv`.

A Canvas zip does not say: its members are streamed into it as it is made (canvas-lms, lib/content_zipper.rb,
`add_attachment_to_zip`), so that all have the time of the download. Canvas's API does: the columns of its Submission
object (`user_id`, `submitted_at`, `late`; https://canvas.instructure.com/doc/api/submissions.html) are read as they are.

A Moodle zip does not say either: since Moodle's `core_files\\local\\archive_writer\\zip_writer` hands each file to ZipStream
without a time, all have that of the download. Its grading worksheet does ("Last modified (submission)"; moodle,
mod/assign/gradingtable.php, `col_timesubmitted`), in English and in the zone of whoever downloads it, which it does not name.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from autograder.model import headers
from autograder.model.course import CourseError
from autograder.submissions import lists

COLUMNS = {  # as they may be called, squashed -> what they are
    "id": "id",
    "student": "id",
    "lms id": "lms id",
    "user id": "lms id",
    "handed in": "when",
    "submitted at": "when",
    "late": "late",
    "chapter": "chapter",
    "identifier": "lms id",  # of Moodle's worksheet
    "last modified (submission)": "when",
}
WANTS = (
    "the columns `id` (or `lms id`) and `handed in`, each once, as in id,handed in; or give Moodle's grading worksheet, "
    "downloaded with Moodle in English"
)
PARTICIPANT = re.compile(r"Participant ([0-9]{1,20})")
WORKSHEET = ("%A, %d %B %Y, %I:%M %p", "%A, %d %b %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%A, %d %b %Y, %H:%M")
FORMAT = "%Y-%m-%d %H:%M:%S.%f UTC"  # as nbgrader writes timestamp.txt
YES, NO = frozenset({"yes", "true", "1", "late"}), frozenset({"no", "false", "0"})


@dataclass(frozen=True)
class Told:
    """What a line says of a student."""

    when: str  # in UTC, as in timestamp.txt
    late: bool | None = None  # what the system says, if the table has it
    where: str = ""  # the file, the line and whose it is, to be named


class Times:
    """A CSV with the columns `id` (or `lms id`, `user_id`) and `handed in` (or `submitted_at`); `late` and `chapter` may be
    there; or Moodle's grading worksheet, whose times are of `zone`. A line without a time says nothing; one of another
    chapter than `chapter` is passed over.

    Raises CourseError, which names the file, the line and the mend; OSError.
    """

    def __init__(self, path: Path, chapter: str, zone: str = "") -> None:
        self.path, self.zone = path, zone
        self._by_id: dict[str, Told] = {}
        self._by_number: dict[str, Told] = {}
        self._unused: dict[str, Told] = {}  # by where they stand: of nobody who handed in, so far
        for where, cells in lists.lines(path, COLUMNS, WANTS, {"when"}, {"id", "lms id"}):
            if cells.get("when", "-") not in ("", "-") and cells.get("chapter", "") in (
                "",
                chapter,
                chapter[:2],
                chapter[3:],
            ):
                self._line(where, cells)

    def _line(self, where: str, cells: dict[str, str]) -> None:
        when = self._date(where, cells["when"])
        says = cells.get("late", "").casefold()
        if says and says not in YES | NO:
            raise CourseError(f"{where}: late: {cells['late']!r}; write yes or no")
        number = cells.get("lms id", "")
        participant = PARTICIPANT.fullmatch(number)
        names = [(self._by_id, cells.get("id", "")), (self._by_number, participant[1] if participant else number)]
        if not any(name for _, name in names):
            raise CourseError(f"{where}: it says a time, but of nobody; write the id")
        its = f"{where} ({' '.join(name for _, name in names if name)})"
        told = Told(f"{datetime.fromisoformat(when):{FORMAT}}", says in YES if says else None, its)
        for table, name in names:
            if name and table.setdefault(name, told) is not told:
                raise CourseError(f"{where}: {name} stands on an earlier line, too; keep one of them")
        self._unused[its] = told

    def _date(self, where: str, said: str) -> str:
        """A date in UTC, of which Moodle's say neither offset nor zone."""
        plain = " ".join(said.split())
        for each in WORKSHEET:
            with suppress(ValueError):
                when = datetime.strptime(plain, each)
                if "/" not in self.zone:  # an offset is not enough: clocks change
                    raise CourseError(
                        f"{where}: {said!r} does not say where; name the zone that Moodle shows you times in, once, with the "
                        "due date: --due '2026-11-30T23:59 Europe/Vienna'"
                    )
                return headers.date(f"{where}: {said!r}", f"{when:%Y-%m-%dT%H:%M} {self.zone}")
        return headers.date(f"{where}: {said!r}", said)

    def find(self, student: str, lms: str) -> Told | None:
        """What is said of a student, by id, else by the system's number."""
        told = self._by_id.get(student) or (self._by_number.get(lms) if lms else None)
        if told:
            self._unused.pop(told.where, None)
        return told

    def unused(self) -> list[str]:
        """The lines that are of nobody who handed in."""
        return list(self._unused)
