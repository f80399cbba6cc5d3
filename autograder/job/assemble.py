"""Put a student's answers, and own cells that count, into the pristine notebook, and say which cells need to be executed.

Tags, metadata, kernelspec, locked cells, order and outputs are always the release's. Executing a notebook costs what
its cells cost, so two kinds are left out: visible checks, because the trusted checks ask instead, and cells that only
show something (tagged `show`), unless a cell that is executed uses a name that they bind.
"""

from __future__ import annotations

import copy
import io
import itertools
import tokenize
from collections.abc import Iterator
from typing import Any, cast

import nbformat
from nbformat import NotebookNode

from across._process import global_names
from autograder.model.course import Chapter, Exercise, students, text
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


def blank(submission: Submission, chapter: Chapter) -> set[str]:
    """The exercises that were left as released: of code only the tokens count, of prose all but the outer whitespace.

    An exercise that looks at several cells is blank when its own cell, the one that bears its name, is; if none does,
    when all are. An answer that is missing counts as left as released, one that could not be taken does not.
    """
    kinds = {
        grade_id: cell["cell_type"]
        for cell in chapter.release["cells"]
        if (grade_id := cell["metadata"].get("nbgrader", {}).get("grade_id"))
    }
    stubs = chapter.answers
    untouched = {
        grade_id
        for grade_id, stub in stubs.items()
        if grade_id not in submission.invalid
        and (grade_id not in submission.answers or _same(submission.answers[grade_id], stub, kinds[grade_id]))
    }
    found = {
        exercise.name for exercise in chapter.exercises if exercise.answer_ids and own_cells(exercise) <= untouched
    }
    if submission.nothing or (
        untouched == stubs.keys() and not submission.added
    ):  # nbgrader's tasks, and tests of nothing
        found |= {exercise.name for exercise in chapter.exercises if not exercise.answer_ids}
    return found


def own_cells(exercise: Exercise) -> set[str]:
    """The grade ids of the answer cells in which this exercise itself is answered."""
    return {exercise.name} & set(exercise.answer_ids) or set(exercise.answer_ids)


def kind_of(cell: dict[str, Any]) -> str:
    """What a code cell is for `executed`: `check`, `answer`, as one that a student added is, `show` or `plain`."""
    if students(cell):
        return "answer"
    if cell["metadata"].get("nbgrader", {}).get("grade"):
        return "check"
    return "show" if SHOW in cell["metadata"].get("tags", []) else "plain"


def _same(source: str, stub: str, kind: str) -> bool:
    if kind != "code" or source.strip() == stub.strip():
        return source.strip() == stub.strip()
    try:  # no further than to the first that differs: to cut 64 KiB of `'\\'\\'\\` into tokens takes 34 s
        return all(one == other for one, other in itertools.zip_longest(_tokens(source), _tokens(stub)))
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _tokens(source: str) -> Iterator[tuple[int, str]]:
    """What Python sees of a source, whatever its comments, blank lines and indents. Raises what `tokenize` does."""
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(source.strip() + "\n").readline):
        if token.type not in ignored:
            yield token.type, "" if token.type in (tokenize.INDENT, tokenize.NEWLINE) else token.string
