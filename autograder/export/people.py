"""Whose a row of a downloaded gradebook is: by the system's number before all else.

Numbers come from the roster and from the names of the files that were handed in, which OUT lists in
handed_in_CHAPTER.csv: Canvas's number of the user, Moodle's of the participant ("Participant 5101", another one for
each assignment). Who has such a number is known by nothing else, for a display name is the student's own choice. Who
has none (nbgrader's folders, an exchange) is known by an id that the system has, too: SIS ids, a login, an ID number,
an e-mail address.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from autograder.export import handed
from autograder.model import harmless
from autograder.submissions.roster import Roster, _squashed


class People:
    """Who is who in the class of OUT. Raises CourseError for a roster that cannot be right, OSError."""

    def __init__(self, out: Path, students: Iterable[str], roster: Path | None) -> None:
        self.students = set(students)
        self._numbers: dict[str, set[str]] = defaultdict(set)
        self._keys: dict[str, set[str]] = defaultdict(set)
        shown = {harmless.field(student): student for student in self.students}
        for path in sorted([*out.glob("handed_in*.csv"), *out.glob("*/handed_in*.csv")]):
            for one in handed.files(path)[1]:
                if one.student in shown:
                    self._numbers[one.claim.lms].add(shown[one.student])
        numbered = {student for found in self._numbers.values() for student in found}
        listed: set[str] = set()
        if roster:
            told = Roster(roster)  # whatever is wrong in it is said there
            listed = told.ids
            for student in listed & self.students:
                if student in told.numbers:
                    self._numbers[told.numbers[student]].add(student)
                if email := told.enrolled[student].email:
                    self._keys[email.casefold()].add(student)
        for student in self.students:
            if student in listed or student not in numbered:
                self._keys[student.casefold()].add(student)

    def find(self, number: str, keys: Iterable[str], name: str) -> set[str]:
        """Who a row may be: nobody, one, or several who contradict each other."""
        found = set(self._numbers.get(number, ())) if number else set()
        found |= {student for key in keys if key for student in self._keys.get(key.casefold(), ())}
        if not found and number:  # `lovelaceada_101`, as Canvas's students are called without a roster
            called = {f"{key}_{number}" for key in _squashed(name)}
            found = {student for student in self.students if student.casefold() in called}
        return found
