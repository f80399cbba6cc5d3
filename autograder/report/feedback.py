"""What a student reads: one page for each submission, exercise by exercise, then the notebook as it was executed.

The page is one file without scripts: HTML of the student's is cleaned, and a Content-Security-Policy forbids the rest.
`render` is a pure function of picklable values, so that pages are made in a pool, after the marks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import cache, lru_cache, partial
from html import escape
from pathlib import Path
from string import Template

import nbformat
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

from autograder.gradebook.record import Record, Row, number
from autograder.model import harmless
from autograder.model.course import Chapter
from autograder.model.verdict import Fault, Result
from autograder.store import files

COLOURED = 4_000  # characters of a cell of the student's; the time that colouring takes grows with their square
COLOURED_PAGE = 12_000  # characters of all of them
CODE = re.compile("`([^`<>]{1,200})`")
WHOSE = {
    Fault.NONE: "",
    Fault.STUDENT: "your code",
    Fault.LIMIT: "your code, at a limit",
    Fault.AUTHOR: "the course's: it will be mended and graded again",
    Fault.INFRASTRUCTURE: "the grading machine's: it will be graded again",
}
TO_DO = {
    Result.PASSED: "",
    Result.PARTIAL: "Part of it holds. Look at the case that the message names, on small inputs of your own.",
    Result.FAILED: "Try the function on the kind of input that the message names, and compare by hand.",
    Result.CRASHED: "Restart the kernel and run all cells: the error comes back, with the line that raised it.",
    Result.TIMEOUT: "Look for a loop or a wait that never ends, and try it on the smallest input.",
    Result.MEMORY: "Look for a tensor or a list that grows with every step, and print its shape.",
    Result.OUTPUT: "Take out what prints inside loops.",
    Result.BLANK: "Write an answer in the cell; a part of one may earn a part of the points.",
    Result.INVALID: "Do what the message says, then hand it in again.",
    Result.MANUAL: "",
}


def write(out: Path, chapter: Chapter, record: Record) -> Path:
    """Write OUT/feedback/<student>/<chapter>.html, from a record with its notebook."""
    path = Path(out) / "feedback" / record.student / f"{chapter.name}.html"
    return files.replace(path, render(chapter, record).encode("utf-8"))


def write_all(
    out: Path,
    chapter: Chapter,
    records: Iterable[Record],
    executor: Executor | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Path]:
    """Write the page of every record (with notebooks), by `executor` if given; `progress` hears how many are done."""
    paths = []
    for path in (executor.map if executor else map)(partial(write, out, chapter), records):
        paths.append(path)
        if progress is not None:
            progress(len(paths))
    return paths


def render(chapter: Chapter, record: Record) -> str:
    """Return the page as HTML: any characters in the record, none of them hidden, no markup of the student's kept."""
    points, most = number(record.points), number(chapter.max_points)
    late = ""
    if record.seconds_late:
        late = f"<p>Handed in {_duration(record.seconds_late)} late: {number(record.penalty)} points taken off.</p>"
    waiting = sum(row.max_points for row in record.rows if row.waiting)
    if waiting:
        late += f"<p>{number(waiting)} of the points are given by hand, and were not given yet.</p>"
    return PAGE.substitute(
        title=_text(f"{chapter.title}: {record.student}"),
        student=_text(record.student),
        chapter=_text(chapter.title),
        points=points,
        most=most,
        late=late,
        exercises="\n".join(_exercise(row) for row in record.rows),
        notebook=notebook(record),
        code_style=_code_style(),
    )


def notebook(record: Record) -> str:
    """Return the executed notebook as a piece of HTML."""
    if not record.verdict.notebook:
        return ""
    made = harmless.notebook(record.verdict.notebook)
    shown, left = [], COLOURED_PAGE
    for cell in made.cells:
        students = cell.metadata.get("nbgrader", {}).get("solution")
        source = harmless.visible(cell.source) if students else cell.source
        if students and cell.cell_type == "code":
            if len(source) > min(left, COLOURED):
                shown.append(f'<div class="highlight"><pre>{escape(source)}</pre></div>')
                source = ""
            left -= len(source)
        shown.append(_cell(cell.cell_type, source, json.dumps(cell.get("outputs", []))))
    return "\n".join(shown)


@lru_cache(maxsize=4096)  # most cells are the release's, the same in every submission; cleaning HTML is slow
def _cell(kind: str, source: str, outputs: str) -> str:
    cell = {"cell_type": kind, "id": "cell", "metadata": {}, "source": source}
    if kind == "code":
        cell |= {"outputs": json.loads(outputs), "execution_count": None}
    notebook = nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]})
    assert isinstance(notebook, NotebookNode)
    body, _ = _exporter().from_notebook_node(notebook)  # pyright: ignore[reportArgumentType]
    return body.replace(' id="cell-id=cell"', "").replace("\x1b", "\\x1b").strip()


