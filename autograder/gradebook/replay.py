"""The recorded notebook as nbgrader gets it: harmless, its grade cells filled in by us; also at its Autograde button."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import AssignLatePenalties, CheckCellMetadata, NbGraderPreprocessor, SaveAutoGrades
from sqlalchemy import create_engine

from autograder.gradebook import tables
from autograder.model import course, markup
from autograder.model.verdict import Mark, Result, Verdict


def filled(verdict: Verdict, marks: dict[str, Mark], stubs: dict[str, str]) -> NotebookNode:
    """Return a verdict's notebook with our outputs in its grade cells.

    `marks` are by the grade ids of these, `stubs` the released sources of the student's cells.
    """
    notebook = tables.graded(markup.notebook(verdict.notebook), marks, stubs)
    notebook.metadata["across"] = {**notebook.metadata.get("across", {}), "digest": verdict.digest}
    if all(mark.result is Result.INVALID for mark in verdict.marks):
        why = "**Not graded.** The submission could not be read; this is the chapter as released.\n\n"
        note = nbformat.v4.new_markdown_cell(why + markup.literal(verdict.marks[0].message))
        note["id"] = "across-not-graded"
        if notebook.get("nbformat_minor", 5) < 5:
            del note["id"]
        notebook.cells.insert(0, note)
    return notebook


def released(release: dict[str, Any]) -> NotebookNode:
    """Return a copy of a chapter's release as nbgrader reads notebooks."""
    notebook = nbformat.from_dict(copy.deepcopy(release))
    assert isinstance(notebook, NotebookNode)
    for cell in notebook.cells:
        cell.source = course.text(cell)
    return notebook


def as_bytes(notebook: dict[str, Any]) -> bytes:
    """Return the bytes of a notebook's file."""
    # without indents: with them, json is written by Python instead of C, and costs more than the gradebook
    return (json.dumps(notebook, ensure_ascii=False, sort_keys=True) + "\n").encode()


def digest_of(path: Path) -> str | None:
    """Which verdict an autograded notebook is of; None if it is missing, or not whole."""
    try:
        return json.loads(path.read_bytes())["metadata"]["across"]["digest"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


class Recorded(NbGraderPreprocessor):
    """In place of executing a notebook: the recorded one, as `nbgrader autograde` would have made it."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Return the recorded notebook. Raises LookupError if there is none: `autograder grade` was not run on it."""
        asked = resources["nbgrader"]
        engine = create_engine(asked["db_url"])
        try:
            with engine.connect() as connection:
                verdict = tables.load(connection, asked["assignment"], asked["student"])
        finally:
            engine.dispose()
        if verdict is None:
            raise LookupError(f"{asked['student']} was not graded yet: run `autograder grade {asked['assignment']}`")
        marks = {mark.exercise: mark for mark in verdict.marks}
        cells = {
            cell.metadata["nbgrader"]["grade_id"]: marks[cell.metadata["across"]["exercise"]]
            for cell in nb.cells
            if cell.metadata.get("nbgrader", {}).get("grade")
        }
        stubs = {meta["grade_id"]: cell.source for cell in nb.cells if (meta := cell.metadata.get("nbgrader"))}
        return filled(verdict, cells, stubs), resources


def replay() -> list[Any]:
    """The preprocessors that `nbgrader autograde` runs in OUT: see its nbgrader_config.py."""
    return [Recorded, SaveAutoGrades, AssignLatePenalties, CheckCellMetadata]
