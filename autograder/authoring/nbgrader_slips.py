"""What keeps a notebook of an nbgrader course from being imported, each slip with its cell and the mend."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from autograder.model.test_cells import is_tests

SCHEMA = 3
GRADE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
AUTOTEST = re.compile(r"^\s*#.*\bAUTOTEST\b", re.MULTILINE)
REGIONS = {  # what a source may mark -> the marks as nbgrader has them, and the kind of cell that they belong in
    "solution": (("BEGIN SOLUTION", "END SOLUTION"), "an answer (Manually or Autograded answer)"),
    "hidden": (("BEGIN HIDDEN TESTS", "END HIDDEN TESTS"), "a graded cell (Autograder tests)"),
    "scheme": (("BEGIN MARK SCHEME", "END MARK SCHEME"), "a graded cell or a task"),
}


def language(notebook: Mapping[str, Any]) -> str:
    """The language that a notebook says it is in; `python` where it says nothing."""
    metadata = notebook.get("metadata", {})
    spec, info = metadata.get("kernelspec", {}), metadata.get("language_info", {})
    said = str(spec.get("language") or info.get("name") or spec.get("name") or "python").lower()
    return "python" if said.startswith(("python", "ipython")) else said


def too_new(cells: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Cells whose metadata is of a version of nbgrader's that we do not know."""
    for number, cell in enumerate(cells, 1):
        meta = cell["metadata"].get("nbgrader")
        if meta is None:
            continue
        version = meta.get("schema_version", 0) if isinstance(meta, dict) else meta
        if type(version) is not int or not 0 <= version <= SCHEMA:
            yield f"cell {number}: nbgrader's metadata of version {version!r}; versions up to {SCHEMA} are known"


def slips(notebook: NotebookNode, settings: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a notebook whose metadata is nbgrader's of version 3, a line each."""
    ids: Counter[str] = Counter()
    for number, cell in enumerate(notebook.cells, 1):
        meta = cell.metadata.get("nbgrader", {})
        where = f'cell "{meta["grade_id"]}"' if meta.get("grade_id") else f"cell {number}"
        counts = any(meta.get(key) for key in ("grade", "solution", "locked", "task"))
        if counts:
            yield from (f"{where}: {slip}" for slip in _of_metadata(cell, meta))
            ids[str(meta.get("grade_id", ""))] += 1
        yield from (f"{where}: {slip}" for slip in _of_regions(cell, meta, settings))
        if is_tests(cell, meta):
            yield from (f"{where}: {slip}" for slip in _of_tests(cell))
    yield from (
        f'cell "{grade_id}": {count} cells have this grade id; give each its own'
        for grade_id, count in ids.items()
        if count > 1 and grade_id
    )


def _of_metadata(cell: NotebookNode, meta: Mapping[str, Any]) -> Iterator[str]:
    grade_id, points = meta.get("grade_id"), meta.get("points")
    if not isinstance(grade_id, str) or not GRADE_ID.fullmatch(grade_id):
        yield f"its grade id is {grade_id!r}; give it one of at most 64 letters, digits, - and _"
    counted = isinstance(points, int | float) and not isinstance(points, bool) and 0 <= points < math.inf
    if (meta.get("grade") or meta.get("task")) and not counted:
        yield f"its points are {points!r}; say how many it is worth"
    if meta.get("task"):
        if cell.cell_type != "markdown":
            yield f"a task is a Markdown cell, this is {cell.cell_type}; change its type"
    elif cell.cell_type == "markdown" and bool(meta.get("grade")) != bool(meta.get("solution")):
        yield "a Markdown answer is graded by hand; make it a Manually graded answer, with points"
    elif cell.cell_type == "raw" and (meta.get("grade") or meta.get("solution")):
        yield "a raw cell can be neither answer nor test; change its type"


def _of_regions(cell: NotebookNode, meta: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    belongs = {
        "solution": bool(meta.get("solution")),
        "hidden": bool(meta.get("grade")),
        "scheme": bool(meta.get("grade") or meta.get("task") or meta.get("solution")),
    }
    for kind, (usual, place) in REGIONS.items():
        begin, end = settings.get(kind, usual)
        inside = found = False
        for line in cell.source.split("\n"):
            if begin in line:
                if inside:
                    yield f"`{begin}` within another; end the first one before it"
                inside = found = True
            elif end in line:
                inside = False
        if inside:
            yield f"`{begin}` without `{end}`; add it"
        if found and not belongs[kind]:
            yield f"`{begin}` in a cell that is not {place}; make it one"


def _of_tests(cell: NotebookNode) -> Iterator[str]:
    if AUTOTEST.search(cell.source):
        yield (
            "AUTOTEST is no test yet; run `nbgrader generate_assignment --source_with_tests`, and import with --source "
            "source_with_tests"
        )
        return
    try:
        compile(TransformerManager().transform_cell(cell.source), "<tests>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        yield f"it is no Python that can be run by itself: {said}{line}; mend it"
