"""Where the processor seconds of grading one submission go: the reference of each chapter, graded again and again.

uv run python benchmarks/one_submission.py --times 10

Of each process what it and its children used (Linux), by the servers that fork them; the recorder and the page apart.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from autograder.authoring import build
from autograder.engine import class_run
from autograder.gradebook.record import Recorder
from autograder.job import forkserver, grade
from autograder.model.course import Course, find
from autograder.report import outputs
from autograder.submissions.intake import Submission

TICK = os.sysconf("SC_CLK_TCK")
SERVERS = ("student", "checker", "driver")


def used(pid: int) -> float:
    """Processor seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


def measure(course: Course, chapter: str, times: int) -> dict[str, list[float]]:
    """Part -> seconds, once for each time."""
    rubric = forkserver.make_rubric(course, chapter)
    class_run.try_reference(course, rubric)
    servers, release = forkserver.servers(course, rubric), rubric.chapter
    found: dict[str, list[float]] = {}
    solution = build.solution_source(course, chapter)
    with tempfile.TemporaryDirectory() as folder, Recorder(Path(folder), release) as recorder:
        for seed in range(1, times + 1):
            submission = Submission(f"student-{seed}", chapter, solution)
            pids = {name: getattr(servers, name).process.pid for name in SERVERS}
            before, ours, started = (
                {name: used(pid) for name, pid in pids.items()},
                time.process_time(),
                time.perf_counter(),
            )
            verdict = grade.grade_job(grade.Job(submission, rubric, seed), course)
            took = {"wall": time.perf_counter() - started, "worker": time.process_time() - ours}
            took |= {name: used(pid) - before[name] for name, pid in pids.items()}
            took |= {f"{step} (wall)": seconds for step, seconds in verdict.evidence.seconds.items()}
            ours = time.process_time()
            recorder.write(verdict)
            took["record"] = time.process_time() - ours
            for name, seconds in took.items():
                found.setdefault(name, []).append(seconds)
        started = time.process_time()
        outputs.write(Path(folder), release, faults={}, workers=1)
        found["page, class table"] = [(time.process_time() - started) / times]
    class_run.close()
    return found


def main(times: Annotated[int, typer.Option(min=2)] = 10) -> None:
    """Print a table: median, and the smallest."""
    course = find()
    chapters = {name: measure(course, name, times) for name in course.chapters}
    made = Table(
        title=f"seconds for one submission, median (smallest) of {times}; processor's where not said otherwise"
    )
    for column in ("", *(name[:2] for name in chapters)):
        made.add_column(column, justify="left" if column == "" else "right")
    for part in next(iter(chapters.values())):
        cells = [f"{statistics.median(seen[part]):.3f} ({min(seen[part]):.3f})" for seen in chapters.values()]
        made.add_row(part, *cells)
    sums = [
        [sum(each) for each in zip(*(seen[name] for name in (*SERVERS, "worker", "record")), strict=True)]
        for seen in chapters.values()
    ]
    made.add_row("all but the page", *(f"{statistics.median(each):.3f} ({min(each):.3f})" for each in sums))
    Console(width=110).print(made)


if __name__ == "__main__":
    typer.run(main)
