"""What is written of a term beside the gradebook, which it leaves as it is: term.csv, the class's page, and everyone's own."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from autograder.model import harmless
from autograder.report import charts, rendering, term_lines
from autograder.report.standing import Marked
from autograder.report.term_lines import Part
from autograder.store import files
from autograder.term.counting import Line
from autograder.term.rules import Rules

COLUMNS = ("student", "section", "total", "of", "days_spent", "days_left", "note")
PAGE = "term.html"


def write(out: Path, rules: Rules, lines: Sequence[Line], zone: str, title: str) -> Path:
    """Write OUT/term.csv, OUT/term.html and OUT/feedback/<student>/term.html; returns the second. Raises OSError."""
    with files.only_writer(out):
        files.replace(out / "term.csv", _table(lines))
        for line in lines:
            page = student_page(title, line, term_lines.parts(line, rules, zone))
            if harmless.names_a_folder(line.student):
                files.replace(out / "feedback" / line.student / PAGE, page.encode())
        return files.replace(out / PAGE, class_page(title, rules, lines).encode())


def student_page(title: str, line: Line, parts: list[Part]) -> str:
    """A student's page as HTML: no other student's name or mark is on it."""
    return rendering.render("term.html", title=title, student=line.student, whole=parts[0], parts=parts[1:])


def class_page(title: str, rules: Rules, lines: Sequence[Line]) -> str:
    """The class's page as HTML."""
    most = max((line.of for line in lines), default=0.0)
    chart = charts.distribution(Marked(tuple(min(line.total, most) for line in lines), most, ()))
    return rendering.render(
        "term_class.html",
        script="table.js",
        title=title,
        said=term_lines.rules_said(rules),
        chart=chart,
        most=most,
        chapters=[(each.chapter.name, each.weight) for each in lines[0].chapters] if lines else [],
        lines=lines,
        bank=rules.days,
        too_high=term_lines.too_high,
        link=lambda student: harmless.link("feedback", student, PAGE),
        filters=[("", "everyone", len(lines)), ("open", "not complete", sum(not line.whole for line in lines))],
    )


def _table(lines: Sequence[Line]) -> bytes:
    chapters = [each.chapter.name for each in lines[0].chapters] if lines else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *chapters])
    for line in lines:
        why = filter(None, map(term_lines.too_high, line.chapters))
        note = "" if line.whole else "; ".join(("not complete", *why))
        said = [
            line.student,
            line.section,
            term_lines.points(line.total),
            term_lines.points(line.of),
            line.spent,
            line.left,
        ]
        writer.writerow(
            map(harmless.field, map(str, (*said, note, *(term_lines.points(each.share) for each in line.chapters))))
        )
    return text.getvalue().encode()
