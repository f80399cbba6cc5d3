"""The verb that tells whether this machine grades: one right and one blank submission through the whole chain."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.application import INSTRUCTORS, app, end, opened
from autograder.commands.terminal import INFRASTRUCTURE, say

DEADLINE = 600  # seconds
EXPECTED = {"reference": ("passed", "manual"), "blank": ("blank", "manual")}  # student -> verdicts


@app.command(rich_help_panel=INSTRUCTORS)
def doctor(
    context: typer.Context,
    chapter: Annotated[str, typer.Argument(help="by default the course's first")] = "",
) -> None:
    """Grade a chapter's own answers and its blank: box, kernel, checks, gradebook and pages, into a folder that goes again.

    Exit code 1: this machine does not grade as it should; what `grade` said is shown.
    """
    from autograder.authoring import build

    course = opened(context)
    name = course.full_name(chapter) if chapter else course.chapters[0]
    with tempfile.TemporaryDirectory(prefix="across-doctor-") as folder:
        submitted, out = Path(folder, "submitted"), Path(folder, "graded")
        for student in EXPECTED:
            (submitted / student / name).mkdir(parents=True)
        (submitted / "reference" / name / f"{name}.ipynb").write_text(build.dumps(build.solved(course, name)), "utf-8")
        shutil.copy(course.notebook(name), submitted / "blank" / name)
        command = [sys.executable, "-m", "autograder", "--course", str(course.root), "grade", name]
        command += ["--submissions", str(submitted), "--out", str(out)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            end(INFRASTRUCTURE, f"{name} was not graded in {DEADLINE} s; `across doctor` says what this machine has")
        wrong = [f"grade ended with exit code {ran.returncode}"] if ran.returncode else _wrong(out)
        pages = len([*(out / "feedback").rglob("*.html")])
    if wrong:
        say(ran.stdout + ran.stderr)
        end(INFRASTRUCTURE, f"this machine does not grade {name} as it should: {'; '.join(wrong)}")
    say(f"{name}: its own answers and its blank are graded here as they should be; {pages} pages")


def _wrong(out: Path) -> list[str]:
    """The verdicts that are not what they must be."""
    with (out / "marks.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    odd = [row for row in rows if row["verdict"] not in EXPECTED[row["student"]]]
    none = [f"no mark of {student}" for student in EXPECTED if student not in {row["student"] for row in rows}]
    return none + [f"{row['student']}, {row['exercise']}: {row['verdict']} ({row['message']})" for row in odd]
