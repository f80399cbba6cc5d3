"""What everyone has of a term: a term's rules applied to what stands of its chapters. Nothing is read or written here.

A day of the bank moves a student's due date by 24 hours. Days go, by themselves, to what was due first, and only where they
keep points; what is late after that costs what the late policy of OUT says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from autograder.model.course import Chapter, CourseError
from autograder.term.attempts import Attempt, ChapterClass, Theirs
from autograder.term.rules import Rules

DAY = 86400.0
Policy = Callable[[str, float, float], float]  # student, points, seconds late -> points that are taken off


@dataclass(frozen=True)
class Worth:
    """An attempt, and what it is worth to its student."""

    attempt: Attempt
    seconds_late: float = 0.0
    days: int = 0  # of the bank
    penalty: float = 0.0

    @property
    def points(self) -> float:
        """What counts."""
        return max(0.0, self.attempt.points - self.penalty)


@dataclass(frozen=True)
class Counted:
    """A chapter, as it counts for a student."""

    chapter: Chapter
    weight: float
    worth: Worth | None = None  # None: nothing was handed in, or it is not graded
    others: tuple[Worth, ...] = ()  # attempts that do not count, each as if it did
    fault: str = ""  # why it is not graded
    due: datetime | None = None  # for this student: in UTC, naive
    why_due: tuple[str, ...] = ()  # whose date that is, if not the class's
    left: int = 0  # days of the bank, after it

    @property
    def waiting(self) -> int:
        """Exercises that wait for a mark by hand, in the attempt that counts or in the newest, which may count then."""
        tries = self._tries
        return max((each.attempt.waiting for each in tries if each is self.worth or each is tries[-1]), default=0)

    @property
    def above(self) -> str:
        """The marks by hand that are too high, in any attempt: they are 0, and may count when they are mended."""
        tries = self._tries
        where = ["" if each is tries[-1] else f" in attempt {each.attempt.number}" for each in tries]
        return ", ".join(
            f"{each.attempt.above}{said}" for each, said in zip(tries, where, strict=True) if each.attempt.above
        )

    @property
    def _tries(self) -> list[Worth]:
        return sorted((self.worth, *self.others) if self.worth else (), key=lambda each: each.attempt.number)

    @property
    def open(self) -> bool:
        """Whether a part of it is left ungraded, or waits for a person."""
        return bool(self.fault or self.waiting or self.above)

    @property
    def share(self) -> float:
        """What it adds to the total."""
        most = self.chapter.max_points
        return self.weight * self.worth.points / most if self.worth and most > 0 else 0.0


@dataclass(frozen=True)
class Line:
    """A student: the chapters in order, and what they add up to."""

    student: str
    section: str
    chapters: tuple[Counted, ...]
    left: int  # days of the bank

    @property
    def total(self) -> float:
        """The sum of what the chapters add."""
        return sum(each.share for each in self.chapters)

    @property
    def of(self) -> float:
        """What all of the chapters could add that were graded into OUT."""
        return sum(each.weight for each in self.chapters)

    @property
    def spent(self) -> int:
        """Days of the bank."""
        return sum(each.worth.days for each in self.chapters if each.worth)

    @property
    def whole(self) -> bool:
        """Whether nothing of it is left ungraded, or waits for a person."""
        return not any(each.open for each in self.chapters)


def count(rules: Rules, classes: Sequence[ChapterClass], policy: Policy) -> list[Line]:
    """Everyone of any chapter's class, by name.

    Raises CourseError where chapters have weights and one that was graded has none.
    """
    named = [each.chapter.name for each in classes]
    if rules.weights and (without := [name for name in named if name not in rules.weights]):
        mend = f'write "{without[0]}" = 0 if it does not count'
        raise CourseError(f"{rules.path}: weights: {', '.join(without)}: was graded, and has no weight; {mend}")
    counting = [each for each in classes if rules.weights.get(each.chapter.name, 1) > 0]
    students = sorted(
        {student for each in classes for student in each.theirs}, key=lambda each: (each.casefold(), each)
    )
    return [_line(student, rules, counting, policy) for student in students]


def strangers(rules: Rules, lines: Sequence[Line]) -> list[tuple[str, str]]:
    """Who is in a section and in no class: section, student."""
    known = {line.student for line in lines}
    return [(name, who) for name, each in rules.sections.items() for who in each.students if who not in known]


def _line(student: str, rules: Rules, classes: Sequence[ChapterClass], policy: Policy) -> Line:
    section, left = rules.section(student), rules.days
    dates = [_due(each, each.theirs.get(student, Theirs()), section, rules) for each in classes]
    made: dict[int, Counted] = {}
    for at in sorted(range(len(classes)), key=lambda at: (dates[at][0] or datetime.max, at)):
        chapter, (due, why) = classes[at].chapter, dates[at]
        theirs = classes[at].theirs.get(student, Theirs())
        weight = rules.weights.get(chapter.name, chapter.max_points)
        worths = [
            _worth(student, each, due, min(left, rules.per_chapter), policy)
            for each in (theirs.attempts if rules.best else theirs.attempts[-1:])
        ]
        best = max(worths, key=lambda each: (each.points, -each.days, each.attempt.number), default=None)
        left -= best.days if best else 0
        others = tuple(each for each in worths if each is not best)
        made[at] = Counted(chapter, weight, best, others, theirs.fault, due, why, left)
    return Line(student, section, tuple(made[at] for at in sorted(made)), left)


def _due(class_: ChapterClass, theirs: Theirs, section: str, rules: Rules) -> tuple[datetime | None, tuple[str, ...]]:
    """When a chapter is due for a student, and whose date that is."""
    due, why = class_.due, []
    if section and (own := rules.sections[section].due.get(class_.chapter.name)):
        due, why = own, [f"section {section}"]
    if due is None or not theirs.extension:
        return due, tuple(why)
    if theirs.until:
        return max(due, theirs.until), (*why, "extension")
    return due + theirs.extension, (*why, "extension")


def _worth(student: str, attempt: Attempt, due: datetime | None, most: int, policy: Policy) -> Worth:
    """What an attempt is worth with at most `most` days of the bank: the fewest that keep as many points as can be kept."""
    if due is None or attempt.handed_in is None or attempt.handed_in <= due:
        return Worth(attempt)
    late = (attempt.handed_in - due) / timedelta(seconds=1)
    days = range(min(most, math.ceil(late / DAY)) + 1)
    costs = [(policy(student, attempt.points, late - day * DAY), day) for day in days]
    penalty, spent = min(costs)
    return Worth(attempt, late, spent, penalty)
