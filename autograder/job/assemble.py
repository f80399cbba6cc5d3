"""Put a student's answers, and own cells that count, into the pristine notebook, and say which cells need to be executed.

Tags, metadata, kernelspec, locked cells, order and outputs are always the release's. Executing a notebook costs what
its cells cost, so two kinds are left out: visible checks, because the trusted checks ask instead, and cells that only
show something (tagged `show`), unless a cell that is executed uses a name that they bind.
"""

from __future__ import annotations

import copy
from typing import Any, cast

import nbformat
from nbformat import NotebookNode

from across._process import global_names
from autograder.model.course import Chapter, students, text
from autograder.submissions import added_cells
from autograder.submissions.intake import Submission

SHOW = "show"
SKIP = "across-skip"  # the tag that the executing client passes over


def assemble(submission: Submission, chapter: Chapter) -> NotebookNode:
    """Return the release with the student's sources in its answer cells, and own cells where they stand, without outputs.

    Code cells that need not be executed carry the tag `across-skip`.
    """
    cells = added_cells.placed(chapter, added_cells.as_cells(submission.added))
    notebook = copy.deepcopy({**chapter.release, "cells": cells})
    code = []
    for cell in notebook["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        cell["source"] = text(cell)
        if meta.get("solution"):
            cell["source"] = submission.answers.get(meta["grade_id"], cell["source"])
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
            code.append(cell)
    needed = executed([kind_of(cell) for cell in code], [cell["source"] for cell in code])
    for cell, wanted in zip(code, needed, strict=True):
        if not wanted:
            cell["metadata"]["tags"] = [*cell["metadata"].get("tags", []), SKIP]
    return cast(NotebookNode, nbformat.from_dict(notebook))


def is_executed(cell: NotebookNode) -> bool:
    """Whether a cell of an assembled notebook is executed."""
    return cell.cell_type == "code" and SKIP not in cell.metadata.get("tags", []) and bool(cell.source.strip())


def executed(kinds: list[str], sources: list[str]) -> list[bool]:
    """Whether each code cell is executed: `check` never, `plain` and `answer` always, `show` if one needs its names."""
    wanted = [kind in ("plain", "answer") for kind in kinds]
    binds = [
        global_names.binds(source) if kind == "show" else frozenset()
        for kind, source in zip(kinds, sources, strict=True)
    ]
    fresh = [i for i, want in enumerate(wanted) if want]
    while fresh:
        uses = frozenset[str]().union(*(global_names.needs(sources[i], kinds[i] == "answer") for i in fresh))
        fresh = [i for i, bound in enumerate(binds) if not wanted[i] and bound & uses]
        for i in fresh:
            wanted[i] = True
    return wanted


def kind_of(cell: dict[str, Any]) -> str:
    """What a code cell is for `executed`: `check`, `answer`, as one that a student added is, `show` or `plain`."""
    if students(cell):
        return "answer"
    if cell["metadata"].get("nbgrader", {}).get("grade"):
        return "check"
    return "show" if SHOW in cell["metadata"].get("tags", []) else "plain"
