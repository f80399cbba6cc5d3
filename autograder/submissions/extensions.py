"""Who gets more time, as a table of the instructor's says: `grade --extensions extensions.csv`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autograder.model import headers
from autograder.model.course import CourseError
from autograder.submissions import intake, lists

COLUMNS = {"id": "id", "student": "id", "chapter": "chapter", "days": "days", "until": "until", "time": "time"}
WANTS = "the column `id` and one of `days`, `until`, `time`, each once, as in id,chapter,days,until,time"
DAY = 86400.0
DAYS, FACTOR = 366.0, 10.0  # at most


@dataclass(frozen=True)
class Extension:
    """What a line says; None and an empty text: nothing, and what was said before stands."""

    student: str
    chapter: str = ""  # empty: every one that no other line is of
    seconds: float | None = None  # after the due date
    until: str = ""  # instead of the due date: in UTC
    time: float | None = None  # a factor of the limits of time
    where: str = ""  # the file and the line, to be named


def read(path: Path, full_name: Callable[[str], str]) -> tuple[Extension, ...]:
    """Read a CSV with the columns `id` and `days`, `until` or `time`; `chapter` may be there, a name that `full_name` knows.

    Raises CourseError, which names the file, the line and the mend; OSError.
    """
    found: dict[tuple[str, str], Extension] = {}
    for where, cells in lists.lines(path, COLUMNS, WANTS, {"id"}, {"days", "until", "time"}):
        each = _line(where, cells, full_name)
        if found.setdefault((each.student, each.chapter), each) is not each:
            raise CourseError(f"{each.where}: {cells['id']} stands on an earlier line, too; keep one of them")
    return tuple(found.values())


def _line(where: str, cells: dict[str, str], full_name: Callable[[str], str]) -> Extension:
    if not cells.get("id"):
        raise CourseError(f"{where}: it is of nobody; write the id")
    where = f"{where} ({cells['id']})"
    try:
        chapter = full_name(cells["chapter"]) if cells.get("chapter") else ""
    except CourseError as error:
        raise CourseError(f"{where}: {error}") from None
    if cells.get("days") and cells.get("until"):
        raise CourseError(f"{where}: it says days and until; keep one of them")
    if cells.get("until") and not chapter:
        raise CourseError(f"{where}: until is a date for one chapter; name the chapter, or write days")
    days = _number(f"{where}: days", cells.get("days", ""), 0.0, DAYS)
    until = headers.date(f"{where}: until: {cells['until']!r}", cells["until"]) if cells.get("until") else ""
    time = _number(f"{where}: time", cells.get("time", ""), 1.0, FACTOR)
    if days is None and time is None and not until:
        raise CourseError(f"{where}: it says nothing; write days, until or time (days 0 and time 1 take them back)")
    seconds = None if days is None else days * DAY
    return Extension(intake.student_name(cells["id"]), chapter, seconds, until, time, where)


def _number(where: str, said: str, least: float, most: float) -> float | None:
    if not said:
        return None
    try:
        number = float(said)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise CourseError(f"{where}: {said!r}; write a number from {least:g} to {most:g}, as in 1.5")
    return number
