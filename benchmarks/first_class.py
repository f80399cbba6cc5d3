"""What a chapter's first class on a machine costs over its later ones: how the listed wrong answers behave is found then.

uv run python benchmarks/first_class.py 03 05

One submission, the reference, graded by the command twice: with no cache, and with what the first time left.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import nbformat
import typer
from rich.console import Console
from rich.table import Table

from autograder.authoring import build
from autograder.model.course import Course, find
from autograder.probe import listed

AT_MOST = 1800  # seconds for one class


def graded(chapter: str, folder: Path, out: Path, cache: Path) -> tuple[float, float]:
    """Wall and processor seconds of the whole command."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "autograder", "grade", chapter, "--submissions", str(folder), "--out", str(out)]
    environment = {**os.environ, "ACROSS_CACHE": str(cache)}
    subprocess.run(command, env=environment, check=True, timeout=AT_MOST, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, used


def measured(course: Course, chapter: str) -> list[str]:
    """A row of the table."""
    wrong = sum(not each.correct for each in listed.variants(course.listed_file(chapter)))
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place, "in"), Path(place, "cache")
        notebook = folder / "ada" / chapter / f"{chapter}.ipynb"
        notebook.parent.mkdir(parents=True)
        nbformat.write(build.solved(course, chapter), notebook)
        first, later = (graded(chapter, folder, Path(place, f"out{i}"), cache) for i in range(2))
    more = [a - b for a, b in zip(first, later, strict=True)]
    cells = [f"{first[0]:.1f}", f"{later[0]:.1f}", f"{more[0]:.1f}", f"{more[1]:.1f}"]
    return [chapter[:2], str(wrong), *cells, f"{more[1] / wrong:.2f}" if wrong else ""]


def main(chapters: Annotated[list[str] | None, typer.Argument(help="all by default")] = None) -> None:
    """Print a table."""
    course = find()
    made = Table(title=f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for column in ("", "listed", "first, s", "later, s", "more, s", "more, CPU s", "each, CPU s"):
        made.add_column(column, justify="right")
    for chapter in chapters or course.chapters:
        made.add_row(*measured(course, course.full_name(chapter)))
    Console(width=100).print(made)


if __name__ == "__main__":
    typer.run(main)
