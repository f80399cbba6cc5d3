"""Why a student has the marks that they have: evidence, whose fault, limits, what to do; for people and for machines."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autograder.gradebook import history, past, roll
from autograder.gradebook.history import Entry
from autograder.gradebook.record import Record, Row, book, number, records, some
from autograder.model import harmless
from autograder.model.course import Chapter, CourseError, near
from autograder.model.verdict import WEAK, Fault, Halt, Outcome, Result
from autograder.report import feedback, rendering
from autograder.report.class_page import SIGNS, STYLES

SHORT = 12  # characters of a digest where it is shown
WHOSE = {
    Fault.NONE: "",
    Fault.STUDENT: "the student's work",
    Fault.LIMIT: "the student's code, stopped at a limit",
    Fault.AUTHOR: "the author's: the check itself broke on this answer",
    Fault.INFRASTRUCTURE: "this machine's: not scored",
}
BY_HAND = "Give the mark in the formgrader, then run `autograder report {chapter} --out {out}`."
RIGHT = "Nothing, if what the checks say is right; else mend {file} and grade, with --dry-run first."
DO = {
    Result.PASSED: "",
    Result.PARTIAL: RIGHT,
    Result.FAILED: RIGHT,
    Result.CRASHED: "Nothing: what was seen is above, and in the executed notebook.",
    Result.TIMEOUT: "See what it is worth with more time: the command below, with --limit {more}.",
    Result.MEMORY: "See what it is worth with more memory: the command below, with --limit {more}.",
    Result.OUTPUT: "See what it is worth with more output: the command below, with --limit {more}.",
    Result.PROCESSES: "See what it is worth with more processes: the command below, with --limit {more}.",
    Result.BLANK: "Nothing: there is no answer.",
    Result.MISSING: "Have it handed in again in the chapter's own notebook, or give a mark by hand in the formgrader.",
    Result.ABSENT: "Nothing: no file came.",
    Result.INVALID: "Have it handed in again as the message says; the same `autograder grade` then takes only what is new.",
    Result.MANUAL: "",
}
FOR_ALL = "To give everyone more: `limits` in the chapter's header; to this one: a mark by hand in the formgrader."
USUAL = {
    Result.TIMEOUT: "cell_seconds",
    Result.MEMORY: "memory_bytes",
    Result.OUTPUT: "output_bytes",
    Result.PROCESSES: "pids",
}
MEND = (
    "Mend {test} in {file}: it must say by an assert what is wrong with such an answer, be it forged. "
    "See what that changes by `autograder grade` with --dry-run, then grade."
)
ENDED = {
    "assert": "says",
    "refused": "the student's code raised, or what it returned could not be read",
    "": "gave no reason",
}


def explain(
    out: Path,
    chapter: Chapter,
    student: str,
    exercise: str = "",
    command: str = "autograder",
    at: datetime | None = None,
) -> tuple[Group, str]:
    """Say it for the terminal, in one exercise or in all; nothing in it is hidden, or markup. `at`: as it stood then.

    Returns it with what grades the same answers again (empty if they were not graded), which must not wrap and begins
    with `command`.

    Raises CourseError naming the nearest there is if there is no such student or exercise.
    """
    if at is None and (why := roll.left(out, chapter).get(student)):
        return Group(*_left(student, chapter, why)), ""
    chapter, record, rows, told = _found(out, chapter, student, exercise, at)
    shown: list[RenderableType] = [
        Text.assemble(
            (f"{harmless.line(student)}: {number(record.points)} of {some(chapter.max_points, 'point')}", "bold"),
            f" in {chapter.name}" + (f", as it stood on {at:%Y-%m-%d %H:%M %Z}" if at else ""),
        )
    ]
    for row in rows:
        style = STYLES.get(row.verdict, "red")
        worth = f", {number(row.points)} of {some(row.max_points, 'point')}"
        head = f"\n{SIGNS[row.verdict]} {row.exercise}: {row.verdict.value}"
        shown.append(Text.assemble((head, style), (", waits for its mark", style) if row.waiting else worth))
        changes = _changes(each for each in told if each.exercise == row.exercise)
        shown.append(_grid([*_of_row(out, chapter, record, row), *changes]))
    penalties = _changes(each for each in told if each.exercise == history.LATE)
    shown += [Text("\nsubmission"), _grid([*_of_submission(out, chapter, record), *penalties])]
    once_more = "grade these answers once more, on the same inputs, and keep nothing of it"
    if at:
        once_more = "have this verdict once more, of what was kept"
    shown.append(Text(f"\nto {once_more}:"))
    return Group(*shown), _once_more(out, chapter, record, command, at)


def as_json(
    out: Path,
    chapter: Chapter,
    student: str,
    exercise: str = "",
    command: str = "autograder",
    at: datetime | None = None,
) -> dict[str, Any]:
    """All of it that is recorded, as plain JSON values. Raises CourseError as `explain` does."""
    if at is None and (why := roll.left(out, chapter).get(student)):
        return {"student": student, "chapter": chapter.name, "fault": Fault.INFRASTRUCTURE.value, "message": why}
    chapter, record, rows, lines = _found(out, chapter, student, exercise, at)
    told = [each for each in lines if each.exercise in (history.LATE, *(row.exercise for row in rows))]
    said = msgspec.to_builtins(replace(record, rows=rows))
    once_more = _once_more(out, chapter, record, command, at)
    return {**said, "history": msgspec.to_builtins(told), "again": once_more}


def _once_more(out: Path, chapter: Chapter, record: Record, command: str, at: datetime | None) -> str:
    """The command that grades the same answers with the very same inputs and keeps nothing; or has the verdict of `at`."""
    if at:
        where = f"{shlex.quote(record.student)} {chapter.name} --out {shlex.quote(str(out))}"
        return f"{command} replay {where} --at {at.isoformat(timespec='seconds')}"
    # OUT/submitted has what was taken of a submission: all of it, unless a part could not be taken
    whole = not any(mark.result in (Result.INVALID, Result.MISSING) for mark in record.verdict.marks)
    submissions = shlex.quote(str(Path(out) / "submitted")) if whole else "SUBMISSIONS"
    where = f"--submissions {submissions} --out {shlex.quote(str(out))}"
    return f"{command} grade {chapter.name} {where} --student {shlex.quote(record.student)} --again --dry-run"


def amount(limit: str, value: float) -> str:
    """A limit as people say it: `60 s`, `4 GiB`, `1 MiB`, `3`."""
    if limit.endswith("_seconds"):
        return f"{value:g} s"
    if limit.endswith("_bytes"):
        for name, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value >= size:
                return f"{value / size:.4g} {name}"
        return f"{value:g} bytes"
    return f"{value:g}"


def _found(
    out: Path, chapter: Chapter, student: str, exercise: str, at: datetime | None = None
) -> tuple[Chapter, Record, tuple[Row, ...], list[Entry]]:
    class_ = {record.student: record for record in records(out, chapter)}
    if student not in class_ and student in roll.absent(out, chapter):
        mend = "`autograder grade` takes what comes later"
        raise CourseError(f"{chapter.name}: {student!r} is absent: nothing was handed in, there is no mark; {mend}")
    if student not in class_:
        raise CourseError(
            f"{chapter.name}: no submission of {student!r} is recorded; {near(student, [*class_, *roll.absent(out, chapter)])}"
        )
    if at:
        chapter, record, told = past.at(out, chapter, student, at)
    else:
        record = class_[student]
        with book(out, chapter) as opened:
            told = history.entries(opened, chapter.name, student)
    rows = tuple(row for row in record.rows if exercise in ("", row.exercise))
    if not rows:
        names = [each.name for each in chapter.exercises]
        raise CourseError(f"{chapter.name}: no exercise {exercise!r}; {near(exercise, names)}")
    return chapter, record, rows, told


def _changes(told: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    for count, each in enumerate(told):
        when = each.moment[:16].replace("T", " ")
        was = "" if each.points_was is None else f"{number(each.points_was)} {each.was}".rstrip() + " → "
        yield "" if count else "history", f"{when} UTC: {was}{each.points}, {each.who}"


def _left(student: str, chapter: Chapter, why: str) -> Iterator[RenderableType]:
    yield Text(f"{harmless.line(student)}: not graded in {chapter.name}", "bold red")
    fault = f"{Fault.INFRASTRUCTURE.value}: {WHOSE[Fault.INFRASTRUCTURE]}"
    todo = "Run the same `autograder grade` again: what was graded is kept."
    yield _grid([("message", why), ("whose fault", fault), ("what to do", todo)])


def _grid(said: Iterable[tuple[str, Any]]) -> Padding:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True, min_width=13)
    grid.add_column(overflow="fold")
    for label, text in said:
        grid.add_row(label, text if isinstance(text, Text) else Text(harmless.visible(text)))
    return Padding(grid, (0, 0, 0, 2))


def _of_row(out: Path, chapter: Chapter, record: Record, row: Row) -> Iterator[tuple[str, str | Text]]:
    tests = _outcomes(record, row)
    if not any(row.message == each.says for each in tests):
        yield "message", row.message
    if WHOSE[row.fault]:
        yield "whose fault", f"{row.fault.value}: {WHOSE[row.fault]}"
    for number_, each in enumerate(tests):
        yield "" if number_ else "checks", _test(each)
    if row.misconception:
        yield "misconception", row.misconception
    for halt in _halts(chapter, record, row):
        yield "limit reached" if halt.limit else "ended", _halt(halt, record.verdict.evidence.most_lives)
    if row.comment:
        yield "comment", row.comment
    for number_, each in enumerate(_to_do(out, chapter, record, row)):
        yield "" if number_ else "what to do", each
    if feedback.TO_DO[row.verdict] and row.fault in (Fault.STUDENT, Fault.LIMIT):
        yield "they read", feedback.TO_DO[row.verdict]


def _outcomes(record: Record, row: Row) -> list[Outcome]:
    return [each for each in record.verdict.evidence.outcomes if each.exercise == row.exercise]


def _halts(chapter: Chapter, record: Record, row: Row) -> list[Halt]:
    answers = next(each.answer_ids for each in chapter.exercises if each.name == row.exercise)
    return [each for each in record.verdict.evidence.halts if each.exercise == row.exercise or each.cell in answers]


def _test(outcome: Outcome) -> Text:
    text = Text("✓ " if outcome.passed else "✗ ", style="green" if outcome.passed else "red")
    text.append(harmless.line(outcome.test), "default")
    if outcome.weak:
        text.append(f" ({WEAK})", "yellow")
    if outcome.weight != 1:
        text.append(f" (weight {number(outcome.weight)})", "dim")
    if outcome.broke:
        text.append(f" broke: {harmless.line(outcome.kind)}", "bold red")
    elif not outcome.passed:
        text.append(f" {ENDED.get(outcome.kind, outcome.kind)}", "dim")
    if outcome.says:
        text.append(f": {harmless.visible(outcome.says)}", "default")
    return text


def _halt(halt: Halt, most: int) -> str:
    where = f"in cell `{halt.cell}`" if halt.cell else f"when asked about `{halt.exercise}`"
    limit = f"{halt.limit} = {amount(halt.limit, halt.value)}, " if halt.limit else f"{halt.stop.value}, "
    return f"{limit}{where}, kernel {halt.life} of {most}" + (f": {halt.note}" if halt.note else "")


def _to_do(out: Path, chapter: Chapter, record: Record, row: Row) -> list[str]:
    """What the instructor may do about a mark: a sentence or a command each."""
    if row.waiting:
        return [BY_HAND.format(chapter=chapter.name, out=shlex.quote(str(out)))]
    broken = [each.test for each in _outcomes(record, row) if each.broke]
    mend = [MEND.format(test=" and ".join(broken), file=chapter.checks)] if broken else []
    if row.fault is Fault.AUTHOR and mend:
        return mend
    if not DO[row.verdict]:
        return mend
    do = DO[row.verdict]
    if row.fault is not Fault.LIMIT:
        return [do.format(file=chapter.checks, more="NAME=VALUE"), *mend]
    limit = next((each for each in reversed(_halts(chapter, record, row)) if each.limit), None)
    # it was stopped before it began, or nothing was kept of it
    name = limit.limit if limit else "notebook_seconds" if record.verdict.evidence.lives else USUAL[row.verdict]
    value = limit.value if limit else getattr(chapter.limits, name)
    return [do.format(file="", more=f"{name}={2 * value:.0f}"), FOR_ALL, *mend]


def _of_submission(out: Path, chapter: Chapter, record: Record) -> Iterator[tuple[str, str]]:
    verdict, evidence = record.verdict, record.verdict.evidence
    yield "seed", str(verdict.seed)
    yield "digest", f"{verdict.digest[:SHORT]}, of the parts below; whole with --json"
    hashed = [
        f"{name} {value[:SHORT]}" for name, value in evidence.parts.items() if name not in ("environment", "time")
    ]
    yield "parts", ", ".join(hashed)
    if environment := evidence.parts.get("environment"):
        yield "environment", environment
    steps = ", ".join(f"{step} {seconds:.2f}" for step, seconds in evidence.seconds.items())
    yield "graded in", f"{verdict.seconds:.2f} s" + (f" ({steps})" if steps else "")
    if evidence.lives:
        yield "kernels", f"{evidence.lives} of at most {evidence.most_lives}"
    if evidence.kept_by:
        yield "memory and processes", f"kept within their limits by {evidence.kept_by}"
    yield "handed in", record.timestamp or "no timestamp"
    if record.due:
        more = f", {rendering.duration(record.extension)} of it an extension" if record.extension else ""
        yield "due", f"{rendering.moment(record.due, record.zone)}{more}"
    if record.time:
        yield "limits of time", record.time
    if record.seconds_late:
        yield "late", f"{record.seconds_late:.0f} s, {some(record.penalty, 'point')} off"
    yield from (("note", note) for note in verdict.notes)
    yield "feedback", str(feedback.path(out, chapter.name, record.student))
