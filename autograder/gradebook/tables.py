"""nbgrader's gradebook, written by nbgrader's own preprocessors, in one transaction a submission.

`Gradebook` is nbgrader's API on one connection. Its methods, and the preprocessors, commit after every step and open a
connection each: a process killed between two steps would leave half a submission. Inside `transaction` all of them work
in one session of ours, whose commits do nothing until the block ends well (SQLAlchemy, "Joining a Session into an
External Transaction"). Three names of nbgrader's modules are replaced meanwhile, nothing else is:
`Gradebook` in the preprocessors, which would connect anew; `get_alembic_version`, which starts the program `alembic`
(seconds, and only if it is on PATH) to learn what can be read from a folder; and `app_log`, which prints a hundred lines
of traceback of what is raised anyway.
"""

from __future__ import annotations

import json
import logging
import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dateutil.parser
import nbgrader.api
from alembic.script import ScriptDirectory
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader import dbutil, utils
from nbgrader.api import BaseCell, Comment, Grade
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades, SaveCells, latesubmissions
from nbgrader.preprocessors import saveautogrades as saveautogrades_module
from nbgrader.preprocessors import savecells as savecells_module
from sqlalchemy import (
    delete,
    func,
    insert,
    make_url,
    select,
)
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from traitlets.config.loader import Config

from autograder.gradebook import database
from autograder.gradebook.schema import SECRETS, TABLES, VERDICTS
from autograder.model.course import Chapter, CourseError
from autograder.model.harmless import visible
from autograder.model.verdict import Mark, Result, Verdict

LOG = logging.getLogger("autograder.nbgrader")
LOG.setLevel(logging.ERROR)  # the preprocessors warn of what the record says anyway
LOG.addHandler(logging.NullHandler())  # else what is logged before there is a grading.log is printed
OFFSET = re.compile(r"[+-]\d\d:?\d\d$")
PACKED = 64 << 20  # bytes of what is kept deflated that are read; a notebook has fewer: see `recorded_notebook`


class Gradebook(nbgrader.api.Gradebook):
    """nbgrader's gradebook on one connection, with our table. Raises GradebookError if it cannot be opened."""

    def __init__(self, url: str, course: str) -> None:
        """Open the one at `url`, of the course with the id `course`."""
        self.url = url
        self._found: dict[tuple[Any, ...], dict[str, Any]] = {}
        with (
            _replaced(nbgrader.api, "get_alembic_version", ScriptDirectory(dbutil.ALEMBIC_DIR).get_current_head),
            _replaced(nbgrader.api, "app_log", LOG),
            database.named_in_errors(url),
            database.alone(url),
        ):  # two that make the tables at once would both fail
            _create(url, course)
            super().__init__(database.patient(url), course)
            TABLES.create_all(self.engine)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All of what is done in the block, through nbgrader or on the connection, is kept at its end, or nothing."""
        with database.named_in_errors(self.url), self.engine.begin() as connection:
            if connection.dialect.name == "postgresql":  # else two that enter one student would both find none
                connection.execute(select(func.pg_advisory_xact_lock(database.ALONE)))
            else:  # who first reads and then writes would not wait for another writer, but fail
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            mine, self.db = self.db, _session(connection)
            try:
                with (
                    _replaced(nbgrader.api, "app_log", LOG),
                    _replaced(saveautogrades_module, "Gradebook", lambda *_: self),
                    _replaced(latesubmissions, "Gradebook", lambda *_: self),
                    _replaced(savecells_module, "Gradebook", lambda *_: self),
                ):
                    yield connection
                    self.db.flush()
            finally:
                self.db.remove()
                self.db = mine
                self._found.clear()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read by. Raises GradebookError."""
        with database.named_in_errors(self.url), self.engine.connect() as connection:
            yield connection

    def find_grade(self, grade_cell: str, notebook: str, assignment: str, student: str) -> Grade:
        """As nbgrader's, but all of a submission at once in a transaction, where SaveAutoGrades asks cell by cell."""
        return self._all(Grade, notebook, assignment, student).get(grade_cell) or super().find_grade(
            grade_cell, notebook, assignment, student
        )

    def find_comment(self, solution_cell: str, notebook: str, assignment: str, student: str) -> Comment:
        """As `find_grade`, of comments."""
        return self._all(Comment, notebook, assignment, student).get(solution_cell) or super().find_comment(
            solution_cell, notebook, assignment, student
        )

    def _all(self, kind: Any, notebook: str, assignment: str, student: str) -> dict[str, Any]:
        key = (kind, notebook, assignment, student)
        if key not in self._found:
            if not isinstance(self.db(), _Session):
                return {}
            mine = self.find_submission_notebook(notebook, assignment, student)
            query = select(BaseCell.name, kind).join(kind, kind.cell_id == BaseCell.id)
            found: Any = self.db.execute(query.where(kind.notebook_id == mine.id))
            self._found[key] = {name: each for name, each in found}
        return self._found[key]

    def close(self) -> None:
        """Nothing: preprocessors close what they believe they opened. See `shut`."""

    def shut(self) -> None:
        """End the connection."""
        super().close()


