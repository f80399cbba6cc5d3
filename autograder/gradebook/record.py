"""The single writer: verdicts into OUT, which is a stock nbgrader course, and back out of it.

A verdict and the gradebook's marks of it are written in one transaction, so that a process killed at any moment leaves
all of a submission or nothing of it. Files follow the database: they are replaced whole, and made again from the record
where they are missing or older.

    OUT/gradebook.db, nbgrader_config.py      nbgrader's, with tables of ours: across_verdict, across_history, ...
    OUT/source, release/<chapter>/            the chapter as released
    OUT/submitted/<student>/<chapter>/        what was taken of a submission (never the file itself), timestamp.txt
    OUT/autograded/<student>/<chapter>/       the executed notebook, its grade cells filled in by us
    OUT/evidence/                             what marks rest on, by content: see `evidence`
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import SubmittedNotebook
from sqlalchemy import update

from autograder.gradebook import database, evidence, given, history, late_penalty, replay, tables
from autograder.gradebook.extensions import Extensions, extended
from autograder.gradebook.given import Given, too_high
from autograder.gradebook.tables import Gradebook
from autograder.model import course, harmless, recorded_notebook
from autograder.model.amounts import number, some
from autograder.model.course import Chapter, CourseError
from autograder.model.verdict import Fault, Mark, Result, Verdict
from autograder.store import files
from autograder.submissions.extensions import Extension
from autograder.submissions.intake import Submission

COLUMNS = (
    "student", "chapter", "exercise", "points", "max_points", "verdict", "fault", "message", "misconception", "comment",
)  # fmt: skip
WAITS = "Waits for its mark: it is graded by hand."
BY_HAND = "Graded by hand."
NOTHING = "Absent: nothing was handed in."
TOO_HIGH = "by hand; mend it in the formgrader, where what is above goes into extra credit"  # said of `above`


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
    above: str = ""  # the mark by hand, where it is more than the exercise has without extra credit: "3 of 2 points"


@dataclass(frozen=True)
class Record:
    """All that is recorded of one submission."""

    verdict: Verdict  # as graded, without its notebook
    rows: tuple[Row, ...]  # in the chapter's order
    timestamp: str | None = None
    seconds_late: float = 0.0
    penalty: float = 0.0  # points taken off by nbgrader's late policy
    due: datetime | None = None  # in UTC: the date that counted
    extension: float = 0.0  # seconds of it that the class does not have
    zone: str = ""  # where the class is: see `late_penalty.zone`
    code: str = ""  # of the student's page, by which a mark is contested; empty where no evidence is kept
    packed: bytes = field(default=b"", repr=False)  # the executed notebook, as it is kept; empty where not asked for

    @property
    def notebook(self) -> dict[str, Any]:
        """The notebook as executed, nbformat 4; empty where it was not asked for. Raises ValueError if it is too big."""
        return tables.unpacked(self.packed) if self.packed else self.verdict.notebook

    @property
    def time(self) -> str:
        """Which limits of time it was graded by, where they are not the class's: "1.5 times the chapter's"."""
        return self.verdict.evidence.parts.get("time", "")

    @property
    def student(self) -> str:
        """Whose it is."""
        return self.verdict.student

    @property
    def points(self) -> float:
        """What the submission is worth now."""
        return max(0.0, sum(row.points for row in self.rows) - self.penalty)


class UnrecordedError(RuntimeError):
    """One submission could not be recorded, or its files not be written: nobody else's is touched."""


@contextlib.contextmanager
def _of_one_submission() -> Iterator[None]:
    """Raise UnrecordedError for what only this submission can have brought about, whatever it holds."""
    try:
        yield
    except (OSError, CourseError):  # the disk's, the database's or the author's: everybody's
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {harmless.line(str(error), 300)}"
        raise UnrecordedError(f"what came back of it could not be recorded ({what})") from error


