"""What a grading changed: two readings of a class's gradebook, compared mark by mark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from autograder.gradebook.record import Record, Row, number, some
from autograder.model import harmless
from autograder.model.amounts import are
from autograder.model.verdict import Result

SHOWN = 5  # changes in the one line
LATE = "late policy"
WAITS = "waits for a mark by hand"


@dataclass(frozen=True)
class Change:
    """One mark that was one thing and is another."""

    student: str
    exercise: str  # LATE for the points that nbgrader's late policy takes off
    before: float
    after: float
    verdict_before: str
    verdict_after: str
    message: str  # what the student reads now
    because: str  # what decides a verdict and is another by now: "checks, limits"
    waits: bool = False  # for a mark by hand, which is no 0


@dataclass(frozen=True)
class Changes:
    """All of it. `kept` are marks given by hand that stand though the checks now say something else."""

    changed: tuple[Change, ...] = ()
    kept: tuple[Change, ...] = ()
    new: tuple[str, ...] = ()  # students who had no marks before
    same: int = 0  # marks
    by_hand: int = 0  # marks given by hand, all of them kept

    @property
    def up(self) -> int:
        """How many marks got better."""
        return sum(each.after > each.before for each in self.changed)

    @property
    def down(self) -> int:
        """How many marks got worse."""
        return sum(each.after < each.before and not each.waits for each in self.changed)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "up": self.up, "down": self.down}


def compare(before: Iterable[Record], after: Iterable[Record]) -> Changes:
    """Compare two readings of one chapter's records. A message alone is no change: it may name other fresh inputs."""
    old = {record.student: record for record in before}
    changed: list[Change] = []
    kept: list[Change] = []
    new: list[str] = []
    same = by_hand = 0
    for record in after:
        was = old.get(record.student)
        if was is None:
            new.append(record.student)
            continue
        rows = {row.exercise: row for row in was.rows}
        because = _because(was, record)
        for row in record.rows:
            first = rows.get(row.exercise)
            hand = row.verdict is Result.MANUAL and not row.waiting
            by_hand += hand
            if first is None or _mark(first) != _mark(row):
                changed.append(_change(first, row, because))
                continue
            same += 1
            if hand and (beneath := _beneath(was, record, row, because)):
                kept.append(beneath)
        if was.penalty != record.penalty:
            changed.append(
                Change(record.student, LATE, -was.penalty, -record.penalty, "", "", "handed in, or due, anew", "time")
            )
    return Changes(tuple(changed), tuple(kept), tuple(new), same, by_hand)


def _mark(row: Row) -> tuple[Any, ...]:
    return (round(row.points, 6), row.verdict, row.fault)


def _change(first: Row | None, row: Row, because: str) -> Change:
    points, verdict = (first.points, first.verdict.value) if first else (0.0, "")
    results = verdict, row.verdict.value
    return Change(row.student, row.exercise, points, row.points, *results, row.message, because, row.waiting)


def _beneath(was: Record, now: Record, row: Row, because: str) -> Change | None:
    """What the checks gave and give where a person's mark stands; None if they give the same."""
    first, second = (
        next((mark for mark in record.verdict.marks if mark.exercise == row.exercise), None) for record in (was, now)
    )
    if first is None or second is None or (first.points, first.result) == (second.points, second.result):
        return None
    results = first.result.value, second.result.value
    return Change(row.student, row.exercise, first.points, second.points, *results, second.message, because)


def _because(was: Record, now: Record) -> str:
    old, new = was.verdict.evidence.parts, now.verdict.evidence.parts
    if was.verdict.digest == now.verdict.digest:
        return "graded again"
    return ", ".join(name for name in new if old.get(name) != new[name])


def summary(changes: Changes) -> str:
    """One line: how many marks changed against before, and the first of them; empty if there was no before."""
    if not changes.changed:
        return f"no mark changed, {changes.same} {are(changes.same)} as before" if changes.same else ""
    first = "; ".join(
        f"{harmless.line(each.student)} {harmless.line(each.exercise)} {_short(each)}"
        for each in changes.changed[:SHOWN]
    )
    more = f"; and {len(changes.changed) - SHOWN} more" if len(changes.changed) > SHOWN else ""
    return f"{some(len(changes.changed), 'mark')} changed, {changes.up} up, {changes.down} down: {first}{more}"


def _short(change: Change) -> str:
    if change.waits:
        return f"{number(change.before)} → {WAITS}"
    if change.before != change.after:
        return f"{number(change.before)} → {number(change.after)}"
    if change.verdict_before != change.verdict_after:
        return f"{change.verdict_before} → {change.verdict_after}"
    return f"{change.verdict_after}, by another's fault"


def totals(changes: Changes) -> str:
    """What a rehearsal ends with."""
    waits = sum(each.waits for each in changes.changed)
    others = len(changes.changed) - changes.up - changes.down - waits
    said = [f"{changes.up} up", f"{changes.down} down", f"{changes.same} same"]
    if others:
        said.append(f"{others} with other verdicts for the same points")
    if waits:
        said.append(f"{waits} waiting for a mark by hand")
    if changes.new:
        said.append(f"{some(len(changes.new), 'submission')} new")
    if changes.by_hand:
        said.append(f"{changes.by_hand} given by hand, kept")
    return ", ".join(said)


def table(changes: Changes) -> Table:
    """A row a change; marks by hand that stand over a change come last."""
    made = Table(title="What would change", title_justify="left")
    made.add_column("student")
    made.add_column("exercise")
    made.add_column("now", justify="right")
    made.add_column("then", justify="right")
    made.add_column("why", overflow="fold")
    for each in changes.changed:
        lost = each.after < each.before and not each.waits
        style = "green" if each.after > each.before else "red" if lost else "yellow"
        made.add_row(*_cells(each), _why(each), style=style)
    for each in changes.kept:
        made.add_row(
            *_cells(each), Text(f"a mark by hand is kept; the checks alone: {harmless.line(each.message)}"), style="dim"
        )
    return made


def _cells(change: Change) -> list[Text]:
    return [
        Text(harmless.line(change.student)),
        Text(harmless.line(change.exercise)),
        Text(f"{number(change.before)} {change.verdict_before}".strip()),
        Text(WAITS if change.waits else f"{number(change.after)} {change.verdict_after}".strip()),
    ]


def _why(change: Change) -> Text:
    says = harmless.line(change.message, 200 if change.because else 0)
    return Text(f"{says} [{change.because}]" if change.because else says)