@contextmanager
def opened(out: Path, course: str) -> Iterator[Gradebook]:
    """The gradebook of OUT, of the course with that id, within the block."""
    book = Gradebook(database.locate(out), course)
    try:
        yield book
    finally:
        book.shut()


class _Session(Session):
    """A session of `transaction`."""

    def commit(self) -> None:
        """Nothing is kept yet: the transaction decides."""
        self.flush()


def _session(connection: Connection) -> Any:
    made = sessionmaker(connection, class_=_Session, expire_on_commit=False, join_transaction_mode="rollback_only")
    return scoped_session(made)


@contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _create(url: str, course: str) -> None:
    """Create a SQLite gradebook whole or not at all: nbgrader takes one with any table in it for complete."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or os.path.exists(parsed.database):
        return
    new = f"{parsed.database}.new"
    for left in (new, f"{new}-journal"):  # by a killed grader
        with suppress(FileNotFoundError):
            os.unlink(left)
    nbgrader.api.Gradebook(f"sqlite:///{new}", course).close()
    os.replace(new, parsed.database)


def register(gradebook: Gradebook, chapter: Chapter, notebook: NotebookNode, due: str | None) -> None:
    """Enter a released chapter, by nbgrader's SaveCells; in a transaction.

    Raises CourseError when there are submissions of a release that had other graded cells.
    """
    entry: dict[str, Any] = {"duedate": due, "course_id": chapter.course}
    gradebook.update_or_create_assignment(chapter.name, **entry)
    try:
        SaveCells(log=LOG).preprocess(notebook, _resources(gradebook, chapter.name, ""))
    except RuntimeError as error:
        raise CourseError(
            f"{chapter.name}: {error} of an earlier release, which had other graded cells; grade into a new --out"
        ) from None


def save(
    gradebook: Gradebook,
    config: Config,
    chapter: str,
    student: str,
    notebook: NotebookNode,
    timestamp: datetime | None,
    extension: timedelta | None = None,
) -> None:
    """Enter one graded notebook, by nbgrader's SaveAutoGrades and AssignLatePenalties; in a transaction.

    What was given by hand stays (see `given.take_back`; nbgrader asks for it to be looked at again); `timestamp` is in UTC,
    naive, or None; without an `extension` that which is there stays.
    """
    gradebook.update_or_create_student(student)
    gradebook.db.flush()
    entry: dict[str, Any] = {"timestamp": timestamp} | ({} if extension is None else {"extension": extension})
    with gradebook.db.no_autoflush:  # a new submission is linked before it is added, and flushing it halfway warns
        gradebook.update_or_create_submission(chapter, student, **entry)
    resources = _resources(gradebook, chapter, student)
    SaveAutoGrades(config=config, log=LOG).preprocess(notebook, resources)
    gradebook.db.flush()  # the late policy reads the sum of the scores
    AssignLatePenalties(config=config, log=LOG).preprocess(notebook, resources)


def wait(gradebook: Gradebook, chapter: str, student: str, tasks: Mapping[str, bool]) -> None:
    """Say of nbgrader's tasks, by grade id, whether they wait for a mark by hand: it has all of them wait; in a transaction."""
    for task, waits in tasks.items():
        grade: Any = gradebook.find_grade(task, chapter, chapter, student)
        grade.needs_manual_grade = waits


def _resources(gradebook: Gradebook, chapter: str, student: str) -> Any:
    return {"nbgrader": {"notebook": chapter, "assignment": chapter, "student": student, "db_url": gradebook.url}}


def graded(notebook: NotebookNode, marks: dict[str, Mark], blank: dict[str, str]) -> NotebookNode:
    """Give `notebook` outputs in its grade cells that nbgrader reads as the marks, by grade id, and return it.

    nbgrader's rule (`utils.determine_grade`): an error is 0, no output full marks, one number a part of them; a cell
    graded by hand is 0 if it is as released and waits for its mark otherwise. `blank` has the released sources of the
    cells that count as released though a blank was added to them.
    """
    for cell in notebook.cells:
        meta = cell.metadata.get("nbgrader", {})
        mark = marks.get(meta.get("grade_id", ""))
        if mark is None or not meta.get("grade"):
            continue
        if meta.get("solution"):
            if mark.result in (Result.BLANK, Result.MISSING, Result.INVALID):
                cell.source = blank.get(meta["grade_id"], cell.source)
        elif cell.cell_type == "code":
            cell.outputs, cell.execution_count = _as_outputs(mark), None
    return notebook