class Recorder:
    """Writes verdicts of one chapter into OUT. A context manager; one process at a time on an OUT (`files.only_writer`).

    Raises CourseError when OUT holds submissions of a release with other graded cells, or a broken nbgrader_config.py;
    OSError, which names the file or the database, when the disk or the database will not.
    """

    def __init__(
        self, out: Path, chapter: Chapter, db_url: str | None = None, extensions: Sequence[Extension] = ()
    ) -> None:
        self._said = extensions
        self.basis = ""  # see `evidence.basis`
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
            files.replace(settings, database.default_config(self.chapter.course, self._url).encode(), mode=0o600)
        self._config = database.load_config(self.out)
        late_penalty.policy(self.out)  # one that cannot be asked is the author's fault, and no submission's
        self._due = late_penalty.applied(self._config, self.chapter)
        release = replay.released(self.chapter.release)
        for step in ("source", "release"):
            files.replace(self.out / step / self.chapter.name / f"{self.chapter.name}.ipynb", replay.as_bytes(release))
        self._at = database.locate(self.out, self._url)
        self._gradebook = Gradebook(self._at, self.chapter.course)
        stack.callback(self._gradebook.shut)
        with self._gradebook.transaction() as connection:
            due = late_penalty.due(self._config, self.chapter)
            tables.register(self._gradebook, self.chapter, release, due)
            self._extensions = Extensions(self._gradebook, connection, self.chapter, due, self._said)
            self._known = tables.digests(connection, self.chapter.name)

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def secret(self, made: bytes) -> bytes:
        """The class's secret: `made`, or that of the gradebook where graders with several OUTs share one."""
        if not database.shared(self._at):
            return made
        with self._gradebook.transaction() as connection:
            return tables.secret(connection, made)

    @property
    def times(self) -> Mapping[str, float]:
        """The factor of the limits of time of who has another one than the class."""
        return self._extensions.times

    def late(self, student: str, timestamp: str | None) -> bool:
        """Whether who hands in at `timestamp` is late, grace and extension included; False where nobody says when it is due."""
        when = tables.moment(timestamp)
        grace = float(self._config.LatePerDay.get("grace_seconds", 0.0))
        return when is not None and self._extensions.late(student, when, grace)

    def timed(self, student: str, timestamp: str | None) -> bool:
        """Whether that is recorded already, with what decides its penalty."""
        return student in self._known and self._known[student][1:] == (timestamp, self._applied(student))

    def _applied(self, student: str) -> str | None:
        """What the late policy is applied to, besides when it was handed in."""
        return self._extensions.applied(student, self._due)

    def known(self, student: str) -> str | None:
        """The digest of what is recorded of a student, if anything that can be read is.

        Its files are made again if they are missing.
        """
        if student not in self._known:
            return None
        digest, timestamp, _ = self._known[student]
        when = tables.moment(timestamp)
        if self._written(student, digest, when):
            return digest
        try:
            with _of_one_submission():
                if verdict := self.verdict(student):
                    self._files(student, self._filled(verdict), when)
        except UnrecordedError:  # as if it had never been graded
            return None
        return digest

    def renew(self, student: str, timestamp: str | None, answers: Submission | None = None) -> bool:
        """Record a verdict again if it was handed in, or is due, at another time by now, or in another language.

        Raises UnrecordedError as `write` does.
        """
        if student not in self._known:
            return False
        with _of_one_submission(), self._gradebook.reading() as connection:
            [(kept, *_)] = tables.kept(connection, self.chapter.name, [student])
        language = answers.language if answers else kept.language
        if kept.language == language and self.timed(student, timestamp):
            return False
        with _of_one_submission():
            verdict = self.verdict(student)
        if verdict is not None:
            self.write(replace(verdict, language=language), timestamp, answers)
        return True

    def verdict(self, student: str) -> Verdict | None:
        """What is recorded of a student, as it was graded."""
        with self._gradebook.reading() as connection:
            return tables.load(connection, self.chapter.name, student)

    def write(self, verdict: Verdict, timestamp: str | None = None, answers: Submission | None = None) -> None:
        """Record one submission: all of it or, if killed, nothing. Marks given by hand stay with the text that they are of.

        `timestamp` is when it was handed in (timestamp.txt); `answers` are kept as evidence, with `basis`. Raises ValueError
        for what is no verdict of this chapter, UnrecordedError where this one cannot be recorded, whatever the reason.
        """
        student = harmless.folder_name(verdict.student)
        timestamp = timestamp and harmless.visible(timestamp)
        if [mark.exercise for mark in verdict.marks] != list(self._exercises) or verdict.chapter != self.chapter.name:
            raise ValueError(f"{student}: not a verdict of {self.chapter.name} with one mark an exercise, in its order")
        with _of_one_submission():
            verdict = replace(verdict, notebook=recorded_notebook.rebuilt(verdict.notebook, verdict.notebook))
            notebook, when = self._filled(verdict), tables.moment(timestamp)
            with self._gradebook.transaction() as connection:
                before = history.settled(self._gradebook, connection, self.chapter, student)
                marked = history.marked(connection, self.chapter, student)
                taken = given.take_back(self._gradebook, connection, self.chapter, student, answers, marked)
                more = self._extensions.new(student)
                tables.save(self._gradebook, self._config, self.chapter.name, student, notebook, when, more)
                tables.wait(self._gradebook, self.chapter.name, student, self._waiting(verdict))
                self._extensions.wrote(connection, student)
                tables.keep(connection, verdict, timestamp, self._applied(student))
                history.keep(self._gradebook, connection, self.chapter, verdict, before, taken)
                evidence.add(connection, verdict, timestamp, answers, self.basis)
            self._known[student] = (verdict.digest, timestamp, self._applied(student))
            self._files(student, notebook, when)

    def _waiting(self, verdict: Verdict) -> dict[str, bool]:
        """Whether each task, by grade id, waits for a mark by hand."""
        tasks = {each.name: each.grade_id for each in self.chapter.exercises if each.manual and not each.answer_ids}
        marks = (mark for mark in verdict.marks if mark.exercise in tasks)
        return {tasks[mark.exercise]: mark.result is Result.MANUAL for mark in marks}

    def _filled(self, verdict: Verdict) -> NotebookNode:
        """The notebook as nbgrader gets it: harmless, with our outputs in its grade cells."""
        marks = {self._exercises[mark.exercise].grade_id: mark for mark in verdict.marks}
        return replay.filled(verdict, marks, self.chapter.answers)

    def _file(self, step: str, student: str) -> Path:
        return self.out / step / harmless.folder_name(student) / self.chapter.name / f"{self.chapter.name}.ipynb"

    def _written(self, student: str, digest: str, when: datetime | None) -> bool:
        """Whether the files say what the gradebook does: a grader may have been killed between the two."""
        handed_in = self._file("submitted", student).with_name("timestamp.txt")
        stamped = files.read(handed_in) == (tables.stamp(when).encode() if when else None)
        return stamped and replay.digest_of(self._file("autograded", student)) == digest

    def _files(self, student: str, notebook: NotebookNode, when: datetime | None) -> None:
        nothing = {"outputs": [], "execution_count": None}
        cells = [{**cell, **nothing} if cell.cell_type == "code" else cell for cell in notebook.cells]
        bare = {**notebook, "cells": cells}
        submitted = self._file("submitted", student)
        files.replace(submitted, replay.as_bytes(bare))
        if when:
            files.replace(submitted.parent / "timestamp.txt", tables.stamp(when).encode())
        else:
            (submitted.parent / "timestamp.txt").unlink(missing_ok=True)
        files.replace(self._file("autograded", student), replay.as_bytes(notebook))


