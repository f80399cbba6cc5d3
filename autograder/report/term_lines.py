"""A student's total of a term, line by line: which attempt counts, what was late, where the days of the bank went, the sum;
and, for the page of a chapter, in a line of its own what it counts."""

from __future__ import annotations

from collections.abc import Sequence

from autograder.gradebook.record import TOO_HIGH, number, some
from autograder.model.amounts import are
from autograder.report.rendering import duration, moment
from autograder.report.words import ENGLISH, Words
from autograder.term.counting import Counted, Line, Worth
from autograder.term.rules import Rules

COUNTS = {  # on the page of a chapter: that its points are others in the term, and by which rule
    "points": "In the term {0} of {1} points count for this chapter.",
    "point": "In the term {0} of {1} point counts for this chapter.",
    "above": "A mark that was given by hand waits for an instructor: it is more than there is to have.",
    "attempt": "Attempt {0} of {1} is worth the most.",
    "days": "Late days of the bank: {0}.",
    "due": "By the rules of the term it was due on {0}.",
}


Part = tuple[str, Sequence[str]]  # a heading, and what is said below it


def parts(line: Line, rules: Rules, zone: str = "") -> list[Part]:
    """The whole, then chapter by chapter, then the sum. Times are shown in `zone`."""
    return [_whole(line, rules), *(_chapter(each, rules, zone) for each in line.chapters), _sum(line, rules)]


def rules_said(rules: Rules) -> list[str]:
    """The rules themselves, a sentence each."""
    said = ["Of several attempts the one that is worth most counts." if rules.best else "The last attempt counts."]
    if rules.days:
        most = f", at most {rules.per_chapter} of one chapter" if rules.per_chapter < rules.days else ""
        said.append(
            f"A bank of {_days(rules.days)}{most}: each moves a due date by 24 hours; they go to what was due first, and only "
            "where they keep points."
        )
    for name, section in rules.sections.items():
        own = ", ".join(section.due) or "no chapter"
        said.append(f"Section {name} has due dates of its own in {own}.")
    return [*said, "Chapters have weights." if rules.weights else "The points of the chapters are added up."]


def _whole(line: Line, rules: Rules) -> Part:
    said = [f"Section {line.section}."] if line.section else []
    if rules.days:
        said.append(f"Bank of {_days(rules.days)}: {line.spent} spent, {line.left} left.")
    if not line.whole:
        said.append("This is not the end: something is not graded yet, see below.")
    return f"{points(line.total)} of {points(line.of)}", said


def _chapter(each: Counted, rules: Rules, zone: str) -> Part:
    head = f"{each.chapter.name}: {points(each.share)} of {points(each.weight)}"
    if each.fault:
        return head, [f"Not graded yet: the grading machine failed ({each.fault})."]
    if each.worth is None:
        return head, ["Nothing was handed in."]
    attempt, said = each.worth.attempt, []
    if each.others:
        others = [f"attempt {one.attempt.number} is worth {points(one.points)}" for one in each.others]
        said.append(
            f"Attempt {attempt.number} counts, which is worth {points(each.worth.points)}: {', '.join(others)}."
        )
    if attempt.other_checks:
        said.append("It was graded by other checks than the last attempt.")
    said += _when(each, each.worth, rules, zone)
    if attempt.waiting:
        one = attempt.waiting == 1
        said.append(
            f"{attempt.waiting} of its answers wait{'s' * one} for a mark by hand, and count{'s' * one} 0 until then."
        )
    elif each.waiting:
        wait = f"{some(each.waiting, 'answer')} of the newest attempt wait{'s' * (each.waiting == 1)}"
        said.append(f"{wait} for a mark by hand; it may count then.")
    if each.above:
        said.append(f"It waits for an instructor: {each.above} by hand; what is too high counts 0 until it is mended.")
    if attempt.unread:
        one = attempt.unread == 1
        unread = f"{some(attempt.unread, 'answer')} {are(attempt.unread)} not in the notebook, or cannot be read"
        said.append(f"{unread}, and count{'s' * one} 0.")
    off = f" less {points(each.worth.penalty)}" if each.worth.penalty else ""
    most = each.chapter.max_points
    got = f"{points(attempt.points)}{off} of {some(most, 'point')}"
    if rules.weights:
        got += f", weight {points(each.weight)}: {points(each.weight)} × {points(each.worth.points)} / {points(most)}"
        got += f" = {points(each.share)}"
    return head, [*said, f"{got}."]


def _when(each: Counted, worth: Worth, rules: Rules, zone: str) -> list[str]:
    if each.due is None:
        return []
    whose = f" ({', '.join(each.why_due)})" if each.why_due else ""
    said = f"Due {moment(each.due, zone)}{whose}"
    if worth.attempt.handed_in is None:
        return [f"{said}; no time says that it was late: nothing is taken off."]
    said += f", handed in {moment(worth.attempt.handed_in, zone)}"
    if not worth.seconds_late:
        return [f"{said}: on time."]
    said += f": {duration(worth.seconds_late)} late."
    if worth.days:
        said += f" {_days(worth.days)} of the bank, {each.left} left."
    elif worth.penalty and rules.days:
        said += " No day of the bank was left for it."
    return [f"{said} {points(worth.penalty) if worth.penalty else 'Nothing'} is taken off."]


def _sum(line: Line, rules: Rules) -> Part:
    added = " + ".join(points(each.share) for each in line.chapters) or "0"
    said = [f"{added} = {points(line.total)} of {points(line.of)}."]
    counted = {each.chapter.name for each in line.chapters}
    if later := [name for name, weight in rules.weights.items() if weight and name not in counted]:
        rest = sum(rules.weights[name] for name in later)
        said.append(f"Not graded yet, for anybody: {', '.join(later)}, {points(rest)} more.")
    return "Together", said


def too_high(each: Counted) -> str:
    """For the instructor: which marks by hand of a chapter are too high to count, and the mend; empty where none is."""
    return f"{each.chapter.name} waits for an instructor: {each.above} {TOO_HIGH}" if each.above else ""


def points(value: float) -> str:
    """Points of a term, which parts of weights are: to the hundredth."""
    return number(round(value, 2))


def counts(each: Counted | None, stands: float, zone: str, words: Words = ENGLISH) -> str:
    """What a chapter counts in the term, and why, where that is not what `stands` for it; else nothing."""
    if each is None or each.worth is None or abs(each.worth.points - stands) < 0.005:
        return ""
    worth, said = each.worth, dict[str, tuple[str, ...]]()
    most = each.chapter.max_points
    said["point" if most == 1 else "points"] = (points(worth.points), points(most))
    if each.above:
        said["above"] = ()
    if each.others:
        said["attempt"] = (str(worth.attempt.number), str(len(each.others) + 1))
    if worth.days:
        said["days"] = (str(worth.days),)
    if each.due and any(why.startswith("section") for why in each.why_due):
        said["due"] = (moment(each.due, zone),)
    return " ".join(words.filled(COUNTS[name], *values) for name, values in said.items())


def _days(count: int) -> str:
    return some(count, "late day")
