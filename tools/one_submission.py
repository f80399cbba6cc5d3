"""Where the processor seconds of grading one submission go: the reference of each chapter, graded again and again.

uv run python tools/one_submission.py 03 07 --times 10

Of each process what it and its children used (Linux), by the servers that fork them; the recorder and the page apart. Beside
them what the submission's own code uses, its cells and what is called of it, in a warm process with no kernel and no box.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import bench
from across import fresh
from autograder.authoring import build
from autograder.engine import class_run
from autograder.gradebook.record import Recorder
from autograder.job import assemble, forkserver, grade
from autograder.model.course import Course, find
from autograder.report import outputs
from autograder.sandbox import cgroups
from autograder.submissions.intake import Submission

SERVERS = ("student", "checker", "driver")


def children() -> float:
    """Processor seconds of this process's children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def measure(course: Course, chapter: str, times: int) -> dict[str, list[float]]:
    """Part -> seconds, once for each time."""
    rubric = forkserver.make_rubric(course, chapter)
    class_run.try_reference(course, rubric, build.solution_source(course, chapter))
    servers, release = forkserver.servers(course, rubric), rubric.chapter
    found: dict[str, list[float]] = {}
    solution = build.solution_source(course, chapter)
    assembled = assemble.assemble(Submission("own", chapter, solution), release)
    cells = [cell.source for cell in assembled.cells if assemble.is_executed(cell)]
    for _ in range(min(times, 3)):
        found.setdefault("own code", []).append(
            fresh.run(bench.own_cpu, cells, course.check_file(chapter), timeout=600)
        )
    with tempfile.TemporaryDirectory() as folder, Recorder(Path(folder), release) as recorder:
        for seed in range(1, times + 1):
            submission = Submission(f"student-{seed}", chapter, solution)
            pids = {name: getattr(servers, name).process.pid for name in SERVERS}
            before = {name: bench.used(pid) for name, pid in pids.items()}
            ended, ours, started, boxed = children(), time.process_time(), time.perf_counter(), cgroups.used()
            verdict = grade.grade_job(grade.Job(submission, rubric, seed), course)
            took = {"wall": time.perf_counter() - started, "worker": time.process_time() - ours}
            took["boxes"] = children() - ended
            took |= {name: bench.used(pid) - before[name] for name, pid in pids.items()}
            # nobody waits for a cluster that ends with its box; but its control group has counted it
            whole = (cgroups.used() or 0.0) - (boxed or 0.0)
            took["left by the kernel"] = max(0.0, whole - sum(took[name] for name in SERVERS))
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


def main(
    only: Annotated[list[str] | None, typer.Argument(metavar="CHAPTER...", help="all by default")] = None,
    times: Annotated[int, typer.Option(min=2)] = 10,
) -> None:
    """Print a table: median, and the smallest."""
    course = find()
    names = list(map(course.full_name, only)) if only else course.chapters
    chapters = {name: measure(course, name, times) for name in names}
    made = Table(
        title=f"seconds for one submission, median (smallest) of {times}; processor's where not said otherwise"
    )
    for column in ("", *(name[:2] for name in chapters)):
        made.add_column(column, justify="left" if column == "" else "right")
    for part in next(iter(chapters.values())):
        cells = [f"{statistics.median(seen[part]):.3f} ({min(seen[part]):.3f})" for seen in chapters.values()]
        made.add_row(part, *cells)
    parts = (*SERVERS, "left by the kernel", "boxes", "worker", "record")
    sums = [[sum(each) for each in zip(*(seen[name] for name in parts), strict=True)] for seen in chapters.values()]
    over = [
        [each - statistics.median(seen["own code"]) for each in whole]
        for whole, seen in zip(sums, chapters.values(), strict=True)
    ]
    made.add_row("all but the page", *(f"{statistics.median(each):.3f} ({min(each):.3f})" for each in sums))
    made.add_row("over its own code", *(f"{statistics.median(each):.3f} ({min(each):.3f})" for each in over))
    Console(width=40 + 16 * len(chapters)).print(made)


if __name__ == "__main__":
    typer.run(main)
