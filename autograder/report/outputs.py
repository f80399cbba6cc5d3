"""What is written of a graded class beside the gradebook: marks.csv, a page for each student, a page for the instructor."""

from __future__ import annotations

import csv
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from across._process import warm
from autograder.gradebook import record
from autograder.gradebook.record import Row
from autograder.job.forkserver import InfrastructureError
from autograder.model import harmless
from autograder.model.course import Chapter
from autograder.model.verdict import Fault, Result
from autograder.report import class_page, feedback
from autograder.store import files

TRIES = 3  # at the feedback, when its processes are killed


def write(
    out: Path,
    chapter: Chapter,
    *,
    faults: dict[str, str] | None = None,
    workers: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """Write OUT/marks.csv, OUT/feedback/<student>/<chapter>.html and OUT/report.html from the gradebook in OUT.

    `faults`: the students whom this machine could not grade, and why; they get rows, and no points. None: those who were
    `left` before. `workers` pages are made at once (0: one a core). Raises CourseError if OUT has no gradebook or another
    process writes there, OSError.
    """
    with files.only_writer(out):
        _write(out, chapter, left(out, chapter) if faults is None else faults, workers, progress)


def left(out: Path, chapter: Chapter) -> dict[str, str]:
    """The students whom this machine could not grade when they were graded last, and why, as marks.csv has it."""
    found: dict[str, str] = {}
    try:
        with (Path(out) / "marks.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if (row.get("chapter"), row.get("fault")) == (chapter.name, Fault.INFRASTRUCTURE.value):
                    found[harmless.unfield(row.get("student") or "")] = row.get("message") or "unknown"
    except (OSError, UnicodeDecodeError, csv.Error):
        return {}
    return found


def _write(
    out: Path, chapter: Chapter, faults: dict[str, str], workers: int, progress: Callable[[int, int, str], None] | None
) -> None:
    class_ = record.records(out, chapter, notebooks=True)
    rows = [row for each in class_ if each.student not in faults for row in each.rows]
    record.write_marks(out, [*rows, *_left(chapter, faults)])
    class_page.write(out, chapter, faults)

    def told(done: int) -> None:
        if progress is not None:
            progress(done, len(class_), class_[done - 1].student)

    first, others = class_[:1], class_[1:]
    feedback.write_all(out, chapter, first)  # here: what is rendered of the release once, every forked worker has
    for tries in range(1, TRIES + 1):
        try:
            with ProcessPoolExecutor(
                workers or os.cpu_count(), multiprocessing.get_context("fork"), initializer=_worker
            ) as pool:
                feedback.write_all(out, chapter, others, pool, lambda done: told(done + 1))
            return
        except BrokenProcessPool as error:  # somebody killed a worker: a page is the same at every try
            if tries == TRIES:
                raise InfrastructureError(f"the processes that write feedback were killed {TRIES} times") from error


def _worker() -> None:
    """Make a pool's process end with us, and leave Ctrl-C to us."""
    warm.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _left(chapter: Chapter, faults: dict[str, str]) -> list[Row]:
    """A row for each exercise of those who were not graded."""
    return [
        Row(student, chapter.name, exercise.name, 0.0, exercise.max_points, Result.INVALID, Fault.INFRASTRUCTURE, why)
        for student, why in faults.items()
        for exercise in chapter.exercises
    ]
