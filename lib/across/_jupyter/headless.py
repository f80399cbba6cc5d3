"""Running a chapter from top to bottom without JupyterLab, and saying which of its checks pass."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

ANSI = re.compile(r"\x1b\[[0-9;]*m")
CELL_SECONDS = 120


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
    count = sum(cell.cell_type == "code" for cell in notebook.cells)
    done = itertools.count(1)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        interrupt_on_timeout=True,
        allow_errors=True,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_executed=lambda cell, cell_index, **_: on_progress(next(done), count),
    )
    started = time.monotonic()
    errors = []
    try:
        client.execute(env=environment(path))
    except DeadKernelError:
        errors.append("the kernel died; cells after that did not run")
    except CellTimeoutError:
        errors.append(f"a cell did not end within {CELL_SECONDS} s, even when interrupted")
    seconds = time.monotonic() - started
    checks = []
    for number, cell in enumerate(notebook.cells, 1):
        metadata = cell.metadata.get("nbgrader", {})
        sentence = error(cell)
        if metadata.get("grade"):
            name = cell.metadata.get("across", {}).get("exercise", metadata["grade_id"])
            checks.append(Check(name, float(metadata["points"]), *_outcome(cell, sentence)))
        elif sentence:
            errors.append(f"cell {number}: {sentence}")
    return Report(path.stem, seconds, tuple(checks), tuple(errors))


def environment(path: Path) -> dict[str, str]:
    """The variables of a kernel that runs the notebook at `path` for its checks alone: nothing counts as measured by it."""
    return {**os.environ, "NBGRADER_VALIDATING": "1", "JPY_SESSION_NAME": str(path)}


def _outcome(cell: nbformat.NotebookNode, sentence: str) -> tuple[bool | None, str]:
    if cell.metadata["nbgrader"].get("solution"):
        return None, "graded by hand"
    if cell.get("execution_count") is None:
        return False, "did not run"
    return not sentence, sentence


def error(cell: nbformat.NotebookNode) -> str:
    """The sentence of the exception that a cell raised, or ""."""
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            lines = ANSI.sub("", output.evalue).strip().splitlines()
            return lines[0] if lines else output.ename
    return ""
