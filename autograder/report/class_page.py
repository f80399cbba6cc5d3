"""What the instructor reads: one self-contained page of a class, and a table for the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from autograder.gradebook import history, roll
from autograder.gradebook.record import Record, Row, book, number, records, some
from autograder.model import harmless
from autograder.model.course import Chapter
from autograder.model.verdict import Result
from autograder.report import attention, charts, rendering, similar
from autograder.report.attention import Need, mistakes
from autograder.report.standing import Marked, marked, nothing_read
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
    Result.MISSING: "∅",
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


ROWS = 40  # of the table in the terminal


@dataclass(frozen=True)
class Line:
    """A line of the class: a student with what is recorded, or why nothing is."""

    student: str
    record: Record | None
    note: str
    flags: tuple[str, ...]  # which of FILTERS it is in
    why: str  # the command that explains it; empty where there is nothing to explain

    @property
    def page(self) -> str:
        """Where the student's page lies, from OUT."""
        return feedback_link(self.student, self.record.verdict.chapter) if self.record else ""


FILTERS = {
    "": "everyone",
    "needs": "needs a person",
    "waiting": "waiting for a mark",
    "lost": "lost points",
    "late": "late",
    "none": "absent or not graded",
}


def page_name(chapter: Chapter) -> str:
    """What a chapter's page is called in OUT."""
    return f"report_{chapter.name}.html"


def write(
    out: Path,
    chapter: Chapter,
    faults: Mapping[str, str] | None = None,
    unmade: Mapping[str, str] | None = None,
    absent: Sequence[str] = (),
    command: str = "autograder",
) -> Path:
    """Write OUT/report_<chapter>.html, with nothing to load; the one script on it is ours, and the only one that may run.

    `faults`: the students whom this machine could not grade, and why; `unmade`: those whose page could not be made whole, and
    why; `absent`: who handed in nothing; `command`: how the lines to copy begin. Raises CourseError if OUT has no gradebook.
    """
    class_ = records(out, chapter)
    with book(out, chapter) as opened:
        told = history.entries(opened, chapter.name)
        alike = similar.of_class(opened, out, chapter)
    needs = attention.needs(chapter, class_, faults or {}, unmade or {})
    explain = f"{command} explain --out {shlex.quote(str(out))}"
    lines = _lines(chapter, class_, faults or {}, absent, needs, explain)
    counted = marked(chapter, class_)
    page = rendering.render(
        "class_page.html",
        script="table.js",
        chapter=chapter,
        lines=lines,
        called=roll.names(out, chapter),
        filters=[
            (flag, says, count)
            for flag, says in FILTERS.items()
            if (count := sum(not flag or flag in line.flags for line in lines)) or not flag
        ],
        facts=_facts(class_, counted),
        needs=needs,
        absent=absent,
        counted=counted,
        distribution=charts.distribution(counted),
        weak=weak(class_),
        exercises=charts.exercises(chapter, class_),
        groups=list(charts.GROUPS),
        mistakes=mistakes(class_),
        alike=alike,
        page_of=lambda student: feedback_link(student, chapter.name),
        changed=[each for each in told if each.points_was is not None or each.by_hand][::-1],
        signs=" ".join(f"{sign} {result.value}" for result, sign in SIGNS.items()),
        cell=_cell,
    )
    return files.replace(Path(out) / page_name(chapter), page.encode("utf-8"))


def _lines(
    chapter: Chapter,
    class_: Iterable[Record],
    faults: Mapping[str, str],
    absent: Iterable[str],
    needs: Iterable[Need],
    explain: str,
) -> list[Line]:
    """Everyone, by name: who was graded, who could not be, and who is on the roster alone."""
    looked_at = {student for need in needs if need.short != attention.WAITING for student in need.students}
    made = {student: Line(student, None, "absent", ("none",), "") for student in absent}
    for record in class_:
        student = record.student
        rows = record.rows
        late = f"late, −{number(record.penalty)}" if record.penalty else "late" if record.seconds_late else ""
        is_in = {
            "needs": student in looked_at,
            "waiting": any(row.waiting for row in rows),
            "lost": any(not row.waiting and row.points < row.max_points for row in rows),
            "late": bool(late),
            "none": roll.handed_in_nothing(record),
        }
        flags = tuple(flag for flag, holds in is_in.items() if holds)
        made[student] = Line(student, record, late, flags, _why(explain, student, chapter))
    for student in faults:
        was = made.get(student)
        made[student] = Line(
            student, was and was.record, "not graded", ("needs", "none"), _why(explain, student, chapter)
        )
    return [made[student] for student in sorted(made, key=lambda each: (each.casefold(), each))]


