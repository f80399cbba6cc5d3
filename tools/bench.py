"""How long a class takes: the whole command as an instructor types it, from a cold start.

uv run python tools/bench.py --students 24 --repeats 2

With sandbox, trusted checks, gradebook, feedback and report. The class is tools/demo.py's, again and again and each signed,
without the students who hand in no file or a corrupt one, are endless, eat memory, end their kernel or forge its replies.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import demo
from autograder.model.course import Course, find

ODD = frozenset("absent corrupt double endless hog crash oscar".split())
DEADLINE = 3600.0  # seconds for one command
SAMPLE = 1.0  # seconds between two looks at the memory


@dataclass
class Took:
    """What grading the class by so many workers took, each time."""

    workers: int
    walls: list[float] = field(default_factory=list)  # seconds
    cpus: list[float] = field(default_factory=list)  # seconds, of all processes
    peaks: list[float] = field(default_factory=list)  # bytes (PSS) of all processes together, looked at every second


def write_class(course: Course, folder: Path, count: int) -> None:
    """Write a class of `count`: the demo's students, evenly and again and again, signed."""
    kinds = [student for student in demo.students(course) if student.name not in ODD]
    chapter = course.chapter(demo.chapter_of(course))
    for number in range(count):
        student = kinds[(number * len(kinds) // min(count, len(kinds))) % len(kinds)]
        made = demo.notebook_bytes(student, chapter)
        assert made is not None, f"{student.name} hands nothing in"
        name = f"{student.name}-{number:04}"
        file = folder / name / chapter.name / f"{chapter.name}.ipynb"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(demo.signed(json.loads(made), name), indent=1), encoding="utf-8")


def _time_once(took: Took, course: Course, submissions: Path) -> None:
    command = [sys.executable, "-m", "autograder", "--course", str(course.root), "grade", demo.chapter_of(course)]
    command += ["--submissions", str(submissions), "--workers", str(took.workers)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as out, memory() as peak:
        subprocess.run([*command, "--out", f"{out}/graded"], check=True, capture_output=True, timeout=DEADLINE)
        took.walls.append(time.perf_counter() - started)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took.cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    took.peaks.append(max(peak))


@contextmanager
def memory() -> Iterator[list[float]]:
    """Look at the memory of all that we have started, every `SAMPLE` seconds; yields the list of what was seen."""
    import psutil

    seen, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(SAMPLE):
            total = 0.0
            for child in psutil.Process().children(recursive=True):
                try:
                    rollup = Path(f"/proc/{child.pid}/smaps_rollup").read_text()
                    total += 1024 * int(rollup.split("\nPss:")[1].split()[0])
                except (OSError, IndexError):
                    continue  # it has just ended
            seen.append(total)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def main(
    students: Annotated[int, typer.Option(help="of the demo's class, again and again, each signed", min=1)] = 24,
    repeats: Annotated[int, typer.Option(help="how often one and two workers are timed, in turns", min=1)] = 2,
) -> None:
    """Print a table: medians, with the smallest and the largest."""
    course, console = find(), Console(width=120)
    all_ways = [Took(workers) for workers in (1, 2)]
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        write_class(course, Path(place), students)
        for repeat in range(repeats):  # in turns, forwards and backwards: what else the machine does hits all alike
            for took in all_ways if repeat % 2 == 0 else all_ways[::-1]:
                _time_once(took, course, Path(place))
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    made = Table(title=f"{students} submissions of {demo.chapter_of(course)}; {where}; {repeats} repeats")
    for column in ("", "wall s", "(min-max)", "wall s each", "CPU s each", "peak MB", "an hour"):
        made.add_column(column, justify="left" if column == "" else "right")
    for took in all_ways:
        wall = statistics.median(took.walls)
        made.add_row(
            f"{took.workers} workers",
            f"{wall:.1f}",
            f"({min(took.walls):.1f}-{max(took.walls):.1f})",
            f"{wall / students:.2f}",
            f"{statistics.median(took.cpus) / students:.2f}",
            f"{max(took.peaks) / 1e6:,.0f}",
            f"{3600 * students / wall:,.0f}",
        )
    console.print(made)


if __name__ == "__main__":
    typer.run(main)
