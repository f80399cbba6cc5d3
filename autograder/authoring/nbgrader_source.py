"""From `solutions/NAME.ipynb`, a notebook of an nbgrader course, to what students open, by nbgrader's own preprocessors.

The source is the author's notebook as nbgrader knows it (schema 3), which its tools and JupyterLab go on editing; `importing`
wrote it. What the author's nbgrader_config.py sets of stubs and marks came along in its metadata.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from across._process import global_names
from autograder.authoring import released
from autograder.model.course import Course, CourseError
from autograder.model.test_cells import SETTINGS, is_tests

OURS = {"show", "across-skip"}  # tags that mean something here, and meant nothing where the notebook is from
NAMED = {  # what a source says of its course's settings -> nbgrader's preprocessor, and two of its options
    "solution": ("ClearSolutions", "begin_solution_delimeter", "end_solution_delimeter"),
    "hidden": ("ClearHiddenTests", "begin_test_delimeter", "end_test_delimeter"),
    "scheme": ("ClearMarkScheme", "begin_mark_scheme_delimeter", "end_mark_scheme_delimeter"),
}


def release(course: Course, name: str) -> NotebookNode:
    """Return an imported chapter as students get it. Raises CourseError."""
    source = read(course.source(name))
    cleared = clear(source, f"solutions/{name}.ipynb")
    answers = _answers(source)
    for cell in cleared.cells:
        _only_ours(cell, answers)
    settings = _settings(source)
    from_where = {"assignment": settings.get("assignment", name), "notebook": settings.get("notebook", name)}
    cleared.nbformat, cleared.nbformat_minor = 4, 5
    released.finish(course, name, cleared, source.metadata.get("across", {}), **from_where)
    return cleared


def solutions(course: Course, name: str) -> dict[str, str]:
    """Return the reference of every answer cell: grade id to source, without the marks of its solution."""
    source = read(course.source(name))
    return {
        cell.metadata.nbgrader.grade_id: _without(cell.source, _marks(source))
        for cell in source.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def solved_lines(course: Course, name: str) -> dict[str, frozenset[int]]:
    """The numbers of the lines of each reference, see `solutions`, that are its author's alone: its solution's regions."""
    source = read(course.source(name))
    begin, end = _marks(source)
    made = {}
    for cell in source.cells:
        if not cell.metadata.get("nbgrader", {}).get("solution"):
            continue
        found, number, inside = set(), 0, begin not in cell.source  # without a region all of it is cleared
        for line in cell.source.split("\n"):
            if begin in line or end in line:
                inside = begin in line
                continue
            number += 1
            found |= {number} if inside else set()
        made[cell.metadata.nbgrader.grade_id] = frozenset(found)
    return made


def read(path: Path) -> NotebookNode:
    """The source of an imported chapter. Raises CourseError."""
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except Exception as error:  # nbformat and its schema raise what they like
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise CourseError(f"solutions/{path.name}: cannot be read: {said[:300]}") from None
    assert isinstance(notebook, NotebookNode)
    return notebook


def clear(source: NotebookNode, where: str) -> NotebookNode:
    """A copy of an author's notebook without solutions, hidden tests and marking schemes, locked, with nbgrader's checksums.

    Raises CourseError, which begins with `where`, for what nbgrader refuses.
    """
    from nbgrader import preprocessors as of
    from nbgrader.nbgraderformat import MetadataValidator

    settings, validator = _settings(source), MetadataValidator()

    def regions(kind: str, **stubs: Any) -> Any:
        section, *options = NAMED[kind]
        return getattr(of, section)(**dict(zip(options, settings.get(kind, ()), strict=False)), **stubs)

    stubs: dict[str, Any] = {key: settings[key] for key in ("code_stub", "text_stub") if key in settings}
    if "code_stub" in stubs:
        stubs["code_stub"] = {"python": stubs["code_stub"]}
    clears = [regions("solution", **stubs), of.ClearOutput(), regions("hidden"), regions("scheme")]
    steps: list[Any] = [of.LockCells(), *clears, of.ComputeChecksums()]
    notebook, at = copy.deepcopy(source), where
    try:
        for number, cell in enumerate(notebook.cells, 1):
            at = f"{where}, {called(cell, number)}"
            validator.validate_cell(cell)
            for step in steps:
                step.preprocess_cell(cell, {"language": "python"}, number)
        at = where
        validator.validate_nb(notebook)
    except Exception as error:
        said = " ".join(getattr(error, "message", str(error)).split())[:300]
        raise CourseError(f"{at}: nbgrader refuses it: {said}; mend the notebook and import it again") from None
    return notebook


def called(cell: NotebookNode, number: int) -> str:
    """A cell, as its author finds it."""
    meta = cell.metadata.get("nbgrader", {})
    return f'cell "{meta["grade_id"]}"' if meta.get("grade_id") else f"cell {number}"


def _settings(source: NotebookNode) -> Mapping[str, Any]:
    return source.metadata.get(SETTINGS, {})


def _only_ours(cell: NotebookNode, answers: Mapping[str, list[str]]) -> None:
    """Leave of a cell's metadata what nbgrader needs, its tags, and what we make of it."""
    kept = {key: cell.metadata[key] for key in ("nbgrader", "deletable", "editable") if key in cell.metadata}
    if tags := [tag for tag in cell.metadata.get("tags", []) if tag not in OURS]:
        kept["tags"] = tags
    meta = kept.get("nbgrader", {})
    if meta and not any(meta.get(key) for key in ("grade", "solution", "locked", "task")):
        del kept["nbgrader"]
    elif is_tests(cell, meta):
        kept["tags"] = list(dict.fromkeys([*kept.get("tags", []), "raises-exception"]))
    if meta.get("grade") or meta.get("task"):
        kept["across"] = {"exercise": meta["grade_id"], "answers": answers.get(meta["grade_id"], [])}
    cell.metadata = nbformat.from_dict(kept)


def _answers(source: NotebookNode) -> dict[str, list[str]]:
    """The answer cells that each test cell looks at, by its grade id: those above it that bind a name it reads."""
    binds: dict[str, frozenset[str]] = {}
    found = {}
    for cell in source.cells:
        meta = cell.metadata.get("nbgrader", {})
        if is_tests(cell, meta):
            reads = global_names.uses(cell.source)
            found[meta["grade_id"]] = [answer for answer, bound in binds.items() if bound & reads]
        elif meta.get("solution") and cell.cell_type == "code":
            binds[meta["grade_id"]] = global_names.binds(_without(cell.source, _marks(source)))
        if meta.get("solution") and meta.get("grade"):
            found[meta["grade_id"]] = [meta["grade_id"]]
    return found


def _marks(source: NotebookNode) -> tuple[str, str]:
    """How a solution's region begins and ends."""
    begin, end = _settings(source).get("solution", ("BEGIN SOLUTION", "END SOLUTION"))
    return begin, end


def _without(source: str, marks: tuple[str, str]) -> str:
    return "\n".join(line for line in source.split("\n") if not any(mark in line for mark in marks))
