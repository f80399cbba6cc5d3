"""Running a chapter from top to bottom without JupyterLab, and recording how its exercises stand."""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from rich.console import Group
from rich.table import Table
from rich.text import Text

from across._gpu import building
from across._jupyter import running, validation
from across._language.catalogue import marked, said
from across._process import recorded
from across._process.recorded import BY_HAND, NOT_YET, OPEN, PASSES, Standing

WORDS = {
    PASSES: marked("passes"),
    NOT_YET: marked("does not pass"),
    OPEN: marked("not attempted"),
    BY_HAND: marked("answered"),
}  # of a state
STYLES = {PASSES: "green", NOT_YET: "red"}
GPUS = re.compile(r"\bdevices\.gpus(_or_cpus)?\(")  # in a notebook


@dataclass(frozen=True)
class Report:
    """A chapter that was run."""

    chapter: str
    seconds: float
    exercises: tuple[Standing, ...]
    errors: tuple[str, ...]  # of cells that are no checks: these should not raise, answered or not

    @property
    def checks(self) -> tuple[Standing, ...]:
        """Those that have a visible check; a person reads the others."""
        return tuple(each for each in self.exercises if each.check)

    @property
    def passing(self) -> tuple[Standing, ...]:
        """Those whose visible check passes."""
        return tuple(each for each in self.checks if each.state == PASSES)

    @property
    def passed(self) -> bool:
        """Whether every check passes and no other cell raised."""
        return not self.errors and self.passing == self.checks


def build_ahead(notebook: Path) -> None:
    """Build the simulated GPU if a notebook asks for GPUs: no cell's time is spent on it. A cell says why there is none."""
    if GPUS.search(notebook.read_text(encoding="utf-8")) and not Path("/dev/nvidia0").exists():
        if building.kept() is None and not building.problem():
            print(said("Building the simulated GPU, once, about 20 s ..."), file=sys.stderr)
        with contextlib.suppress(building.NoGpu):
            building.build()


def run(path: Path, on_progress: Callable[[int, int], None] = lambda done, of: None) -> Report:
    """Run the notebook at `path` in its folder, and record how its exercises stand; the file stays as it is.

    `on_progress` is called with how many code cells are done, and of how many.
    A cell that takes longer than 120 s is interrupted; a kernel that dies ends the run.
    """
    notebook = nbformat.read(path, as_version=4)
    before = recorded.read(path)
    code = [number for number, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    done = itertools.count(1)
    started = time.monotonic()
    lost = running.run(notebook, code, path, on_end=lambda _: on_progress(next(done), len(code))) if code else None
    errors = [] if lost is None else [said("the kernel died at cell {0}; cells after that did not run", lost + 1)]
    seconds = time.monotonic() - started
    found = validation.after_a_run(notebook, lost)
    recorded.write(path, found, before)
    for number, cell in enumerate(notebook.cells, 1):
        if not validation.graded(cell) and (sentence := running.error(cell)):
            errors.append(said("cell {0}: {1}", number, sentence))
    return Report(path.stem, seconds, tuple(found), tuple(errors))


def rendered(report: Report) -> Group:
    """What a run says, as a table with its total."""
    heads = said("exercise"), said("points"), said("check"), said("what it says")
    table = Table(*heads, title=said("{0}: {1:.1f} s", report.chapter, report.seconds))
    for each in report.exercises:
        state = Text(said(WORDS[each.state]), STYLES.get(each.state, ""))
        table.add_row(each.exercise, f"{each.points:g}", state, Text(each.says))  # a student's words are no markup
    return Group(table, Text(total(report)))


def total(report: Report) -> str:
    """How many checks pass, and for how many of the points; what a person gives is none of them."""
    here, checked = sum(each.points for each in report.passing), sum(each.points for each in report.checks)
    other = sum(each.points for each in report.exercises) - checked
    line = said(
        "{0} of {1} checks pass, for {2:g} of {3:g} points.", len(report.passing), len(report.checks), here, checked
    )
    return line + (said(" A person gives the other {0:g}.", other) if other else "")
