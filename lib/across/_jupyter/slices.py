"""Which cells of a notebook each of its checks needs: those before it on which it depends, told by the names in them.

A cell tagged `show` binds nothing that is used later, and a check needs no other exercise's answer but by its name. What no
name tells, a setting for one, is in a cell without a tag: each of these before a check is needed, unless it only defines. What
the student added counts by its names alone, as it does when marks are given.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from across._process import global_names
from across._process.needed_cells import Cells, has_given_id
from across._process.recorded import is_check


@dataclass(frozen=True)
class Slice:
    """One check of a notebook, and what has to run before it."""

    exercise: str
    cell: int  # which of the notebook's cells it is
    before: tuple[int, ...]  # cells, in order
    after: tuple[str, ...]  # exercises that have to pass first: `attempt(..., after=)`

    def digest(self, sources: Mapping[int, str], here: Sequence[str], passed: Iterable[str]) -> str:
        """Of all that decides what the check says: sources by cell, what is installed `here`, which others have passed."""
        seen = [*(sources[cell] for cell in self.before), sources[self.cell]]
        ready = [name in passed for name in self.after]
        return hashlib.sha256(json.dumps([seen, list(here), ready]).encode()).hexdigest()


def slices(cells: Sequence[Mapping[str, Any]], everything: bool = False) -> list[Slice]:
    """Every check of a notebook (its cells as nbformat has them, sources as text), in order.

    `everything`: the student's own cells are needed like ours, as nbgrader has it, and not by their names alone.
    """
    code = {number: str(cell["source"]) for number, cell in enumerate(cells) if cell["cell_type"] == "code"}
    own = set() if everything else added(cells, code)
    always = {n for n in code.keys() - own if _always(cells[n]["metadata"]) and not global_names.only_defines(code[n])}
    answered = {n for n in code if cells[n]["metadata"].get("nbgrader", {}).get("solution")}
    among = Cells(code, closed=answered | own)
    found = []
    for number, source in code.items():
        metadata = cells[number]["metadata"]
        if is_check(metadata):
            names = metadata.get("across", {}).get("exercise") or metadata["nbgrader"]["grade_id"]
            answers = metadata.get("across", {}).get("answers", [])
            its = {each for each in answered if cells[each]["metadata"]["nbgrader"].get("grade_id") in answers}
            wanted = [(name, number) for name in global_names.needs(source, closed=True)]
            taken = {each for each in always | its if each < number}
            before = sorted(among.needed(number, taken, wanted).cells)
            found.append(Slice(names, number, tuple(before), waits_for(source)))
    return found


def left_out(cells: Sequence[Mapping[str, Any]], found: Iterable[Slice]) -> list[int]:
    """The student's own code cells that none of the `found` checks needs: they are not executed where marks are given."""
    code = {number: str(cell["source"]) for number, cell in enumerate(cells) if cell["cell_type"] == "code"}
    needed = {number for each in found for number in each.before}
    return sorted(number for number in added(cells, code) - needed if code[number].strip())


def added(cells: Sequence[Mapping[str, Any]], code: Mapping[int, str]) -> set[int]:
    """The code cells that a student added or changed, told by the ids of the others; none where no id is left of a release."""
    graded = [cell for cell in cells if "grade_id" in cell["metadata"].get("nbgrader", {})]
    if any(cell.get("id") != cell["metadata"]["nbgrader"]["grade_id"] for cell in graded):
        return set()
    return {
        n for n in code if "grade_id" not in cells[n]["metadata"].get("nbgrader", {}) and not has_given_id(cells[n])
    }


def _always(metadata: Mapping[str, Any]) -> bool:
    """Whether a cell is neither answer nor check, and does not only show something."""
    nbgrader = metadata.get("nbgrader", {})
    own = bool(nbgrader.get("grade") or nbgrader.get("solution"))
    return not own and "show" not in metadata.get("tags", [])


@lru_cache(maxsize=2048)
def waits_for(source: str) -> tuple[str, ...]:
    """The exercises that a check names in `attempt(..., after=)`."""
    try:
        tree = ast.parse(source, global_names.CELL)
    except global_names.UNREADABLE:
        return ()
    values = (
        keyword.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "attempt"
        for keyword in call.keywords
        if keyword.arg == "after"
    )
    return tuple(
        str(each.value)
        for value in values
        for each in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])
        if isinstance(each, ast.Constant)
    )
