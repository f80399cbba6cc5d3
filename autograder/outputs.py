"""What is written of a graded class beside the gradebook: marks.csv, a page for each student, a page for the instructor."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from autograder import feedback, record, report
from autograder.course import Chapter
from autograder.record import Row
from autograder.verdict import Fault, Result


def write(
    out: Path,
    chapter: Chapter,
    *,
    faults: dict[str, str] | None = None,
    workers: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """Write OUT/marks.csv, OUT/feedback/<student>/<chapter>.html and OUT/report.html from the gradebook in OUT.

    `faults`: the students whom this machine could not grade, and why; they get rows, and no points. `workers` pages are
    made at once (0: one a core). Raises CourseError if OUT has no gradebook.
    """
    class_ = record.records(out, chapter, notebooks=True)
    rows = [row for each in class_ if each.student not in (faults or {}) for row in each.rows]
    record.write_marks(out, [*rows, *_left(chapter, faults or {})])
    report.write(out, chapter, faults)

    def told(done: int) -> None:
        if progress is not None:
            progress(done, len(class_), class_[done - 1].student)

    first, others = class_[:1], class_[1:]
    feedback.write_all(out, chapter, first)  # here: what is rendered of the release once, every forked worker has
    with ProcessPoolExecutor(workers or os.cpu_count(), multiprocessing.get_context("fork")) as pool:
        feedback.write_all(out, chapter, others, pool, lambda done: told(done + 1))


def _left(chapter: Chapter, faults: dict[str, str]) -> list[Row]:
    """A row for each exercise of those who were not graded."""
    return [
        Row(student, chapter.name, exercise.name, 0.0, exercise.max_points, Result.INVALID, Fault.INFRASTRUCTURE, why)
        for student, why in faults.items()
        for exercise in chapter.exercises
    ]
