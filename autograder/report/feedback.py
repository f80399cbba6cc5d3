"""What a student reads: one page for each submission, exercise by exercise, then the notebook as it was executed.

The page is one file without scripts: HTML of the student's is cleaned, and a Content-Security-Policy forbids the rest.
`write` makes it of one record, so that pages are made one by one in processes that can be ended: see `pages`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nbformat
from markupsafe import Markup
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

from autograder.gradebook import receipts, tables
from autograder.gradebook.record import Record
from autograder.model import course, harmless, markup
from autograder.model.course import Chapter
from autograder.model.verdict import CARRIED, Fault, Result
from autograder.report import rendering, term_lines, words
from autograder.report.words import Words
from autograder.store import files
from autograder.submissions.added_cells import LEFT_OUT
from autograder.term.counting import Counted

PAGE = 16 << 20  # bytes of one page
COLOURED_PAGE = 12_000  # characters of the student's code that are coloured
NO_TERM: Mapping[str, Counted] = {}
ALIKE = 4_000  # characters of a cell that is remembered as it was rendered
NOT_YOURS = {  # whose fault it was is for instructors; a student reads of it only where it was not the student's
    Fault.AUTHOR: "The check broke on your answer. That is the course's fault: it will be mended and graded again.",
    Fault.INFRASTRUCTURE: "The grading machine failed. That is no fault of yours: it will be graded again.",
}
HOW = {  # an exercise ended, as a teacher says it
    Result.PASSED: "Right",
    Result.PARTIAL: "Partly right",
    Result.FAILED: "Not right yet",
    Result.CRASHED: "Stopped by an error",
    Result.TIMEOUT: "Stopped: it took too long",
    Result.MEMORY: "Stopped: it took too much memory",
    Result.OUTPUT: "Stopped: it printed too much",
    Result.PROCESSES: "Stopped: it had too many processes",
    Result.BLANK: "Not answered",
    Result.MISSING: "Not in your notebook",
    Result.INVALID: "Could not be read",
    Result.ABSENT: "Not handed in",
    Result.MANUAL: "Read by your teacher",
}
CHECKED = (Result.PASSED, Result.PARTIAL, Result.FAILED, Result.MANUAL)  # where a check that passed is worth telling
TO_DO = {
    Result.PASSED: "",
    Result.PARTIAL: "Part of it holds. Take the case that the message names, and follow your answer through it, line by line.",
    Result.FAILED: "Take the case that the message names, and follow your answer through it, line by line.",
    Result.CRASHED: "Restart the kernel and run all cells: the error comes back, with the line that raised it.",
    Result.TIMEOUT: "Look for a loop or a wait that never ends, and try it on the smallest input.",
    Result.MEMORY: "Look for a tensor or a list that grows with every step, and print its shape.",
    Result.OUTPUT: "Take out what prints inside loops.",
    Result.PROCESSES: "Look for a loop that starts processes or threads, and end each before the next one starts.",
    Result.BLANK: "Write an answer in the cell; a part of one may earn a part of the points.",
    Result.MISSING: "Do what the message says, then hand it in again.",
    Result.INVALID: "Do what the message says, then hand it in again.",
    Result.ABSENT: "",
    Result.MANUAL: "",
}


class PageError(ValueError):
    """A page that would be too big to open."""


def write(out: Path, chapter: Chapter, record: Record, *, counts: Mapping[str, Counted] = NO_TERM) -> Path:
    """Write OUT/feedback/<student>/<chapter>/<chapter>.html, from a record with its notebook.

    `counts` is what the chapter counts for students in the term.

    Raises PageError; ValueError where the notebook cannot be read; whatever else odd notebooks bring about.
    """
    page = render(chapter, record, _words(out, chapter, record), counts.get(record.student)).encode("utf-8")
    if len(page) > PAGE:
        raise PageError(f"the page would have more than {PAGE >> 20} MiB")
    return _put(out, chapter, record.student, page)


def write_without_notebook(
    out: Path, chapter: Chapter, record: Record, why: str, *, counts: Mapping[str, Counted] = NO_TERM
) -> Path:
    """Write the page with the marks alone, and why there is no more."""
    counted, spoken = counts.get(record.student), _words(out, chapter, record)
    page = _page(chapter, record.student, record, trouble=why, spoken=spoken, counted=counted)
    return _put(out, chapter, record.student, page.encode("utf-8"))


def write_ungraded(out: Path, chapter: Chapter, student: str, why: str) -> Path:
    """Write the page of a student whom this machine could not grade."""
    return _put(out, chapter, student, _page(chapter, student, None, trouble=why).encode("utf-8"))


def render(chapter: Chapter, record: Record, spoken: Words = words.ENGLISH, counted: Counted | None = None) -> str:
    """Return the page as HTML: any characters in the record, none of them hidden, no markup of the student's kept."""
    return _page(chapter, record.student, record, shown=notebook(record, spoken), spoken=spoken, counted=counted)


def _words(out: Path, chapter: Chapter, record: Record) -> Words:
    """The words of the student's language: the one of the notebook that was handed in."""
    return words.of(out, chapter.name, record.verdict.language)


def prepare(chapter: Chapter) -> None:
    """Render the chapter as it was released: what all pages share is then made already, here and in forked children."""
    for cell in markup.notebook(chapter.release).cells:
        _shown(cell.cell_type, cell.source, [], cell.cell_type == "code")
    _page(chapter, "", None)


def path(out: Path, chapter: str, student: str) -> Path:
    """Where a student's page of a chapter lies: where nbgrader's own feedback does."""
    return Path(out) / "feedback" / student / chapter / f"{chapter}.html"


