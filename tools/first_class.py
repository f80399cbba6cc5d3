"""What a first class on a machine costs over later ones: how listed wrong answers behave is found then, after its marks.

uv run python tools/first_class.py 03 05

A class of right, wrong and blank submissions, graded by the command twice: with no cache, and with what the first time left.
"""

from __future__ import annotations

import json
import os
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


def handed_in(course: Course, chapter: str, folder: Path, students: int) -> None:
    """Write a class: one blank, one right, all others with a listed wrong answer, from all exercises alike."""
    release = nbformat.read(course.notebook(chapter), as_version=4)
    reference = build.solution_source(course, chapter)
    wrong = [each for each in listed.variants(course.listed_file(chapter)) if not each.correct]
    for number in range(students):
        notebook = release if number == 0 else build.solved(course, chapter)
        if number > 1:
            each = wrong[(number - 2) * len(wrong) // (students - 2)]
            for cell in notebook.cells:
                if cell.metadata.get("nbgrader", {}).get("grade_id") == each.answer:
                    cell.source = each.written_over(reference[each.answer])
        path = folder / f"student{number:03}" / chapter / f"{chapter}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)


def graded(chapter: str, folder: Path, out: Path, cache: Path) -> tuple[float, float, int]:
    """Wall seconds of the command to the last mark that it records, and to its end; how many listed answers it graded."""
    started, began = time.time(), time.perf_counter()
    command = [sys.executable, "-m", "autograder", "grade", chapter, "--submissions", str(folder), "--out", str(out)]
    environment = {**os.environ, "ACROSS_CACHE": str(cache)}
    subprocess.run(command, env=environment, check=True, timeout=AT_MOST, stdout=subprocess.DEVNULL)
    whole = time.perf_counter() - began
    recorded = max(path.stat().st_mtime for path in (out / "autograded").glob("*/*/*.ipynb"))  # written with the marks
    lines = [json.loads(line) for line in (out / "grading.log").read_text().splitlines()]
    looked_at = {line["student"] for line in lines if line.get("student", "").startswith("(")} - {"(reference)"}
    return recorded - started, whole, len(looked_at)


def measured(course: Course, chapter: str, students: int) -> list[str]:
    """A row of the table."""
    wrong = sum(not each.correct for each in listed.variants(course.listed_file(chapter)))
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place, "in"), Path(place, "cache")
        handed_in(course, chapter, folder, students)
        first, later = (graded(chapter, folder, Path(place, f"out{i}"), cache) for i in range(2))
    cells = [f"{each:.1f}" for each in (first[0], later[0], first[1], later[1])]
    return [chapter[:2], str(wrong), str(first[2]), *cells]


def main(
    chapters: Annotated[list[str] | None, typer.Argument(help="all by default")] = None,
    students: Annotated[int, typer.Option(min=3)] = 12,
) -> None:
    """Print a table."""
    course = find()
    made = Table(title=f"{students} students, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for column in ("", "listed", "looked at", "first: to marks, s", "later", "first: to the end, s", "later"):
        made.add_column(column, justify="right")
    for chapter in chapters or course.chapters:
        made.add_row(*measured(course, course.full_name(chapter), students))
    Console(width=100).print(made)


if __name__ == "__main__":
    typer.run(main)
