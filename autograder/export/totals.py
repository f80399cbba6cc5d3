"""What a student has for a chapter, as gradebook and feedback say or as a term's rules count it, or for the term; and whether
it may leave the house yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from autograder.gradebook import record, roll
from autograder.gradebook.record import TOO_HIGH, some
from autograder.model import harmless
from autograder.model.amounts import are
from autograder.model.course import Chapter, CourseError, Limits
from autograder.model.verdict import UNREAD
from autograder.term import kept
from autograder.term.counting import Counted

TERM = Chapter("term", "Term total", {}, (), Limits())  # as a column of a gradebook


@dataclass(frozen=True)
class Total:
    """One student's mark of one chapter."""

    student: str
    chapter: str
    points: float  # what counts: less what the late policy takes off
    max_points: float
    stands: float | None = None  # the points that gradebook and feedback have, where rules of a term were asked
    counted: Counted | None = None  # by these rules
    waiting: int = 0  # exercises that wait for a mark by hand
    unread: int = 0  # exercises whose cell is not in the notebook or cannot be read: no mark of 0 by itself
    fault: str = ""  # why this machine could not grade what was handed in last
    above: str = ""  # marks by hand that are more than there is to have: see `record.above`

    def not_yet(self, waiting: bool, unread: bool = True) -> str:
        """Why it does not leave the house, and the mend; empty where it does. `waiting`: as it stands now.

        Without `unread`, cells that are not in the notebook, or cannot be read, keep nothing back.
        """
        mend = "give them in the formgrader, or add --waiting"
        if self.fault:
            return f"not graded: {harmless.line(self.fault)}; grade again"
        if self.above:
            return f"{self.above} {TOO_HIGH}"
        if self.unread and unread and not waiting:
            return f"{self.nobody_read}; have it handed in again, or {mend}"
        return f"{self.waits}; {mend}" if self.waiting and not waiting else ""

    @property
    def nobody_read(self) -> str:
        """How many of its answer cells nobody could read."""
        return f"{some(self.unread, 'answer cell')} {are(self.unread)} not in the notebook, or cannot be read"

    @property
    def waits(self) -> str:
        """How many of its exercises wait."""
        return f"{some(self.waiting, 'exercise')} wait{'s' * (self.waiting == 1)} for a mark by hand"


def totals(out: Path, chapter: Chapter) -> list[Total]:
    """The totals of a chapter, by student, as the gradebook has them; who was never graded has none, but for a fault.

    Raises CourseError if OUT has no gradebook.
    """
    faults = roll.left(out, chapter)
    made = {who: Total(who, chapter.name, 0.0, chapter.max_points, fault=why) for who, why in faults.items()}
    for each in record.records(out, chapter):
        made[each.student] = Total(
            each.student,
            chapter.name,
            each.points,
            chapter.max_points,
            waiting=sum(row.waiting for row in each.rows),
            unread=sum(row.verdict in UNREAD for row in each.rows),
            fault=faults.get(each.student, ""),
            above=record.above(each.rows),
        )
    return [made[student] for student in sorted(made)]


def counted(out: Path, chapter: Chapter) -> list[Total]:
    """The same as they count by the rules that OUT keeps of a term, if there are any and the chapter counts by them.

    Raises CourseError for rules that cannot be read, too.
    """
    counts, found = kept.counts(out, chapter), totals(out, chapter)
    return found if counts is None else [_by_the_rules(each, counts.get(each.student)) for each in found]


def _by_the_rules(total: Total, counted: Counted | None) -> Total:
    total = replace(total, stands=total.points, counted=counted)
    if counted is None or counted.worth is None:  # nothing was handed in
        return total
    worth, waiting, above = counted.worth, counted.waiting, counted.above
    return replace(total, points=worth.points, waiting=waiting, unread=worth.attempt.unread, above=above)


def of_term(out: Path, course_id: str) -> list[Total]:
    """The totals of the term, as term.csv has them; who handed in nothing at all has none.

    Raises CourseError where OUT keeps no rules, nothing was graded there, or a chapter has no weight.
    """
    rules = kept.read(out, course_id)
    if rules is None:
        raise CourseError(f"{out / kept.FILE}: is not there; run `autograder term TERM.TOML --out {out}` first")
    made = []
    for line in kept.lines(out, course_id, rules):
        tries = [each.worth.attempt for each in line.chapters if each.worth]
        fault = next((f"{each.chapter.name}: {each.fault}" for each in line.chapters if each.fault), "")
        if tries or fault:
            waiting, unread = sum(each.waiting for each in line.chapters), sum(each.unread for each in tries)
            above = ", ".join(f"{each.chapter.name}: {each.above}" for each in line.chapters if each.above)
            points = round(line.total, 2)
            made.append(Total(line.student, TERM.name, points, line.of, None, None, waiting, unread, fault, above))
    return made