def _put(out: Path, chapter: Chapter, student: str, page: bytes) -> Path:
    """Write a page, after what `nbgrader release_feedback` must find beside it: without that it would fail for all."""
    place = path(out, chapter.name, student)
    for name, data in receipts.beside(out, chapter.name, student).items():
        files.replace(place.with_name(name), data, mode=0o600)
    return files.replace(place, page)


def _page(
    chapter: Chapter,
    student: str,
    record: Record | None,
    shown: str = "",
    trouble: str = "",
    spoken: Words = words.ENGLISH,
    counted: Counted | None = None,
) -> str:
    return rendering.render(
        "feedback.html",
        words=spoken,
        pictures=True,
        code_style=_code_style(),
        chapter=chapter,
        student=student,
        record=record,
        right=sum(row.verdict is Result.PASSED for row in record.rows) if record else 0,
        waiting=sum(row.max_points for row in record.rows if row.waiting) if record else 0.0,
        due=_due(record) if record else None,
        counts=term_lines.counts(counted, record.points, record.zone, spoken) if record else "",
        how=HOW,
        held=_held(record) if record else {},
        weak={each.exercise for each in record.verdict.evidence.outcomes if each.weak} if record else (),
        comments={row.exercise: _comment(row.comment) for row in record.rows if row.comment} if record else {},
        places={each.name: _place(each.answer_ids[0]) for each in chapter.exercises if each.answer_ids}
        if shown
        else {},
        left_out=[note for note in record.verdict.notes if note.startswith(LEFT_OUT)] if record else [],
        not_yours=NOT_YOURS,
        to_do=TO_DO,
        carried=CARRIED,  # its message says what to do
        notebook=Markup(shown),  # cleaned: see `notebook`
        trouble=harmless.line(trouble, 300),
    )


def _due(record: Record) -> tuple[datetime, datetime] | None:
    """When a late submission was handed in and had been due, extensions included: as the gradebook counted."""
    when = tables.moment(record.timestamp)
    return (when, when - timedelta(seconds=record.seconds_late)) if when and record.seconds_late else None


def _held(record: Record) -> dict[str, list[str]]:
    """What holds of each exercise, in words: the names of the checks that passed. See `judge.share`: all of a test must."""
    found: dict[str, dict[str, bool]] = {}
    for each in record.verdict.evidence.outcomes:
        passed = found.setdefault(each.exercise, {})
        passed[each.test] = each.passed and passed.get(each.test, True)
    shown = {row.exercise for row in record.rows if row.verdict in CHECKED}
    return {
        exercise: list(dict.fromkeys(words.held(test) for test, holds in passed.items() if holds))
        for exercise, passed in found.items()
        if exercise in shown
    }


def _comment(said: str) -> Markup:
    """A comment that was given by hand: Markdown, rendered as that of notebooks is, for it may quote a student."""
    return Markup(_shown("markdown", markup.markdown(harmless.visible(said)), [], False))


def _place(grade_id: str) -> str:
    """Where a cell stands on the page."""
    return f"answer-{quote(grade_id, safe='')}"


def notebook(record: Record, spoken: Words = words.ENGLISH) -> str:
    """Return the executed notebook as a piece of HTML. Raises ValueError where it cannot be read."""
    found = record.notebook
    if not found:
        return ""
    shown, left = [], COLOURED_PAGE
    for cell in markup.notebook(found).cells:
        students = course.students(cell)
        source = harmless.visible(spoken.stub(cell.source)) if students else spoken.cell(cell.source)
        coloured = cell.cell_type == "code"
        if students and coloured:
            coloured = len(source) <= left
            left -= len(source) if coloured else 0
        made = _shown(cell.cell_type, source, cell.get("outputs", []), coloured)
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        place = f' id="{_place(name)}"' if name else ""  # a cell that a student added has none
        shown.append(f'<div class="answer"{place}>\n{made}\n</div>' if students else made)
    return "\n".join(shown)


def _shown(kind: str, source: str, outputs: list[Any], coloured: bool) -> str:
    said = json.dumps(outputs)
    if len(source) + len(said) > ALIKE:
        return _rendered(kind, source, said, coloured)
    return _remembered(kind, source, said, coloured)


def _rendered(kind: str, source: str, outputs: str, coloured: bool) -> str:
    cell = {"cell_type": kind, "id": "cell", "metadata": {"coloured": coloured}, "source": source}
    if kind == "code":
        cell |= {"outputs": json.loads(outputs), "execution_count": None}
    alone = nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]})
    assert isinstance(alone, NotebookNode)
    body, _ = _exporter().from_notebook_node(alone)  # pyright: ignore[reportArgumentType]
    return body.replace(' id="cell-id=cell"', "").replace("\x1b", "\\x1b").strip()


_remembered = lru_cache(maxsize=1024)(_rendered)  # most cells are the release's; cleaning HTML is slow


def _coloured(source: str, metadata: dict[str, Any]) -> str:
    return markup.coloured(source) if metadata["coloured"] else markup.uncoloured(source)


@cache
def _exporter() -> HTMLExporter:
    # nbconvert's own clean_html shows <p> and <h2> as text: ours is as strict about what could run; its search for
    # links to files/, which there are none of, takes minutes for an answer of brackets
    ours = {"clean_html": markup.html, "strip_files_prefix": lambda source: source, "highlight_code": _coloured}
    return HTMLExporter(
        template_name="basic", sanitize_html=True, exclude_anchor_links=True, exclude_input_prompt=True, filters=ours
    )


@cache
def _code_style() -> str:
    light = HtmlFormatter(style="default", nobackground=True).get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark", nobackground=True).get_style_defs(".highlight")
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}"
