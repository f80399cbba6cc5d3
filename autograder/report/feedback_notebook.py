"""The marks and the executed notebook as one notebook: for where a page would be called as the student's own file is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autograder.gradebook import replay
from autograder.gradebook.record import Record, Row, number, some
from autograder.model import markup
from autograder.model.course import Chapter
from autograder.report import term_lines
from autograder.term.counting import Counted


def render(out: Path, chapter: Chapter, record: Record, counted: Counted | None = None) -> bytes:
    """Return it as the bytes of a file. What a student wrote is text in it; where OUT/autograded has no notebook: the marks."""
    marks = {"cell_type": "markdown", "id": "across-marks", "metadata": {}, "source": _marks(chapter, record, counted)}
    notebook = _executed(out, chapter.name, record.student)
    metadata = {name: notebook["metadata"][name] for name in ("kernelspec",) if name in notebook.get("metadata", {})}
    cells = [marks, *({**cell, "metadata": {}} for cell in notebook.get("cells", ()))]
    return replay.as_bytes({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})


def _executed(out: Path, chapter: str, student: str) -> dict[str, Any]:
    path = Path(out) / "autograded" / student / chapter / f"{chapter}.ipynb"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}


def _marks(chapter: Chapter, record: Record, counted: Counted | None) -> str:
    said = [f"# {chapter.title}: {number(record.points)} of {some(chapter.max_points, 'point')}"]
    if record.penalty:
        said.append(f"Late: {some(record.penalty, 'point')} taken off.")
    if counts := term_lines.counts(counted, record.points, record.zone):
        said.append(counts)
    said += [_exercise(row) for row in record.rows]
    return "\n\n".join([*said, "---", "Below is your notebook, as it was executed."])


def _exercise(row: Row) -> str:
    points = "waits for its mark" if row.waiting else f"{number(row.points)} / {number(row.max_points)}"
    said = [f"**`{row.exercise}`**: {row.verdict}, {points}", markup.literal(row.message)]
    return "\n\n".join(said + ([markup.literal(row.comment)] if row.comment else []))
