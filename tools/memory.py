"""What the processes of a grader hold in memory: the reference of each chapter, handed in by many, by 1, 2 and 16 workers.

uv run python tools/memory.py 03 09 13 --workers 16

PSS, which counts a page that several processes share once in all: the most of all of them at a moment, looked at as often as
that takes. Beside it the warm servers when nothing is graded, and the worker itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console
from rich.table import Table

from autograder.authoring import build
from autograder.engine import class_run
from autograder.job import forkserver, grade
from autograder.model.course import Course, find
from autograder.submissions.intake import Submission

MB = 1e6
SERVERS = ("student", "checker", "driver")


def pss(pid: int) -> float:
    """Proportional set size of one process, MB; 0 once it has ended. Linux."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return 1024 * int(rollup.split("\nPss:")[1].split()[0]) / MB
    except (OSError, IndexError):
        return 0.0


@contextmanager
def watched() -> Iterator[list[tuple[float, int]]]:
    """Yields the list of what is seen: MB of this process with all that it has started, and how many these are."""
    seen, over = [], threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            pids = [os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))]
            seen.append((sum(map(pss, pids)), len(pids)))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def measure(course: Course, chapter: str, workers: list[int], each: int) -> dict[str, float]:
    """What is seen -> MB, or how many."""
    rubric = forkserver.make_rubric(course, chapter)
    class_run.try_reference(course, rubric, build.solution_source(course, chapter))
    servers, solution = forkserver.servers(course, rubric), build.solution_source(course, chapter)
    found = {"servers, idle": sum(pss(getattr(servers, name).process.pid) for name in SERVERS)}
    found["worker, idle"] = pss(os.getpid())
    for count in workers:
        jobs = [
            grade.Job(Submission(f"student-{seed}", chapter, solution), rubric, seed)
            for seed in range(1, each * count + 1)
        ]
        started = time.perf_counter()
        with watched() as seen, ThreadPoolExecutor(count) as pool:
            marks = [verdict.points for verdict in pool.map(lambda job: grade.grade_job(job, course), jobs)]
        found[f"{count}: most"], processes = max(seen)
        found[f"{count}: processes then"] = processes
        found[f"{count}: looks"] = len(seen)
        found[f"{count}: seconds"] = time.perf_counter() - started
        found[f"{count}: without full marks"] = sum(points < max(marks) for points in marks)
    class_run.close()
    return found


def main(
    only: Annotated[list[str] | None, typer.Argument(metavar="CHAPTER...", help="all by default")] = None,
    workers: Annotated[list[int] | None, typer.Option(help="1, 2 and 16 by default")] = None,
    each: Annotated[int, typer.Option(help="submissions a worker")] = 3,
) -> None:
    """Print a table: MB of PSS, and how many processes."""
    course = find()
    names = list(map(course.full_name, only)) if only else course.chapters
    chapters = {name: measure(course, name, workers or [1, 2, 16], each) for name in names}
    made = Table(title="MB (PSS) of all processes of a grader")
    for column in ("", *(name[:2] for name in chapters)):
        made.add_column(column, justify="left" if column == "" else "right")
    for part in next(iter(chapters.values())):
        made.add_row(part, *(f"{seen[part]:,.0f}" for seen in chapters.values()))
    Console(width=32 + 9 * len(chapters)).print(made)


if __name__ == "__main__":
    typer.run(main)
