"""The gradebook in PostgreSQL: the same marks as in SQLite, and two graders at once neither lose nor double one."""

import multiprocessing
import random
import secrets
import threading
import time

import classroom
import postgres
import pytest
from classroom import FAILED, HOSTILE, NAME, TIMEOUT, TINY
from sqlalchemy import create_engine, make_url, text

from autograder.gradebook import database, forgetting, history, record, schema
from autograder.gradebook.database import GradebookError
from autograder.gradebook.record import Recorder
from autograder.model.course import CourseError
from autograder.model.verdict import Result

pytest.importorskip("psycopg", reason="psycopg is not installed: uv sync --group ci")

pytestmark = pytest.mark.skipif(
    postgres.programs() is None, reason="no PostgreSQL server here: apt-get install postgresql (.ci/run does)"
)
STUDENTS = [f"student{n:02}" for n in range(12)]


@pytest.fixture(scope="module")
def server():
    with postgres.server() as url:
        yield url


@pytest.fixture
def url(server):
    """An empty database."""
    name = f"class_{secrets.token_hex(4)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return make_url(server).set(database=name).render_as_string(hide_password=False)


def write(out, url, *verdicts, at=None):
    classroom.record(out, *verdicts, at=at, book=url)


def some():
    message = (Result.FAILED, 0.0, HOSTILE)
    return [
        classroom.verdict("ada"),
        classroom.verdict("bo", pick=FAILED, spread=TIMEOUT),
        classroom.verdict("cy", message),
    ]


def test_the_rows_are_those_of_sqlite(tmp_path, url):
    write(tmp_path / "ours", None, *some(), at="2026-03-01 10:00:00 UTC")
    write(tmp_path / "theirs", url, *some(), at="2026-03-01 10:00:00 UTC")
    rows = record.rows(tmp_path / "theirs", TINY)
    assert rows == record.rows(tmp_path / "ours", TINY)
    assert len(rows) == 9


def test_the_folder_remembers_its_database_and_no_folder_with_marks_moves_to_another(tmp_path, url):
    write(tmp_path, url, *some())
    assert database.locate(tmp_path) == url
    assert not (tmp_path / "gradebook.db").exists()
    with pytest.raises(CourseError, match=r"nbgrader_config\.py: its db_url is .* new --out"):
        write(tmp_path, url.replace("class_", "another_"), *some())
    write(tmp_path / "own", None, *some())
    with pytest.raises(CourseError, match="new --out"):
        write(tmp_path / "own", url, *some())


def grader(out, url, pick, together):
    """A grader of its own process: writes all students, as fast as it can."""
    together.wait(60)
    write(out, url, *(classroom.verdict(student, pick=pick) for student in STUDENTS))


def assert_each_is_there_once(out, url):
    """Every student's marks are of one verdict, in our table and in nbgrader's, and none is lost or doubled."""
    found = record.records(out, TINY)
    assert [each.student for each in found] == STUDENTS
    for each in found:
        by_verdict = {mark.exercise: mark.points for mark in each.verdict.marks}
        assert {row.exercise: row.points for row in each.rows} == by_verdict
    engine = create_engine(url)
    with engine.connect() as connection:
        counts = [connection.execute(text(f"SELECT count(*) FROM {name}")).scalar() for name in ("student", "grade")]
    engine.dispose()
    assert counts == [len(STUDENTS), 3 * len(STUDENTS)]


def test_two_graders_of_one_class_at_once_neither_lose_nor_double_a_mark(tmp_path, url):
    context = multiprocessing.get_context("fork")
    together = context.Barrier(2)
    picks = [classroom.PASSED, FAILED]
    outs = [tmp_path / "one", tmp_path / "two"]
    graders = [
        context.Process(target=grader, args=(out, url, pick, together)) for out, pick in zip(outs, picks, strict=True)
    ]
    for each in graders:
        each.start()
    for each in graders:
        each.join(120)
        each.kill()
    assert [each.exitcode for each in graders] == [0, 0]
    assert_each_is_there_once(outs[0], url)


@pytest.mark.whole
def test_a_connection_that_is_cut_again_and_again_loses_and_doubles_nothing(tmp_path, url, server):
    cutter = create_engine(server, isolation_level="AUTOCOMMIT")
    cut = text("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = :name")
    dice, over, cuts = random.Random(5), threading.Event(), []
    begun = time.monotonic()
    write(tmp_path, url, classroom.verdict(STUDENTS[0]))
    usual = time.monotonic() - begun  # seconds of a write here and now: between two cuts some fit, and some do not

    def cutting():
        with cutter.connect() as connection:
            while not over.wait(dice.uniform(0.1, 2.5) * usual):
                cuts.append(connection.execute(cut, {"name": make_url(url).database}).scalar())

    threading.Thread(target=cutting, daemon=True).start()
    left, told, end = list(STUDENTS), [], time.monotonic() + 120
    try:
        while (left or len(told) < 10) and time.monotonic() < end:
            student = left[0] if left else dice.choice(STUDENTS)  # until ten were met: the same verdicts once more
            try:
                write(tmp_path, url, classroom.verdict(student))
                left = [each for each in left if each != student]
            except GradebookError as error:
                told.append(str(error))
    finally:
        over.set()
    assert left == []
    assert len(told) >= 10, cuts
    assert_each_is_there_once(tmp_path, url)
    cutter.dispose()


def test_graders_of_one_database_ask_with_the_same_seeds(tmp_path, url):
    with Recorder(tmp_path / "one", TINY, url) as first:
        made = first.secret(b"1" * 32)
    with Recorder(tmp_path / "two", TINY, url) as second:
        assert second.secret(b"2" * 32) == made == b"1" * 32


def test_a_server_that_is_gone_is_named_without_its_password(tmp_path):
    with pytest.raises(GradebookError) as met:
        write(tmp_path, "postgresql+psycopg://ada:secret@127.0.0.1:1/class", classroom.verdict("ada"))
    assert "127.0.0.1:1/class" in str(met.value)
    assert "secret" not in str(met.value)


def test_the_history_is_kept_there_too_and_a_student_can_be_forgotten(url, tmp_path):
    write(tmp_path, url, classroom.verdict("ada", FAILED), classroom.verdict("bo"))
    write(tmp_path, url, classroom.verdict("ada"))
    with record.book(tmp_path, TINY) as book:
        with book.transaction() as connection:
            for change in (
                "UPDATE across_history SET points_now = 9",
                "DELETE FROM across_history",
                "DELETE FROM across_evidence",
            ):
                assert connection.execute(text(change)).rowcount == 0
        told = [(each.exercise, each.points_was, each.points_now) for each in history.entries(book, NAME, "ada")]
        assert told == [("pick", None, 0.0), ("spread", None, 2.0), ("why", None, 0.0), ("pick", 0.0, 3.0)]
        with book.transaction() as connection:
            forgetting.take_out(connection, schema.HISTORY, "ada")
        assert {each.student for each in history.entries(book, NAME)} == {"bo"}
