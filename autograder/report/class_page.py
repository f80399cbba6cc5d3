"""What the instructor reads: one self-contained page of a class, a table and an explanation for the terminal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from rich.table import Table
from rich.text import Text

from autograder.gradebook.record import Record, Row, number, records
from autograder.model import course, harmless
from autograder.model.course import Chapter
from autograder.model.verdict import Outcome, Result
from autograder.report.feedback import prose
from autograder.store import files

SHOWN = 12  # rows of a list on the page
WIDTH = 720  # of a chart, in its own units
ENDED_BADLY = (Result.CRASHED, Result.TIMEOUT, Result.MEMORY, Result.OUTPUT)
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
    Result.BLANK: "·",
    Result.INVALID: "?",
}
STYLES = {Result.PASSED: "green", Result.PARTIAL: "yellow", Result.BLANK: "dim", Result.MANUAL: "cyan"}
GROUPS = {
    "passed": (Result.PASSED,),
    "partial": (Result.PARTIAL,),
    "by hand": (Result.MANUAL,),
    "failed": (Result.FAILED, *ENDED_BADLY),
    "blank or invalid": (Result.BLANK, Result.INVALID),
}


@dataclass(frozen=True)
class Mistake:
    """A misconception, or a message, that several students share."""

    exercise: str
    name: str  # of the listed wrong answer; empty if it is none of those
    message: str
    students: tuple[str, ...]


def write(out: Path, chapter: Chapter, faults: dict[str, str] | None = None, db_url: str | None = None) -> Path:
    """Write OUT/report.html. `faults`: the students whom this machine could not grade, and why.

    Raises CourseError if OUT has no gradebook.
    """
    page = render(chapter, records(out, chapter, db_url), faults or {})
    return files.replace(Path(out) / "report.html", page.encode("utf-8"))


def render(chapter: Chapter, class_: Sequence[Record], faults: dict[str, str]) -> str:
    """Return the page as HTML, without scripts and without anything to load."""
    waiting = sum(row.waiting for record in class_ for row in record.rows)
    facts = [f"{len(class_)} submissions"]
    if class_:
        points = sorted(record.points for record in class_)
        middle = (points[(len(points) - 1) // 2] + points[len(points) // 2]) / 2
        facts += [f"median {number(middle)} of {number(chapter.max_points)} points"]
        facts += [f"{sum(record.verdict.seconds for record in class_):.0f} s of grading"]
    if waiting:
        facts.append(f"{waiting} answers wait for a mark by hand")
    return PAGE.substitute(
        title=_text(chapter.title),
        chapter=_text(chapter.name),
        facts=" · ".join(facts),
        faults=_faults(faults) + _broken(chapter, class_),
        distribution=_distribution(chapter, class_),
        exercises=_exercises(chapter, class_),
        mistakes=_mistakes(class_),
        slow=_slow(class_),
        ended=_ended(class_),
        table=_class(chapter, class_),
        signs=" ".join(f"{sign} {result.value}" for result, sign in SIGNS.items()),
    )


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
    return table


def _cell(row: Row) -> str:
    return f"{SIGNS[row.verdict]} {'' if row.waiting else number(row.points)}".strip()


def _text(text: object, width: int = 0) -> str:
    return escape(harmless.line(text, width))


def _page_of(record: Record) -> str:
    return f"feedback/{harmless.link(record.student, record.verdict.chapter + '.html')}"


def _student(record: Record) -> str:
    return f'<a href="{_page_of(record)}">{_text(record.student)}</a>'


def _chart(alt: str, height: int, parts: list[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(alt)}"><title>{escape(alt)}</title>\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _distribution(chapter: Chapter, class_: Sequence[Record]) -> str:
    """A histogram of the points: bars of equal width from 0 to all points; who has all of them is in the last."""
    if not class_ or chapter.max_points <= 0:
        return '<p class="quiet">Nothing to count yet.</p>'
    bars = min(10, max(1, round(chapter.max_points)))
    step = chapter.max_points / bars
    counts = Counter(min(bars - 1, int(record.points / step)) for record in class_)
    high = max(counts.values())
    width, left, floor = (WIDTH - 60) / bars, 50, 190
    parts = [f'<line x1="{left}" y1="{floor}" x2="{WIDTH - 10}" y2="{floor}" class="axis"/>']
    said = []
    for i in range(bars):
        tall = 150 * counts[i] / high
        x = left + i * width
        parts.append(f'<rect x="{x + 3:.1f}" y="{floor - tall:.1f}" width="{width - 6:.1f}" height="{tall:.1f}"/>')
        if counts[i]:
            parts.append(f'<text x="{x + width / 2:.1f}" y="{floor - tall - 6:.1f}" class="mid">{counts[i]}</text>')
            said.append(f"{number(i * step)} to {number((i + 1) * step)}: {counts[i]}")
        parts.append(f'<text x="{x:.1f}" y="{floor + 18}" class="mid quiet">{number(i * step)}</text>')
    parts.append(f'<text x="{WIDTH - 10}" y="{floor + 18}" class="end quiet">{number(chapter.max_points)}</text>')
    parts.append(f'<text x="{(left + WIDTH) / 2}" y="{floor + 40}" class="mid">points</text>')
    parts.append('<text x="14" y="115" class="mid" transform="rotate(-90 14 115)">students</text>')
    return _chart("Students by points. " + "; ".join(said), 240, parts)


def _exercises(chapter: Chapter, class_: Sequence[Record]) -> str:
    """For each exercise a bar of 100 percent of the class, split by how it ended."""
    if not class_:
        return '<p class="quiet">Nothing to count yet.</p>'
    left, right, parts, said = 210, 70, [], []
    for i, exercise in enumerate(chapter.exercises):
        results = [row.verdict for record in class_ for row in record.rows if row.exercise == exercise.name]
        y, x = 10 + 34 * i, float(left)
        parts.append(f'<text x="{left - 10}" y="{y + 16}" class="end">{_text(exercise.name, 26)}</text>')
        split = []
        for group, (name, members) in enumerate(GROUPS.items()):
            count = sum(result in members for result in results)
            wide = (WIDTH - left - right) * count / max(1, len(results))
            if not count:
                continue
            split.append(f"{name} {count}")
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{max(wide - 1, 1):.1f}" height="22" class="g{group}">'
                f"<title>{name}: {count} of {len(results)}</title></rect>"
            )
            if wide > 22:
                parts.append(f'<text x="{x + wide / 2:.1f}" y="{y + 16}" class="mid on{group}">{count}</text>')
            x += wide
        rate = sum(result is Result.PASSED for result in results) / max(1, len(results))
        shown = "by hand" if exercise.manual else f"{rate:.0%}"
        parts.append(f'<text x="{WIDTH - right + 10}" y="{y + 16}">{shown}</text>')
        said.append(f"{exercise.name}: {', '.join(split)}")
    height = 34 * len(chapter.exercises) + 34
    x = float(left)
    for group, name in enumerate(GROUPS):
        parts.append(f'<rect x="{x:.0f}" y="{height - 16}" width="12" height="12" class="g{group}"/>')
        parts.append(f'<text x="{x + 17:.0f}" y="{height - 5}" class="quiet">{name}</text>')
        x += 17 + 7.5 * len(name) + 18
    return _chart(
        "How each exercise ended, in students. " + "; ".join(harmless.line(each) for each in said), height, parts
    )


def _mistakes(class_: Sequence[Record]) -> str:
    shared = mistakes(class_)
    if not shared:
        return '<p class="quiet">None.</p>'
    rows = []
    for mistake in shared[:SHOWN]:
        name = f"<code>{_text(mistake.name)}</code> " if mistake.name else ""
        who = ", ".join(_text(student) for student in mistake.students[:6])
        more = f" and {len(mistake.students) - 6} more" if len(mistake.students) > 6 else ""
        rows.append(
            f'<tr><td class="number">{len(mistake.students)}</td><td><code>{_text(mistake.exercise)}</code></td>'
            f'<td>{name}{prose(mistake.message[:300])}<br><span class="quiet">{who}{more}</span></td></tr>'
        )
    head = "<tr><th>students</th><th>exercise</th><th>what they were told</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>" + _left_out(len(shared))


def _slow(class_: Sequence[Record]) -> str:
    slow = sorted(class_, key=lambda record: -record.verdict.seconds)[:5]
    if not slow:
        return '<p class="quiet">None.</p>'
    high = max(slow[0].verdict.seconds, 1e-9)
    parts, said = [], []
    for i, record in enumerate(slow):
        y, seconds = 8 + 30 * i, record.verdict.seconds
        wide = (WIDTH - 310) * seconds / high
        parts.append(f'<text x="200" y="{y + 15}" class="end">{_text(record.student, 24)}</text>')
        parts.append(f'<rect x="210" y="{y}" width="{max(wide, 1):.1f}" height="20"/>')
        parts.append(f'<text x="{220 + wide:.1f}" y="{y + 15}">{seconds:.2f} s</text>')
        said.append(f"{harmless.line(record.student)} {seconds:.2f} s")
    return _chart("Seconds that the slowest submissions took. " + "; ".join(said), 30 * len(slow) + 12, parts)


def _ended(class_: Sequence[Record]) -> str:
    rows = []
    for record in class_:
        bad = [row for row in record.rows if row.verdict in (*ENDED_BADLY, Result.INVALID)]
        if not bad:
            continue
        how = ", ".join(dict.fromkeys(row.verdict.value for row in bad))
        notes = "<br>".join(prose(harmless.line(note, 300)) for note in (bad[0].message, *record.verdict.notes))
        rows.append(f"<tr><td>{_student(record)}</td><td>{how}</td><td>{notes}</td></tr>")
    if not rows:
        return '<p class="quiet">None.</p>'
    return (
        f"<table><tr><th>student</th><th>how</th><th>what was seen</th></tr>{''.join(rows[: 3 * SHOWN])}</table>"
        + _left_out(len(rows), 3 * SHOWN)
    )


def _left_out(found: int, shown: int = SHOWN) -> str:
    return f'<p class="quiet">{found - shown} more in marks.csv.</p>' if found > shown else ""


def _class(chapter: Chapter, class_: Sequence[Record]) -> str:
    names = "".join(
        f'<th class="number"><code>{_text(exercise.name)}</code> /{number(exercise.max_points)}</th>'
        for exercise in chapter.exercises
    )
    rows = []
    for record in class_:
        cells = "".join(
            f'<td class="number {row.verdict.value}" title="{row.verdict.value}: {_text(row.message, 300)}">'
            f"{_cell(row)}</td>"
            for row in record.rows
        )
        late = f"late, −{number(record.penalty)}" if record.penalty else "late" if record.seconds_late else ""
        rows.append(
            f"<tr><td>{_student(record)}</td>{cells}"
            f'<td class="number"><strong>{number(record.points)}</strong></td><td>{late}</td></tr>'
        )
    head = f'<th>student</th>{names}<th class="number">points /{number(chapter.max_points)}</th><th></th>'
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _faults(faults: dict[str, str]) -> str:
    if not faults:
        return ""
    rows = "".join(
        f"<tr><td>{_text(student)}</td><td>{_text(why, 300)}</td></tr>" for student, why in sorted(faults.items())
    )
    return (
        '<section class="alarm"><h2>Not graded: this machine failed</h2>'
        f"<p>Run the same command again: what was graded is kept.</p><table>{rows}</table></section>"
    )


def _broken(chapter: Chapter, class_: Sequence[Record]) -> str:
    rows = []
    for (exercise, test), met in broken(class_).items():
        who = ", ".join(_text(student) for student, _ in met[:6]) + (
            f" and {len(met) - 6} more" if len(met) > 6 else ""
        )
        rows.append(
            f"<tr><td><code>{_text(exercise)}</code></td><td><code>{_text(test)}</code></td>"
            f"<td>{_text(met[0][1].kind, 300)}</td><td>{who}</td></tr>"
        )
    if not rows:
        return ""
    head = "<tr><th>exercise</th><th>check</th><th>what it met</th><th>on the answers of</th></tr>"
    return (
        '<section class="alarm"><h2>Checks that broke: the author\'s fault</h2>'
        f"<p>They gave no points. Mend <code>{_text(course.check_file(chapter.name).name)}</code>, see what it changes "
        f"by <code>autograder grade --dry-run</code>, and grade again.</p><table>{head}{''.join(rows)}</table></section>"
    )


PAGE = Template((Path(__file__).parent / "class_page.html").read_text(encoding="utf-8"))
