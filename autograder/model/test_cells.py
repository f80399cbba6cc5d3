"""The test cells of an imported nbgrader notebook, with their hidden tests: on the trusted side, from the chapter's source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from across._process import global_names
from autograder.model.course import CourseError, text

SETTINGS = "nbgrader_settings"  # in the metadata of a source: what its course's nbgrader_config.py set differently
HIDDEN = ("BEGIN HIDDEN TESTS", "END HIDDEN TESTS")  # found anywhere in a line, as nbgrader does


@dataclass(frozen=True)
class TestCell:
    """A cell of autograder tests, as its author wrote it."""

    __test__ = False  # no test of pytest's

    grade_id: str
    source: str = field(repr=False)  # with its hidden tests: no student's page shows it
    points: float
    hidden: frozenset[int]  # the numbers of its hidden lines, from 1

    @cached_property
    def uses(self) -> tuple[str, ...]:
        """The global names that it reads."""
        return tuple(sorted(global_names.uses(self.source)))

    @cached_property
    def binds(self) -> tuple[str, ...]:
        """The global names that it binds."""
        return tuple(sorted(global_names.binds(self.source)))

    def shown(self, line: int) -> str:
        """The line of that number, where students see it too; else empty."""
        lines = self.source.split("\n")
        return lines[line - 1].strip() if 0 < line <= len(lines) and line not in self.hidden else ""


def read(path: Path) -> tuple[TestCell, ...]:
    """The test cells of an imported notebook, in their order. Raises CourseError."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        marks = notebook["metadata"].get(SETTINGS, {}).get("hidden", HIDDEN)
        cells = [(cell, cell["metadata"].get("nbgrader", {})) for cell in notebook["cells"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CourseError(f"solutions/{path.name}: cannot be read ({error}); import it again") from None
    return tuple(
        TestCell(meta["grade_id"], text(cell), float(meta["points"]), hidden_lines(text(cell), marks))
        for cell, meta in cells
        if is_tests(cell, meta)
    )


def is_tests(cell: Mapping[str, Any], meta: Mapping[str, Any]) -> bool:
    """Whether a cell holds autograder tests, by its metadata of nbgrader."""
    return cell["cell_type"] == "code" and bool(meta.get("grade")) and not (meta.get("solution") or meta.get("task"))


def hidden_lines(source: str, marks: tuple[str, str]) -> frozenset[int]:
    """The numbers of the lines of hidden tests, their marks included."""
    found, inside = set(), False
    for number, line in enumerate(source.split("\n"), 1):
        inside = inside or marks[0] in line
        if inside:
            found.add(number)
        if marks[1] in line:
            inside = False
    return frozenset(found)
