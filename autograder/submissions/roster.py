"""Who a claim is of: accounts of the system, made into students by a roster where there is one.

A student stands for one account. Whoever may choose a display name could choose another's: so where two accounts come to
one student, the one whose number the roster gives is taken, and without that neither is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.model import harmless
from autograder.model.course import CourseError
from autograder.submissions import lists
from autograder.submissions.filenames import Claim, Layout

MEANING = re.compile(r"""[<>&"`\\|,;:{}$%#()\[\]]""")  # of a name: to HTML, templates, CSV and patterns
EMAIL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9][A-Za-z0-9.-]{0,250}")
NAME = 100  # characters
ID_BYTES = 200  # of a student's id: it names a folder
COLUMNS = {name: name for name in ("id", "name", "lms id", "first name", "last name", "email")} | {"e-mail": "email"}
Account = tuple[str, str]  # the display name, the system's number


@dataclass(frozen=True)
class Person:
    """Who an account is."""

    student: str = ""  # empty: nobody can say
    sure: bool = False  # by the number
    note: str = ""  # what to do about it
    contested: bool = False  # the name alone would be another's
    may_be: frozenset[str] = frozenset()  # of the roster: who handed in, if it is one of them, is not absent


@dataclass(frozen=True)
class Enrolled:
    """What a roster says of somebody, for nbgrader's table: names come from a system in which students choose them.

    nbgrader's pages put them into HTML and its own export into CSV, both as they are.
    """

    first_name: str = ""
    last_name: str = ""
    email: str = ""


class Roster:
    """A CSV with the columns `id`, `name`, `lms id` (any one of the last two will do): which student is which.

    It may have `email`, and `first name` and `last name` in place of `name`.

    Raises CourseError, which names the file, the line and the mend; OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._by_number: dict[str, str] = {}
        self.numbers: dict[str, str] = {}  # student -> the system's number
        self._by_name: dict[str, set[str]] = {}
        self.ids: set[str] = set()
        self.enrolled: dict[str, Enrolled] = {}
        for line, cells in lists.lines(
            path, COLUMNS, "the columns id, name, lms id", {"id"}, {"name", "lms id", "last name"}
        ):
            student, number = cells.get("id", ""), cells.get("lms id", "")
            name = cells.get("name") or f"{cells.get('first name', '')} {cells.get('last name', '')}".strip()
            if not student or set(student) & set("/\0") or student in (".", "..") or len(student.encode()) > ID_BYTES:
                raise CourseError(f"{line}: {student!r} is no id; give one without a slash, of 1 to {ID_BYTES} bytes")
            if student in self.ids:
                raise CourseError(f"{line}: the id {student!r} stands on an earlier line, too; keep one of them")
            self.ids.add(student)
            self.enrolled[student] = _enrolled(cells)
            if number and self._by_number.setdefault(number, student) != student:
                raise CourseError(f"{line}: the lms id {number} is another student's, too; correct one of them")
            if number:
                self.numbers[student] = number
            for key in _squashed(name):
                self._by_name.setdefault(key, set()).add(student)

    def find(self, claim: Claim) -> Person:
        """Who is claimed to have handed in, by number, by id, by name; nobody where they contradict each other."""
        number = f"lms id {claim.lms}" if claim.lms else "no lms id"
        named = {claim.name} & self.ids or {
            student for key in _squashed(claim.name) for student in self._by_name.get(key, ())
        }
        if student := self._by_number.get(claim.lms):
            if not named or student in named:
                return Person(student, True)
            why = f"its {number} is that of {student}, its name that of {min(named)}; correct one of the two"
            return Person(note=f"{self.path}: {why}", contested=True)
        others = {student for student in named if claim.lms and student in self.numbers}
        if len(named - others) == 1:
            return Person((named - others).pop())
        if not named:
            return Person(note=f"{self.path}: no such name, {number}; add a line")
        may_be = frozenset(named - others)
        if not may_be:
            why = f"it has the name of {min(named)} and {number}, not {self.numbers[min(named)]}; ask who it is, add a line"
        else:
            why = f"{len(named)} students are called so; give the lms id of each ({number} is one of them)"
        return Person(note=f"{self.path}: {why}", contested=True, may_be=may_be)


def people(claims: Iterable[Claim], layout: Layout, roster: Roster | None) -> dict[Account, Person]:
    """Who each account is: by the roster, else by its name and, where that is not enough, its number."""
    accounts = {(claim.name, claim.lms): claim for claim in claims}
    shared = Counter(name for name, _ in accounts)
    found: dict[Account, Person] = {}
    for (name, number), claim in accounts.items():
        person = roster.find(claim) if roster else Person()
        if not person.student:
            numbered = number and layout is not Layout.PATTERN
            numbered = numbered and (layout is Layout.CANVAS or shared[name] > 1 or person.contested)
            note = person.note
            if shared[name] > 1 and len(shared) > 1 and not note:  # of one name only are anonymous ones
                note = f"{shared[name]} are called so: told apart by their numbers"
            person = Person(f"{name}_{number}" if numbered else name, note=note, may_be=person.may_be)
            if roster and person.student in roster.ids:
                person = Person(note=f"{note}; it is not taken, for {person.student} is another's id")
        found[name, number] = person
    return _apart(found, roster)


def _apart(found: dict[Account, Person], roster: Roster | None) -> dict[Account, Person]:
    """The same, where no student is two accounts."""
    numbers: dict[str, dict[str, bool]] = {}
    for (name, number), person in found.items():
        numbers.setdefault(person.student, {})[number or name] = person.sure
    made = dict(found)
    for account, person in found.items():
        others = numbers[person.student]
        if not person.student or len(others) == 1 or (person.sure and sum(others.values()) == 1):
            continue
        place = roster.path if roster else "a roster (--roster)"
        says = f"{len(others)} accounts ({', '.join(sorted(others))}) are {person.student} by their name"
        note = f"{says}: this one is not taken; give their lms ids in {place}"
        made[account] = Person(note=note, may_be=frozenset({person.student} & (roster.ids if roster else set())))
    return made


def _enrolled(cells: dict[str, str]) -> Enrolled:
    last, comma, first = cells.get("name", "").partition(",")
    if not comma:
        first, _, last = cells.get("name", "").strip().rpartition(" ")
    email = cells.get("email", "")
    return Enrolled(
        _plain(cells.get("first name") or first),
        _plain(cells.get("last name") or last),
        email if EMAIL.fullmatch(email) else "",
    )


def _plain(name: str) -> str:
    """A name in which nothing is markup, parts the cells of a table, or begins a formula."""
    words = MEANING.sub(" ", harmless.line(name)).split()
    return " ".join(words).lstrip("".join(harmless.FORMULA) + "' ")[:NAME]


def _squashed(name: str) -> set[str]:
    """A name as systems squash it: letters and digits only, first name first and last name first."""
    words = name.replace(",", " ").split()
    turned = {"".join(words[at:] + words[:at]) for at in range(len(words))}
    return {key for each in turned if (key := "".join(c for c in each.casefold() if c.isalnum()))}