def _as_outputs(mark: Mark) -> list[NotebookNode]:
    says = visible(mark.message)
    if mark.points <= 0 and mark.result is not Result.PASSED:  # a test may be worth nothing
        return [new_output("error", ename=mark.result.value, evalue=says, traceback=[f"{mark.result.value}: {says}"])]
    if mark.points >= mark.max_points:
        return []
    said = new_output("stream", name="stdout", text=says + "\n")
    return [said, new_output("execute_result", data={"text/plain": repr(float(mark.points))})]


def moment(timestamp: str | None) -> datetime | None:
    """A submission's timestamp as nbgrader keeps it: naive UTC; None if there is none that can be read.

    An offset is read here, because nbgrader's `parse_utc` takes the +0100 that it reads for 100 seconds.
    """
    try:
        moment: Any = dateutil.parser.parse(timestamp) if timestamp and OFFSET.search(timestamp) else timestamp
        return utils.parse_utc(moment)
    except (ValueError, OverflowError, TypeError, AttributeError):
        return None


def stamp(when: datetime) -> str:
    """What timestamp.txt says so that nbgrader reads that moment."""
    return f"{when:%Y-%m-%d %H:%M:%S.%f} UTC"


def keep(connection: Connection, verdict: Verdict, timestamp: str | None, due: str | None) -> None:
    """Keep a verdict in our own table, in place of the one before; `due` is what the late policy was applied to."""
    values = {
        "chapter": verdict.chapter,
        "student": verdict.student,
        "digest": verdict.digest,
        "timestamp": timestamp,
        "due": due,
        "verdict": json.dumps(verdict.to_json()),
        "notebook": zlib.compress(json.dumps(verdict.notebook).encode("ascii"), 1),
    }
    connection.execute(delete(VERDICTS).where(_key(verdict.chapter, verdict.student)))
    connection.execute(insert(VERDICTS).values(values))


def secret(connection: Connection, made: bytes) -> bytes:
    """The class's secret that the gradebook holds; `made` if it has none yet: in a transaction."""
    found = connection.execute(select(SECRETS.c.value).where(SECRETS.c.name == "seed")).scalar()
    if found is None:
        connection.execute(insert(SECRETS).values(name="seed", value=made))
    return made if found is None else bytes(found)


def digests(connection: Connection, chapter: str) -> dict[str, tuple[str, str | None, str | None]]:
    """What is kept of each student: digest, timestamp, due."""
    columns = (VERDICTS.c.student, VERDICTS.c.digest, VERDICTS.c.timestamp, VERDICTS.c.due)
    found = connection.execute(select(*columns).where(VERDICTS.c.chapter == chapter))
    return {student: (digest, timestamp, due) for student, digest, timestamp, due in found}


def kept(
    connection: Connection, chapter: str, students: Collection[str] | None = None
) -> list[tuple[Verdict, str | None, str | None]]:
    """Every verdict that is kept, or these students', without its notebook, with its timestamp and due date, by student."""
    query = select(VERDICTS.c.verdict, VERDICTS.c.timestamp, VERDICTS.c.due).where(VERDICTS.c.chapter == chapter)
    if students is not None:
        query = query.where(VERDICTS.c.student.in_(students))
    found = connection.execute(query.order_by(VERDICTS.c.student))
    return [(Verdict.from_json(json.loads(text), {}), timestamp, due) for text, timestamp, due in found]


def packed(connection: Connection, chapter: str, student: str) -> bytes:
    """A student's executed notebook as it is kept; empty if there is none."""
    found = connection.execute(select(VERDICTS.c.notebook).where(_key(chapter, student))).scalar()
    return b"" if found is None else bytes(found)


def unpacked(packed: bytes, what: str = "the executed notebook") -> Any:
    """The JSON that is kept as these bytes. Raises ValueError where it has more than PACKED of its own."""
    whole = zlib.decompressobj()
    text = whole.decompress(bytes(packed), PACKED)
    if not whole.eof:
        raise ValueError(f"{what} has more than {PACKED >> 20} MiB")
    return json.loads(text)


def load(connection: Connection, chapter: str, student: str) -> Verdict | None:
    """The verdict that is kept of a student, if any. Raises ValueError if its notebook cannot be read."""
    query = select(VERDICTS.c.verdict, VERDICTS.c.notebook).where(_key(chapter, student))
    found = connection.execute(query).one_or_none()
    return None if found is None else Verdict.from_json(json.loads(found[0]), unpacked(bytes(found[1])))


def _key(chapter: str, student: str) -> Any:
    return (VERDICTS.c.chapter == chapter) & (VERDICTS.c.student == student)
