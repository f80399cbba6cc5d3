"""The single writer: verdicts into OUT, which is a stock nbgrader course, and back out of it.

A verdict and the gradebook's marks of it are written in one transaction, so that a process killed at any moment leaves
all of a submission or nothing of it. Files follow the database: they are replaced whole, and made again from the record
where they are missing or older.

    OUT/gradebook.db, nbgrader_config.py      nbgrader's, with one table of ours: across_verdict
    OUT/source, release/<chapter>/            the chapter as released
    OUT/submitted/<student>/<chapter>/        what was taken of a submission (never the file itself), timestamp.txt
    OUT/autograded/<student>/<chapter>/       the executed notebook, its grade cells filled in by us
"""

from __future__ import annotations

import contextlib
import copy
import csv
import dataclasses
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import BaseCell, Comment, Grade, SubmittedAssignment, SubmittedNotebook
from nbgrader.preprocessors import AssignLatePenalties, CheckCellMetadata, NbGraderPreprocessor, SaveAutoGrades
from sqlalchemy import create_engine, select

from autograder.gradebook import database, late_penalty, tables
from autograder.gradebook.tables import Gradebook
from autograder.model import course, harmless
from autograder.model.course import Chapter, CourseError
from autograder.model.verdict import Fault, Mark, Result, Verdict
from autograder.store import files

COLUMNS = ("student", "chapter", "exercise", "points", "max_points", "verdict", "fault", "message")
WAITS = "Waits for its mark: it is graded by hand."
BY_HAND = "Graded by hand."


@dataclass(frozen=True)
class Row:
    """A row of marks.csv: one graded cell of one student, as it stands now, marks given by hand included."""

    student: str
    chapter: str
    exercise: str
    points: float
    max_points: float
    verdict: Result
    fault: Fault
    message: str  # raw: any characters
    waiting: bool = False  # for a mark by hand
    comment: str = ""  # given by hand
    misconception: str = ""


@dataclass(frozen=True)
class Record:
    """All that is recorded of one submission."""

    verdict: Verdict  # as graded; its notebook is empty where it was not asked for
    rows: tuple[Row, ...]  # in the chapter's order
    timestamp: str | None = None
    seconds_late: float = 0.0
    penalty: float = 0.0  # points taken off by nbgrader's late policy

    @property
    def student(self) -> str:
        """Whose it is."""
        return self.verdict.student

    @property
    def points(self) -> float:
        """What the submission is worth now."""
        return max(0.0, sum(row.points for row in self.rows) - self.penalty)