def records(out: Path, chapter: Chapter, students: Collection[str] | None = None) -> list[Record]:
    """Everything recorded of a chapter, or of these students, but the notebooks. Raises CourseError if OUT has no gradebook."""
    with book(out, chapter) as opened:
        return _records(opened, chapter, out, students)


def whole(out: Path, chapter: Chapter, students: Collection[str] | None = None) -> Iterator[Record]:
    """The same, of all or of these, one at a time and each with its notebook: a class's do not fit into memory."""
    with book(out, chapter) as opened:
        for each in _records(opened, chapter, out, students):
            with opened.reading() as connection:
                yield replace(each, packed=tables.packed(connection, chapter.name, each.student))


@contextlib.contextmanager
def book(out: Path, chapter: Chapter) -> Iterator[Gradebook]:
    """The gradebook of OUT, open within the block. Raises CourseError if there is none."""
    if not database.exists(out):
        raise CourseError(f"{out}: nothing was graded there; run `autograder grade {chapter.name} --out {out}`")
    with tables.opened(out, chapter.course) as opened:
        yield opened


def _records(book: Gradebook, chapter: Chapter, out: Path, students: Collection[str] | None = None) -> list[Record]:
    with book.reading() as connection:
        found = tables.kept(connection, chapter.name, students)
        theirs = given.given(book, chapter.name, students) if found else {}
    zone, codes, made = late_penalty.zone(out), evidence.codes(book, out, chapter.name), []
    policy, off = None, None
    if any(each.seconds_late > 0 for each in theirs.values()):
        policy, off = late_penalty.applied(database.load_config(out), chapter), late_penalty.policy(out)
    for verdict, stamp, due in found:
        more, marks = theirs.get(verdict.student, Given()), {mark.exercise: mark for mark in verdict.marks}
        its = tuple(row(verdict, marks[each.name], each, more) for each in chapter.exercises if each.name in marks)
        code = codes.get((verdict.student, verdict.digest), "")
        penalty = more.penalty  # which nbgrader counts when it grades: marks by hand have changed the score since
        now = extended(policy, more.extension)
        if off and more.seconds_late > 0 and due == now:  # another policy waits for `grade`
            penalty = off(verdict.student, sum(each.points for each in its), more.seconds_late)
        made.append(Record(verdict, its, stamp, more.seconds_late, penalty, more.due, more.extension, zone, code))
    return made


