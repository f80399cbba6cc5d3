"""term.toml: what an instructor says of a term, each key typed, and the mend for whoever writes something else.

attempt = "best"                    # of the attempts that were graded; else the last one counts
[bank]
days = 5                            # late days that cost nothing, over all chapters
per_chapter = 2                     # at most, of one
[sections.B]
students = ["eve", "fay"]
due = { "03" = 2026-12-02T23:59:00+01:00 }
[weights]
"03" = 30
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from autograder.gradebook import tables
from autograder.model import headers
from autograder.model.course import CourseError, near
from autograder.submissions import intake

MENDS = {
    "attempt": 'attempt = "best" or attempt = "last"',
    "bank": "[bank] with days = 5",
    "sections": '[sections.B] with students = ["eve", "fay"]',
    "weights": '[weights] with a number for each chapter, as in "03" = 30',
    "days": "days = 5: a whole number to 366",
    "per_chapter": "per_chapter = 2: a whole number to 366",
    "students": 'students = ["eve", "fay"]: the ids of totals.csv',
    "due": 'due = { "03" = 2026-12-02T23:59:00+01:00 }',
}
Days = Annotated[int, Meta(ge=0, le=366)]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    attempt: Literal["last", "best"] = "last"
    bank: dict[str, Any] | None = None
    sections: dict[str, dict[str, Any]] = {}
    weights: dict[str, Any] = {}


class _Bank(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    days: Days
    per_chapter: Days = 366


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    students: tuple[str, ...]
    due: dict[str, Any] = {}


@dataclass(frozen=True)
class Section:
    """Some of a class, with due dates of their own."""

    students: tuple[str, ...]
    due: Mapping[str, datetime] = field(default_factory=dict)  # chapter -> in UTC, naive


@dataclass(frozen=True)
class Rules:
    """What holds of a term."""

    path: Path
    best: bool = False  # of the attempts; else the last one
    days: int = 0  # of the bank
    per_chapter: int = 366
    sections: Mapping[str, Section] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)  # chapter -> its weight; none: points are added up

    def section(self, student: str) -> str:
        """Which section a student is in; empty: none."""
        return next((name for name, each in self.sections.items() if student in each.students), "")


def read(path: Path, full_name: Callable[[str], str]) -> Rules:
    """Read the rules; chapters are named as `full_name` knows them.

    Raises CourseError, which names the file, the key and the mend; OSError.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no UTF-8, no TOML
        raise CourseError(f"{path}: is no TOML: {error}") from None
    found = _typed(path, "", values, _File)
    bank = _typed(path, "bank", found.bank, _Bank) if found.bank is not None else _Bank(0)
    sections = {name: _section(path, name, said, full_name) for name, said in found.sections.items()}
    owners: dict[str, str] = {}
    for name, each in sections.items():
        for student in each.students:
            if (other := owners.setdefault(student, name)) != name:
                raise CourseError(
                    f"{path}: sections.{name}.students: {student!r} is in section {other}, too; keep one of them"
                )
    weights: dict[str, float] = {}
    for said, value in found.weights.items():
        weight = _typed(path, f"weights.{said}", value, Annotated[float, Meta(ge=0, le=1e6)])
        _once(weights, _chapter(path, f"weights.{said}", said, full_name), weight, f"{path}: weights.{said}")
    return Rules(path, found.attempt == "best", bank.days, bank.per_chapter, sections, weights)


def _section(path: Path, name: str, said: dict[str, Any], full_name: Callable[[str], str]) -> Section:
    key = f"sections.{name}"
    found = _typed(path, key, said, _Section)
    due: dict[str, datetime] = {}
    for chapter, value in found.due.items():
        where = f"{path}: {key}.due.{chapter}"
        written = value.isoformat() if isinstance(value, datetime) else value
        if not isinstance(written, str):
            raise CourseError(f"{where}: {value!r}; write {MENDS['due']}")
        when = tables.moment(headers.date(f"{where}: {written!r}", written))
        assert when
        _once(due, _chapter(path, f"{key}.due.{chapter}", chapter, full_name), when, where)
    return Section(tuple(dict.fromkeys(map(intake.student_name, found.students))), due)


def _once(found: dict[str, Any], chapter: str, value: object, where: str) -> None:
    if chapter in found:
        raise CourseError(f"{where}: {chapter} stands there under another name, too; keep one of them")
    found[chapter] = value


def _chapter(path: Path, key: str, said: str, full_name: Callable[[str], str]) -> str:
    try:
        return full_name(said)
    except CourseError as error:
        raise CourseError(f"{path}: {key}: {error}") from None


def _typed(path: Path, key: str, value: object, kind: Any) -> Any:
    """A value as its type has it. Raises CourseError, with the key and what to write there."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        says = str(error)
    above = f"{path}: {key}: " if key else f"{path}: "
    if unknown := re.search(r"unknown field `(.*)`", says):
        raise CourseError(f"{above}there is no key {unknown[1]!r}; {near(unknown[1], kind.__struct_fields__)}")
    if missing := re.search(r"missing required field `(.*)`", says):
        raise CourseError(f"{above}{missing[1]} is missing; write {MENDS[missing[1]]}")
    inner = found[1] if (found := re.search(r"`(?:key in )?\$\.(\w+)", says)) else ""
    name = inner or key.partition(".")[0]
    shown = value[inner] if inner and isinstance(value, dict) else value
    raise CourseError(f"{path}: {'.'.join(filter(None, (key, inner)))}: {shown!r}; write {MENDS[name]}")