class Recorder:
    """Writes verdicts of one chapter into OUT. A context manager; one process at a time on an OUT (`files.only_writer`).

    Raises CourseError when OUT holds submissions of a release with other graded cells, or a broken nbgrader_config.py;
    OSError, which names the file or the database, when the disk or the database will not.
    """

    def __init__(self, out: Path, chapter: Chapter, db_url: str | None = None) -> None:
        self.out = Path(out).absolute()
        self.chapter = chapter
        self._url = db_url
        self._exercises = {exercise.name: exercise for exercise in chapter.exercises}

    def __enter__(self) -> Recorder:
        with contextlib.ExitStack() as stack:
            stack.enter_context(files.only_writer(self.out))
            self._open(stack)
            self._stack = stack.pop_all()
        return self

    def _open(self, stack: contextlib.ExitStack) -> None:
        settings = self.out / "nbgrader_config.py"
        if not settings.exists():
            files.replace(settings, database.default_config(self._url).encode(), mode=0o600)
        self._config = database.load_config(self.out)
        self._due = late_penalty.applied(self._config, self.chapter.name)
        release = _notebook(self.chapter.release)
        for step in ("source", "release"):
            files.replace(self.out / step / self.chapter.name / f"{self.chapter.name}.ipynb", _bytes(release))
        self._at = database.locate(self.out, self._url)
        self._gradebook = Gradebook(self._at)
        stack.callback(self._gradebook.shut)
        with self._gradebook.transaction() as connection:
            tables.register(self._gradebook, self.chapter, release, late_penalty.due(self._config, self.chapter.name))
            self._known = tables.digests(connection, self.chapter.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def secret(self, made: bytes) -> bytes:
        """The class's secret: `made`, or that of the gradebook where graders with several OUTs share one."""
        if not database.shared(self._at):
            return made
        with self._gradebook.transaction() as connection:
            return tables.secret(connection, made)

    def known(self, student: str) -> str | None:
        """The digest of what is recorded of a student, if anything; its files are made again if they are missing."""
        if student not in self._known:
            return None
        digest, timestamp, _ = self._known[student]
        when = tables.moment(timestamp)
        if not self._written(student, digest, when) and (verdict := self.verdict(student)):
            self._files(student, self._filled(verdict), when)
        return digest

    def renew(self, student: str, timestamp: str | None) -> bool:
        """Apply the late policy again to a recorded verdict if it was handed in, or is due, at another time by now."""
        if student not in self._known or self._known[student][1:] == (timestamp, self._due):
            return False
        if verdict := self.verdict(student):
            self.write(verdict, timestamp)
        return True

    def verdict(self, student: str) -> Verdict | None:
        """What is recorded of a student, as it was graded."""
        with self._gradebook.reading() as connection:
            return tables.load(connection, self.chapter.name, student)

    def write(self, verdict: Verdict, timestamp: str | None = None) -> None:
        """Record one submission: all of it or, if killed, nothing. Marks and comments given by hand stay.

        `timestamp` is when it was handed in (timestamp.txt). Raises ValueError for what is no verdict of this chapter.
        """
        student = _folder_name(verdict.student)
        timestamp = timestamp and harmless.visible(timestamp)
        if [mark.exercise for mark in verdict.marks] != list(self._exercises) or verdict.chapter != self.chapter.name:
            raise ValueError(f"{student}: not a verdict of {self.chapter.name} with one mark an exercise, in its order")
        notebook = self._filled(verdict)
        when = tables.moment(timestamp)
        with self._gradebook.transaction() as connection:
            tables.save(self._gradebook, self._config, self.chapter.name, student, notebook, when)
            tables.keep(connection, verdict, timestamp, self._due)
        self._known[student] = (verdict.digest, timestamp, self._due)
        self._files(student, notebook, when)

    def _filled(self, verdict: Verdict) -> NotebookNode:
        """The notebook as nbgrader gets it: harmless, with our outputs in its grade cells."""
        marks = {self._exercises[mark.exercise].grade_id: mark for mark in verdict.marks}
        return _filled(verdict, marks, self.chapter.answers)

    def _file(self, step: str, student: str) -> Path:
        return self.out / step / _folder_name(student) / self.chapter.name / f"{self.chapter.name}.ipynb"

    def _written(self, student: str, digest: str, when: datetime | None) -> bool:
        """Whether the files say what the gradebook does: a grader may have been killed between the two."""
        handed_in = self._file("submitted", student).with_name("timestamp.txt")
        stamped = _text(handed_in) == (tables.stamp(when) if when else None)
        return stamped and _digest(self._file("autograded", student)) == digest

    def _files(self, student: str, notebook: NotebookNode, when: datetime | None) -> None:
        nothing = {"outputs": [], "execution_count": None}
        cells = [{**cell, **nothing} if cell.cell_type == "code" else cell for cell in notebook.cells]
        bare = {**notebook, "cells": cells}
        submitted = self._file("submitted", student)
        files.replace(submitted, _bytes(bare))
        if when:
            files.replace(submitted.parent / "timestamp.txt", tables.stamp(when).encode())
        else:
            (submitted.parent / "timestamp.txt").unlink(missing_ok=True)
        files.replace(self._file("autograded", student), _bytes(notebook))


class Recorded(NbGraderPreprocessor):
    """In place of executing a notebook: the recorded one, as `nbgrader autograde` would have made it."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Return the recorded notebook. Raises LookupError if there is none: `autograder grade` was not run on it."""
        asked = resources["nbgrader"]
        engine = create_engine(asked["db_url"])
        try:
            with engine.connect() as connection:
                verdict = tables.load(connection, asked["assignment"], asked["student"])
        finally:
            engine.dispose()
        if verdict is None:
            raise LookupError(f"{asked['student']} was not graded yet: run `autograder grade {asked['assignment']}`")
        marks = {mark.exercise: mark for mark in verdict.marks}
        cells = {
            cell.metadata["nbgrader"]["grade_id"]: marks[cell.metadata["across"]["exercise"]]
            for cell in nb.cells
            if cell.metadata.get("nbgrader", {}).get("grade")
        }
        released = {meta["grade_id"]: cell.source for cell in nb.cells if (meta := cell.metadata.get("nbgrader"))}
        return _filled(verdict, cells, released), resources


def replay() -> list[Any]:
    """The preprocessors that `nbgrader autograde` runs in OUT: see its nbgrader_config.py."""
    return [Recorded, SaveAutoGrades, AssignLatePenalties, CheckCellMetadata]


def records(out: Path, chapter: Chapter, db_url: str | None = None, notebooks: bool = False) -> list[Record]:
    """Everything recorded of a chapter, sorted by student. Raises CourseError if OUT has no gradebook."""
    if not database.exists(out, db_url):
        raise CourseError(f"{out}: nothing was graded there; run `autograder grade {chapter.name} --out {out}`")
    book = Gradebook(database.locate(out, db_url))
    try:
        with book.reading() as connection:
            found = tables.kept(connection, chapter.name, notebooks)
            given = _given(book, chapter.name) if found else {}
        return [
            _record(chapter, verdict, timestamp, given.get(verdict.student, _Given())) for verdict, timestamp in found
        ]
    finally:
        book.shut()


def rows(out: Path, chapter: Chapter, db_url: str | None = None) -> list[Row]:
    """The rows of marks.csv: by student, then in the chapter's order. Raises CourseError if OUT has no gradebook."""
    return [row for record in records(out, chapter, db_url) for row in record.rows]


def write_marks(out: Path, found: Iterable[Row]) -> Path:
    """Write OUT/marks.csv; no field of it is hidden, spans lines or is taken for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in found:
        names = [harmless.field(name) for name in (row.student, row.chapter, row.exercise)]
        points = [number(row.points), number(row.max_points)]
        writer.writerow([*names, *points, row.verdict.value, row.fault.value, harmless.field(row.message)])
    return files.replace(Path(out) / "marks.csv", text.getvalue().encode())


def number(points: float) -> str:
    """Points as they are written everywhere: `3`, `1.5`, `0.6667`."""
    return f"{round(points, 4):.10g}"


@dataclass(frozen=True)
class _Given:
    """What the gradebook says of one submission beyond the verdict: by grade id."""

    # by machine, by hand, extra credit
    scores: dict[str, tuple[float | None, float | None, float | None]] = dataclasses.field(default_factory=dict)
    comments: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds_late: float = 0.0
    penalty: float = 0.0


def _given(book: Gradebook, chapter: str) -> dict[str, _Given]:
    given = {}
    for submission in book.assignment_submissions(chapter):
        seconds_late = submission.total_seconds_late if submission.assignment.duedate else 0.0
        penalty = float(submission.late_submission_penalty or 0.0)
        given[submission.student_id] = _Given(seconds_late=float(seconds_late), penalty=penalty)
    joined = (
        select(SubmittedAssignment.student_id, BaseCell.name, Grade.auto_score, Grade.manual_score, Grade.extra_credit)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
        .join(BaseCell, BaseCell.id == Grade.cell_id)
    )
    for student, cell, by_machine, by_hand, extra in _of(joined, book, chapter):
        given[student].scores[cell] = (by_machine, by_hand, extra)
    said = (
        select(SubmittedAssignment.student_id, BaseCell.name, Comment.manual_comment)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Comment, Comment.notebook_id == SubmittedNotebook.id)
        .join(BaseCell, BaseCell.id == Comment.cell_id)
        .where(Comment.manual_comment.is_not(None))
    )
    for student, cell, comment in _of(said, book, chapter):
        given[student].comments[cell] = comment
    return given


def _of(query: Any, book: Gradebook, chapter: str) -> Any:
    return book.db.execute(query.where(SubmittedAssignment.assignment_id == book.find_assignment(chapter).id))


def _record(chapter: Chapter, verdict: Verdict, timestamp: str | None, given: _Given) -> Record:
    marks = {mark.exercise: mark for mark in verdict.marks}
    made = tuple(
        _row(verdict, marks[exercise.name], exercise, given) for exercise in chapter.exercises if exercise.name in marks
    )
    return Record(verdict, made, timestamp, given.seconds_late, given.penalty)


def _row(verdict: Verdict, mark: Mark, exercise: course.Exercise, given: _Given) -> Row:
    by_machine, by_hand, extra = given.scores.get(exercise.grade_id, (mark.points, None, None))
    said = [given.comments[each] for each in (exercise.grade_id, *exercise.answer_ids) if each in given.comments]
    row = Row(
        student=verdict.student,
        chapter=verdict.chapter,
        exercise=mark.exercise,
        points=(by_machine or 0.0) + (extra or 0.0),
        max_points=exercise.max_points,
        verdict=mark.result,
        fault=mark.fault,
        message=mark.message,
        waiting=mark.result is Result.MANUAL and by_hand is None,
        comment="\n".join(dict.fromkeys(said)),
        misconception=mark.misconception,
    )
    if by_hand is not None:
        message = BY_HAND if exercise.manual else f"{BY_HAND} (The checks said: {mark.message})"
        points = by_hand + (extra or 0.0)
        return replace(row, points=points, verdict=Result.MANUAL, fault=Fault.NONE, message=message)
    return replace(row, message=WAITS) if row.waiting else row


def _filled(verdict: Verdict, marks: dict[str, Mark], released: dict[str, str]) -> NotebookNode:
    notebook = tables.graded(harmless.notebook(verdict.notebook), marks, released)
    notebook.metadata["across"] = {**notebook.metadata.get("across", {}), "digest": verdict.digest}
    if all(mark.result is Result.INVALID for mark in verdict.marks):
        why = "**Not graded.** The submission could not be read; this is the chapter as released.\n\n"
        note = nbformat.v4.new_markdown_cell(why + harmless.literal(verdict.marks[0].message))
        note["id"] = "across-not-graded"
        if notebook.get("nbformat_minor", 5) < 5:
            del note["id"]
        notebook.cells.insert(0, note)
    return notebook


def _notebook(release: dict[str, Any]) -> NotebookNode:
    notebook = nbformat.from_dict(copy.deepcopy(release))
    assert isinstance(notebook, NotebookNode)
    for cell in notebook.cells:
        cell.source = course.text(cell)
    return notebook


def _digest(path: Path) -> str | None:
    """Which verdict an autograded notebook is of; None if it is missing, or not whole."""
    try:
        return json.loads(path.read_bytes())["metadata"]["across"]["digest"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def _bytes(notebook: dict[str, Any]) -> bytes:
    # without indents: with them, json is written by Python instead of C, and costs more than the gradebook
    return (json.dumps(notebook, ensure_ascii=False, sort_keys=True) + "\n").encode()


def _folder_name(student: str) -> str:
    """A student's name, which names folders here. Raises ValueError where `intake.student_name` did not make it."""
    if student in ("", ".", "..") or set(student) & set('/<>&"') or not student.isprintable():
        raise ValueError(f"{student!r} cannot name a student's folder")
    return student
