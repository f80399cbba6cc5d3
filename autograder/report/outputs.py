"""What is written of a graded class beside the gradebook: marks.csv, totals.csv, a page for each student, and the class's."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from autograder.gradebook import history, record, released, roll
from autograder.gradebook.history import State
from autograder.gradebook.record import Record
from autograder.model import harmless
from autograder.model.course import Chapter
from autograder.model.verdict import Result
from autograder.report import class_page, course_page, feedback, pages
from autograder.report.standing import Standing, write_totals
from autograder.store import files
from autograder.term import kept
from autograder.term.counting import Counted

Progress = Callable[[int, int, str], None]  # (done, of how many, student)


def write(
    out: Path,
    chapter: Chapter,
    *,
    faults: dict[str, str] | None = None,
    workers: int = 0,
    progress: Progress | None = None,
    command: str = "autograder",
    made: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Write each student's page and report_<chapter>.html from the gradebook in OUT, and what tells of all its chapters:
    marks.csv, totals.csv, report.html.

    `faults`: the students whom this machine could not grade, and why; they get rows, and no points. None: those who were
    left before. `workers` pages are made at once (0: one a core); commands that pages name begin with `command`. `made`:
    students' pages are written already (`write_pages`), and whose could not be made whole, and why. Returns
    the students whose page could not be made whole, and why: it says so itself, and so does the report. Raises CourseError
    if OUT has no gradebook or another process writes there, OSError.
    """
    with files.only_writer(out):
        faults = roll.left(out, chapter) if faults is None else faults
        class_ = record.records(out, chapter)
        _notice(out, chapter, class_)
        record.keep_penalties(out, chapter, class_)
        roll.keep_left(out, chapter, faults)
        standing = Standing(chapter, class_, faults, roll.absent(out, chapter), roll.attempts(out, chapter))
        standings = [standing if each is chapter else _standing(out, each) for each in released.chapters(out, chapter)]
        record.write_marks(out, [row for each in standings for row in each.rows()])
        write_totals(out, standings)
        said: dict[str, Any] = {"absent": standing.missing, "command": command}
        _front(out, standings, class_page.write(out, chapter, faults, **said))
        unmade = dict(made) if made is not None else _write_pages(out, chapter, len(class_), workers, progress)
        for student in faults.keys() - {each.student for each in class_}:
            if harmless.names_a_folder(student):
                feedback.write_ungraded(out, chapter, student, faults[student])
        if unmade:
            _front(out, standings, class_page.write(out, chapter, faults, unmade=unmade, **said))
        return unmade


def write_pages(out: Path, chapter: Chapter, students: Collection[str], workers: int = 0) -> dict[str, str]:
    """Write the pages of these students alone, and nothing else; whose could not be made whole, and why.

    Raises CourseError, OSError as `write` does.
    """
    with files.only_writer(out):
        return _write_pages(out, chapter, len(students), workers, None, students)


def write_page(out: Path, chapter: Chapter, student: str) -> Path:
    """Write one student's page anew, and return it. Raises LookupError for who was not graded; CourseError, OSError."""
    for each in record.whole(out, chapter, [student]):
        counts = kept.counts(out, chapter, [student]) or {}
        for made, why in pages.made([each], partial(feedback.write, out, chapter, counts=counts), 1):
            if why:
                _write_instead(out, chapter, made, why, counts)
        return feedback.path(out, chapter.name, student)
    raise LookupError(f"{student} was not graded yet: run `autograder grade {chapter.name}`")


def _notice(out: Path, chapter: Chapter, class_: Iterable[Record]) -> None:
    """Have the history tell what was changed by hand since somebody looked."""
    said = []
    for each in class_:
        states = {
            row.exercise: State(
                row.points,
                history.ABOVE if row.above else row.verdict.value,
                row.verdict is Result.MANUAL and not row.waiting,
            )
            for row in each.rows
        }
        said.append((each.student, each.verdict.digest, states | {history.LATE: State(-each.penalty, "")}))
    with record.book(out, chapter) as book:
        history.notice(book, chapter, said)


def _standing(out: Path, chapter: Chapter) -> Standing:
    """What stands of another chapter than the one that is written now."""
    told = (roll.left(out, chapter), roll.absent(out, chapter), roll.attempts(out, chapter))
    return Standing(chapter, record.records(out, chapter), *told)


def _front(out: Path, standings: list[Standing], page: Path) -> None:
    """Write OUT/report.html: the page of the course; of a class that had one chapter only, that chapter's."""
    if len(standings) > 1:
        course_page.write(out, standings)
    else:
        files.replace(Path(out) / "report.html", page.read_bytes())


def _write_pages(
    out: Path,
    chapter: Chapter,
    count: int,
    workers: int,
    progress: Progress | None,
    students: Collection[str] | None = None,
) -> dict[str, str]:
    """Write the page of everyone who is recorded, or of these students; who got one without their notebook, and why."""
    unmade: dict[str, str] = {}
    feedback.prepare(chapter)
    counts = kept.counts(out, chapter, students) or {}
    records, work = record.whole(out, chapter, students), partial(feedback.write, out, chapter, counts=counts)
    with closing(pages.made(records, work, workers or os.cpu_count() or 1)) as made:
        for done, (each, why) in enumerate(made, 1):
            if why:
                unmade[each.student] = why
                _write_instead(out, chapter, each, why, counts)
            if progress is not None:
                progress(done, count, each.student)
    return unmade


def _write_instead(out: Path, chapter: Chapter, each: Record, why: str, counts: Mapping[str, Counted]) -> None:
    try:
        feedback.write_without_notebook(out, chapter, each, why, counts=counts)
    except OSError:
        raise
    except Exception as error:  # not even the marks: whatever they hold, it is this student's page alone
        feedback.write_ungraded(out, chapter, each.student, f"{why}; {type(error).__name__}")
