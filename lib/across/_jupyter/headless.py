"""Running a chapter from top to bottom without JupyterLab, and saying which of its checks pass."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat

from across._jupyter import running
from across._language.catalogue import said


@dataclass(frozen=True)
class Check:
    """One graded cell of a chapter, after its run."""

    exercise: str
    points: float
    passed: bool | None  # None: graded by hand
    says: str  # the sentence of a check that did not pass


@dataclass(frozen=True)
class Report:
    """A chapter that was run."""

    chapter: str
    seconds: float
    checks: tuple[Check, ...]
    errors: tuple[str, ...]  # of cells that are no checks: these should not raise, answered or not

    @property
    def passed(self) -> bool:
        """Whether every check passes and no other cell raised."""
        return not self.errors and all(check.passed is not False for check in self.checks)


def run(path: Path, on_progress: Callable[[int, int], None] = lambda done, of: None) -> Report:
    """Run the notebook at `path` in its folder; the file stays as it is.

    `on_progress` is called with how many code cells are done, and of how many.
    A cell that takes longer than 120 s is interrupted; a kernel that dies ends the run.
    """
    notebook = nbformat.read(path, as_version=4)
    code = [number for number, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    done = itertools.count(1)
    started = time.monotonic()
    lost = running.run(notebook, code, path, on_end=lambda _: on_progress(next(done), len(code))) if code else None
    errors = [] if lost is None else [said("the kernel died at cell {0}; cells after that did not run", lost + 1)]
    seconds = time.monotonic() - started
    checks = []
    for number, cell in enumerate(notebook.cells, 1):
        metadata = cell.metadata.get("nbgrader", {})
        sentence = running.error(cell)
        if metadata.get("grade"):
            name = cell.metadata.get("across", {}).get("exercise", metadata["grade_id"])
            checks.append(Check(name, float(metadata["points"]), *_outcome(cell, sentence)))
        elif sentence:
            errors.append(said("cell {0}: {1}", number, sentence))
    return Report(path.stem, seconds, tuple(checks), tuple(errors))


def _outcome(cell: nbformat.NotebookNode, sentence: str) -> tuple[bool | None, str]:
    if cell.metadata["nbgrader"].get("solution"):
        return None, said("graded by hand")
    if cell.get("execution_count") is None:
        return False, said("did not run")
    return not sentence, sentence