def keep_penalties(out: Path, chapter: Chapter, found: Iterable[Record]) -> None:
    """Write the points that these records say are taken off into nbgrader's table, for its pages and exports."""
    theirs: Any = SubmittedNotebook
    with book(out, chapter) as opened, opened.transaction() as connection:
        there: dict[str, Any] = {str(each.student_id): each for each in opened.assignment_submissions(chapter.name)}
        for each in found:
            submission = there.get(each.student)
            if submission is not None and (submission.late_submission_penalty or 0.0) != each.penalty:
                whose = theirs.assignment_id == submission.id  # a chapter has one notebook
                connection.execute(update(theirs).where(whose).values(late_submission_penalty=each.penalty))


def rows(out: Path, chapter: Chapter) -> list[Row]:
    """The rows of marks.csv: by student, then in the chapter's order. Raises CourseError if OUT has no gradebook."""
    return [row for record in records(out, chapter) for row in record.rows]


def write_marks(out: Path, found: Iterable[Row]) -> Path:
    """Write OUT/marks.csv; no field of it is hidden, spans lines or is taken for a formula."""
    rows: list[Sequence[str]] = [COLUMNS]
    for row in found:
        names = [harmless.field(name) for name in (row.student, row.chapter, row.exercise)]
        points = [number(row.points), number(row.max_points)]
        said = [harmless.field(text) for text in (row.message, row.misconception, row.comment)]
        rows.append([*names, *points, row.verdict.value, row.fault.value, *said])
    return files.replace_table(Path(out) / "marks.csv", rows)


def above(rows: Iterable[Row]) -> str:
    """The marks by hand that are more than their exercises have: `why`: 3 of 2 points; empty where there is none."""
    return ", ".join(f"`{harmless.line(each.exercise)}`: {each.above}" for each in rows if each.above)


def row(verdict: Verdict, mark: Mark, exercise: course.Exercise, given: Given) -> Row:
    """How an exercise of a verdict stands, with what was `given` beyond it."""
    by_machine, by_hand, extra = given.scores.get(exercise.grade_id, (mark.points, None, None))
    said = [given.comments[each] for each in (exercise.grade_id, *exercise.answer_ids) if each in given.comments]
    made = Row(
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
        most = exercise.max_points
        above = f"{number(by_hand)} of {some(most, 'point')}" if too_high(by_hand, most) else ""
        return replace(made, points=points, verdict=Result.MANUAL, fault=Fault.NONE, message=message, above=above)
    if made.verdict is Result.BLANK and verdict.nothing:
        return replace(made, verdict=Result.ABSENT, message=NOTHING)
    return replace(made, message=WAITS) if made.waiting else made
