"""How long Validate lets a learner wait, by chapter: `learner.py` runs it.

uv run python tools/validating.py --chapters 03,05

Each chapter is validated solved: with nothing kept, again, and after each answer was changed (by a comment), one by one.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import nbformat
import typer
from rich.console import Console
from rich.table import Table

from across._jupyter.validation import BY_HAND, OPEN, PASSES, PENDING, PREPARED, TRIED, Standing, validate
from across._process import provisioner, warm
from autograder.authoring import build
from autograder.model.course import Course, find

LONG = 3.0  # seconds; what a check takes that is named


@dataclass(frozen=True)
class Waited:
    """One press of Validate, seconds."""

    until_known: dict[str, float]  # by exercise, of those that ran: when its sentence was there
    seconds: float
    checks: dict[str, float]  # what each of them took by itself

    @property
    def long_checks(self) -> list[str]:
        """The checks that take more than three seconds by themselves, as words."""
        return [f"{name} {seconds:.1f}" for name, seconds in self.checks.items() if seconds > LONG]


@dataclass(frozen=True)
class Chapter:
    """What was measured of one chapter, seconds."""

    name: str
    first: Waited
    again: float
    changes: dict[str, Waited]  # by the exercise whose answer was changed

    @property
    def longest(self) -> str:
        """The exercise after whose change Validate takes longest."""
        return max(self.changes, key=lambda name: self.changes[name].seconds)

    def row(self) -> list[str]:
        """Its line of the table."""
        own = {name: each.until_known[name] for name, each in self.changes.items()}
        slowest = max(own, key=lambda name: own[name])
        longest = self.changes[self.longest]
        rest = self.first.seconds - sum(self.first.checks.values())
        return [
            self.name[:2],
            f"{self.first.seconds:.1f}",
            f"{rest:.1f}",
            f"{self.again:.2f}",
            f"{statistics.median(each.seconds for each in self.changes.values()):.1f}",
            f"{longest.seconds:.1f} ({self.longest})",
            f"{statistics.median(own.values()):.1f}",
            f"{own[slowest]:.1f} ({slowest})",
            ", ".join(self.first.long_checks),
        ]


COLUMNS = (
    *("chapter", "first", "of it outside checks", "again", "a change, median", "the longest", "its own check, median"),
    *("the longest", "checks that take over 3 s"),
)


def measured(names: Sequence[str], tell: Callable[[str], None]) -> list[Chapter]:
    """Measure the chapters `names`; `tell` hears what is done."""
    course = find()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JUPYTER_DATA_DIR"] = f"{folder}/user"
        provisioner.turn_on()
        try:
            assert provisioner._server is not None
            warm.ForkServer.ready(provisioner._server)
            found = []
            for name in names:
                tell(f"{name}, load {os.getloadavg()[0]:.1f}")
                found.append(_chapter(course, name, Path(folder)))
            return found
        finally:
            provisioner.turn_off()


def _chapter(course: Course, name: str, folder: Path) -> Chapter:
    path = folder / name / f"{name}.ipynb"
    path.parent.mkdir()
    for place, content in course.beside(name):
        (path.parent / place).write_bytes(content)
    path.write_text(build.dumps(build.solved(course, name)), encoding="utf-8")
    first, again = _waited(path), _waited(path)
    notebook = nbformat.read(path, as_version=4)
    changes = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source += "\n# changed"
            nbformat.write(notebook, path)
            waited = _waited(path)
            exercise = cell.metadata.nbgrader.grade_id
            if exercise in waited.until_known:
                changes[exercise] = waited
    return Chapter(name, first, again.seconds, changes)


def _waited(path: Path) -> Waited:
    """Press Validate. Raises RuntimeError if not every check passes."""
    began, known = time.monotonic(), {}

    def note(exercises: tuple[Standing, ...]) -> None:
        for each in exercises:
            if each.again and each.check and each.state not in (PENDING, PREPARED, TRIED):
                known.setdefault(each.exercise, time.monotonic() - began)

    found = validate(path, on_progress=note)
    seconds = time.monotonic() - began
    if bad := [each.says for each in found.exercises if each.state not in (PASSES, BY_HAND, OPEN)]:
        raise RuntimeError(f"{path.stem}: {bad}")
    return Waited(
        known, seconds, {each.exercise: each.seconds for each in found.exercises if each.again and each.check}
    )


def _full_names(chosen: str) -> list[str]:
    course = find()
    if chosen in ("all", "none"):
        return list(course.chapters) if chosen == "all" else []
    return [course.full_name(each) for each in chosen.split(",")]


def main(
    chapters: Annotated[str, typer.Option(help="Whose Validate is timed: 03,05; all.")] = "all",
) -> None:
    """Time Validate, each chapter once."""
    console = Console(width=200)
    found = measured(_full_names(chapters), lambda line: console.print(line, highlight=False))
    made = Table(title=f"seconds that a learner waits for Validate of a solved chapter; {os.cpu_count()} cores")
    for column in COLUMNS:
        made.add_column(column)
    for each in found:
        made.add_row(*each.row())
    console.print(made)


if __name__ == "__main__":
    typer.run(main)