def _as_it_is(source: str) -> str:
    return source


@cache
def _exporter() -> HTMLExporter:
    # nbconvert's own clean_html shows <p> and <h2> as text: ours is as strict about what could run; its search for
    # links to files/, which there are none of, takes minutes for an answer of brackets
    clean = {"clean_html": harmless.html, "strip_files_prefix": _as_it_is}
    return HTMLExporter(
        template_name="basic", sanitize_html=True, exclude_anchor_links=True, exclude_input_prompt=True, filters=clean
    )


@cache
def _code_style() -> str:
    light = HtmlFormatter(style="default", nobackground=True).get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark", nobackground=True).get_style_defs(".highlight")
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


def _exercise(row: Row) -> str:
    lines = [f"<p>{prose(row.message)}</p>"]
    if row.comment:
        lines.append(f"<blockquote>{_text(row.comment)}</blockquote>")
    if WHOSE[row.fault]:
        lines.append(f'<p class="quiet">Whose fault: {WHOSE[row.fault]}.</p>')
    if TO_DO[row.verdict]:
        lines.append(f'<p class="quiet">What to do: {TO_DO[row.verdict]}</p>')
    score = "waiting" if row.waiting else f"{number(row.points)} / {number(row.max_points)}"
    head = f'<span class="verdict {row.verdict.value}">{row.verdict.value}</span> <span class="points">{score}</span>'
    return f"<section>\n<h3><code>{_text(row.exercise)}</code> {head}</h3>\n" + "\n".join(lines) + "\n</section>"


def prose(text: str) -> str:
    """Return a message as HTML: what stands between backticks as code, nothing hidden, nothing that is markup."""
    return CODE.sub(r"<code>\1</code>", _text(text))


def _text(text: str) -> str:
    return escape(harmless.visible(text)).replace("\n", "<br>")


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    days, hours = divmod(hours, 24)
    said = [f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if count]
    return " ".join(said) or "less than a minute"


PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>$title</title>
<style>
:root { --page: #fff; --ink: #1c2430; --quiet: #5a6573; --line: #d5dae1; --code: #f5f6f8;
  --good: #00684e; --part: #7a5200; --bad: #a8330a; --none: #5a6573; }
@media (prefers-color-scheme: dark) { :root { --page: #14181e; --ink: #e4e8ee; --quiet: #a2adba; --line: #39424e;
  --code: #1d232b; --good: #4fc7a3; --part: #e8b64c; --bad: #ff9a70; --none: #a2adba; } }
body { margin: 0 auto; padding: 2rem 1rem; max-width: 54rem; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1, h2, h3 { line-height: 1.25; } h1 { margin-bottom: 0; }
h3 { display: flex; gap: .75rem; align-items: baseline; margin: 0; }
.total { font-size: 1.4rem; margin: .25rem 0 1.5rem; } .points { margin-left: auto; white-space: nowrap; }
section { border: 1px solid var(--line); border-left: .3rem solid var(--line); padding: .75rem 1rem; margin: .75rem 0; }
section p { margin: .4rem 0 0; } .quiet { color: var(--quiet); font-size: .92rem; }
.verdict { font-size: .9rem; font-weight: 600; color: var(--bad); } .verdict.passed { color: var(--good); }
.verdict.partial { color: var(--part); } .verdict.blank, .verdict.manual { color: var(--none); }
blockquote { margin: .5rem 0; padding-left: .75rem; border-left: .2rem solid var(--line); }
pre { background: var(--code); padding: .6rem .8rem; overflow-x: auto; white-space: pre-wrap; margin: .3rem 0; }
code { font-size: .95em; } img { max-width: 100%; background: #fff; } .prompt { display: none; }
.output_area { border-left: .2rem solid var(--line); padding-left: .6rem; }
table { border-collapse: collapse; } td, th { border: 1px solid var(--line); padding: .2rem .6rem; }
.ansi-red-fg, .ansi-red-intense-fg { color: var(--bad); } .ansi-green-fg, .ansi-green-intense-fg { color: var(--good); }
.ansi-bold { font-weight: 600; }
$code_style
</style>
</head>
<body>
<h1>$chapter</h1>
<p class="quiet">$student</p>
<p class="total"><strong>$points</strong> of $most points</p>
$late
<h2>Exercise by exercise</h2>
$exercises
<h2>Your notebook, as it was executed</h2>
<p class="quiet">Under each visible check stands nothing: the points come from other checks, on fresh inputs.</p>
$notebook
</body>
</html>
""")