def _why(explain: str, student: str, chapter: Chapter) -> str:
    """The command that explains a student's marks: whatever their name is, a shell takes it for a name."""
    return f"{explain} -- {shlex.quote(student)} {shlex.quote(chapter.name)}"


def _facts(class_: Sequence[Record], counted: Marked) -> list[str]:
    facts = [some(len(class_), "submission")]
    if counted.median is not None:
        middle = f" (the middle half {' to '.join(map(number, counted.middle))})" if counted.middle else ""
        facts += [f"median {number(counted.median)}{middle} of {some(counted.max_points, 'point')}"]
        if names := ", ".join(harmless.line(each.name) for each in counted.left_out):
            facts[-1] += f" without {names}, not marked yet"
    if unread := sum(nothing_read(record) and not roll.handed_in_nothing(record) for record in class_):
        facts += [f"{unread} could not be read, and {'is' if unread == 1 else 'are'} not counted"]
    if class_:
        facts += [f"{sum(record.verdict.seconds for record in class_):.0f} s of grading"]
    if waiting := sum(row.waiting for record in class_ for row in record.rows):
        facts.append(f"{some(waiting, 'answer')} wait{'s' * (waiting == 1)} for a mark by hand")
    return facts


def weak(class_: Sequence[Record]) -> list[str]:
    """The exercises whose marks were computed, all or in part, where the student's code runs."""
    found = (each for record in class_ for each in record.verdict.evidence.outcomes if each.weak)
    return list(dict.fromkeys(each.exercise for each in found))


def class_table(out: Path, chapter: Chapter) -> Group:
    """The class for the terminal: a line a student, total first. Raises CourseError if OUT has no gradebook.

    Of more than ROWS students only who needs a look, the most urgent first chosen; it says how many it leaves out.
    """
    class_, absent = records(out, chapter), roll.absent(out, chapter)
    everyone = len(class_) + len(absent)
    if everyone > ROWS:
        first = _looked_at_first(attention.needs(chapter, class_, {}, {}))
        class_, absent = [record for record in class_ if record.student in first], []
    below = ["  ".join(f"{sign} {result.value}" for result, sign in SIGNS.items())]
    if hidden := everyone - len(class_) - len(absent):
        below.append(f"{hidden:,} of {everyone:,} students are not shown: see {page_name(chapter)}")
    table = Table()
    table.add_column("student", no_wrap=True)
    table.add_column(f"points /{number(chapter.max_points)}", justify="right", no_wrap=True)
    table.add_column("exercises")
    table.add_column("", no_wrap=True)
    for record in class_:
        signs = Text.assemble(*((SIGNS[row.verdict], STYLES.get(row.verdict, "red")) for row in record.rows))
        student, total = Text(harmless.line(record.student)), Text(number(record.points), style="bold")
        table.add_row(student, total, signs, "late" if record.seconds_late else "")
    for student in absent:
        table.add_row(Text(harmless.line(student)), "", "–" * len(chapter.exercises), "absent", style="dim")
    return Group(Text(harmless.line(chapter.title)), table, Text("\n".join(below)))


def _looked_at_first(needs: Iterable[Need]) -> set[str]:
    """The students, at most ROWS, for whom there is more to do than to give a mark by hand."""
    looked_at = (each for need in needs if need.short != attention.WAITING for each in need.seen)
    return set(islice(dict.fromkeys(student for each in looked_at for student in each.students), ROWS))


def _cell(row: Row) -> str:
    return f"{SIGNS[row.verdict]} {'' if row.waiting else number(row.points)}".strip()


def feedback_link(student: str, chapter: str) -> str:
    """The address of a student's page, from OUT."""
    return harmless.link("feedback", student, chapter, f"{chapter}.html")
