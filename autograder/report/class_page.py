"""What the instructor reads: one self-contained page of a class, and a table for the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from autograder.gradebook import roll
from autograder.gradebook.record import Record, Row, number, records
from autograder.model import harmless
from autograder.model.course import Chapter
from autograder.model.verdict import Outcome, Result
from autograder.report import charts, rendering
from autograder.report.charts import ENDED_BADLY
from autograder.store import files

# Good to bad. Marks: a shape for each, so that a colour is never the only sign.
SIGNS = {
    Result.PASSED: "●",
    Result.MANUAL: "✎",
    Result.PARTIAL: "◐",
    Result.FAILED: "○",
    Result.CRASHED: "✕",
    Result.TIMEOUT: "◷",
    Result.MEMORY: "▤",
    Result.OUTPUT: "≡",
    Result.PROCESSES: "⑂",
    Result.BLANK: "·",
    Result.INVALID: "?",
    Result.ABSENT: "–",
}
STYLES = {
    Result.PASSED: "green",
    Result.PARTIAL: "yellow",
    Result.BLANK: "dim",
    Result.ABSENT: "dim",
    Result.MANUAL: "cyan",
}


@dataclass(frozen=True)
class Mistake:
    """A misconception, or a message, that several students share."""

    exercise: str
    name: str  # of the listed wrong answer; empty if it is none of those
    message: str
    students: tuple[str, ...]


def page_name(chapter: Chapter) -> str:
    """What a chapter's page is called in OUT."""
    return f"report_{chapter.name}.html"


def write(
    out: Path,
    chapter: Chapter,
    faults: Mapping[str, str] | None = None,
    db_url: str | None = None,
    unmade: Mapping[str, str] | None = None,
    absent: Sequence[str] = (),
) -> Path:
    """Write OUT/report_<chapter>.html. `faults`: the students whom this machine could not grade, and why.

    `unmade`: those whose page could not be made whole, and why; `absent`: who handed in nothing. Raises CourseError if OUT
    has no gradebook.
    """
    page = render(chapter, records(out, chapter, db_url), faults or {}, unmade or {}, absent)
    return files.replace(Path(out) / page_name(chapter), page.encode("utf-8"))


def render(
    chapter: Chapter,
    class_: Sequence[Record],
    faults: Mapping[str, str],
    unmade: Mapping[str, str] | None = None,
    absent: Sequence[str] = (),
) -> str:
    """Return the page as HTML, without scripts and without anything to load."""
    return rendering.render(
        "class_page.html",
        chapter=chapter,
        class_=class_,
        facts=_facts(chapter, class_),
        faults=faults,
        unmade=unmade or {},
        absent=absent,
        broken=broken(class_),
        check_file=chapter.checks,
        distribution=charts.distribution(chapter, class_),
        exercises=charts.exercises(chapter, class_),
        mistakes=mistakes(class_),
        slowest=charts.slowest(class_),
        ended=_ended(class_),
        signs=" ".join(f"{sign} {result.value}" for result, sign in SIGNS.items()),
        cell=_cell,
        page=lambda record: feedback_link(record.student, chapter),
    )


def _facts(chapter: Chapter, class_: Sequence[Record]) -> list[str]:
    facts = [f"{len(class_)} submissions"]
    if class_:
        points = sorted(record.points for record in class_)
        middle = (points[(len(points) - 1) // 2] + points[len(points) // 2]) / 2
        facts += [f"median {number(middle)} of {number(chapter.max_points)} points"]
        facts += [f"{sum(record.verdict.seconds for record in class_):.0f} s of grading"]
    if waiting := sum(row.waiting for record in class_ for row in record.rows):
        facts.append(f"{waiting} answers wait for a mark by hand")
    return facts


def mistakes(class_: Sequence[Record]) -> list[Mistake]:
    """What several students got wrong in the same way, commonest first: by misconception, else by message."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for record in class_:
        for row in record.rows:
            if row.verdict in (Result.FAILED, Result.PARTIAL):
                found[row.exercise, row.misconception or row.message].append(row)
    made = [
        Mistake(exercise, same[0].misconception, same[0].message, tuple(row.student for row in same))
        for (exercise, _), same in found.items()
    ]
    return sorted(made, key=lambda mistake: (-len(mistake.students), mistake.exercise, mistake.message))


def broken(class_: Sequence[Record]) -> dict[tuple[str, str], list[tuple[str, Outcome]]]:
    """The checks that raised an exception of their own, and on whose answers: (exercise, test) -> (student, outcome)."""
    found: dict[tuple[str, str], list[tuple[str, Outcome]]] = defaultdict(list)
    for record in class_:
        for outcome in record.verdict.evidence.outcomes:
            if outcome.broke:
                found[outcome.exercise, outcome.test].append((record.student, outcome))
    return dict(found)


def _ended(class_: Sequence[Record]) -> list[tuple[Record, str, list[str]]]:
    """Who crashed, was stopped or could not be read: how, and what was seen."""
    ended = []
    for record in class_:
        bad = [row for row in record.rows if row.verdict in (*ENDED_BADLY, Result.INVALID)]
        if bad:
            how = ", ".join(dict.fromkeys(row.verdict.value for row in bad))
            ended.append((record, how, [bad[0].message, *record.verdict.notes]))
    return ended


def class_table(out: Path, chapter: Chapter, db_url: str | None = None) -> Table:
    """The class for the terminal: a row a student, a column an exercise. Raises CourseError if OUT has no gradebook."""
    table = Table(title=harmless.line(chapter.title), title_justify="left", caption_justify="left")
    table.caption = "  ".join(f"{sign} {result.value}" for result, sign in SIGNS.items())
    table.add_column("student", no_wrap=True)
    for exercise in chapter.exercises:
        table.add_column(f"{harmless.line(exercise.name)} /{number(exercise.max_points)}", justify="right")
    table.add_column(f"points /{number(chapter.max_points)}", justify="right")
    table.add_column("")
    for record in records(out, chapter, db_url):
        cells = [Text(_cell(row), style=STYLES.get(row.verdict, "red")) for row in record.rows]
        student, total = Text(harmless.line(record.student)), Text(number(record.points), style="bold")
        table.add_row(student, *cells, total, "late" if record.seconds_late else "")
    for student in roll.absent(out, chapter):
        table.add_row(Text(harmless.line(student)), *["–"] * len(chapter.exercises), "", "absent", style="dim")
    return table


def _cell(row: Row) -> str:
    return f"{SIGNS[row.verdict]} {'' if row.waiting else number(row.points)}".strip()


def feedback_link(student: str, chapter: Chapter) -> str:
    """The address of a student's page, from OUT."""
    return harmless.link("feedback", student, chapter.name, f"{chapter.name}.html")
