"""Extensions: those of nbgrader's gradebook are honoured at the next `grade`, and a table is a front door to them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import classroom
import pytest
from boxed import needs_a_box
from classroom import TINY, write
from nbgrader.api import Gradebook
from small_course import NAME, command

from autograder.gradebook import late_penalty, record
from autograder.gradebook.record import Recorder
from autograder.job.grade import Job
from autograder.model.course import CourseError
from autograder.model.rubric import Rubric
from autograder.submissions import extensions
from autograder.submissions.extensions import DAY, Extension
from autograder.submissions.intake import Submission

DUE, LATE = "2026-01-05T12:00+00:00", "2026-01-06 13:00:00 UTC"  # the second day has started
POLICY = ("--due", DUE, "--late-per-day", "10%")
CHAPTERS = {name: classroom.NAME for name in ("01", classroom.NAME, "tiny")}


def full_name(name: str) -> str:
    if name not in CHAPTERS:
        raise CourseError(f"no chapter {name!r}")
    return CHAPTERS[name]


def grant(out: Path, course: str, chapter: str, student: str, days: int) -> None:
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}", course) as book:
        book.grant_extension(chapter, student, days=days)


@needs_a_box
@pytest.mark.whole
def test_an_extension_counts_at_the_next_grade_and_a_factor_of_time_travels_in_the_job(small, hand_in, tmp_path):
    out, table = tmp_path / "out", tmp_path / "extensions.csv"
    for student in ("ada", "bob", "cem"):
        folder = hand_in(student)
        (folder / student / NAME / "timestamp.txt").write_text(LATE)
    call = ("grade", NAME, "--submissions", folder, "--out", out)
    command(*call, *POLICY, root=small.root)
    chapter = small.chapter(NAME)
    before = {each.student: each for each in record.records(out, chapter)}
    assert {each.penalty for each in before.values()} == {1.0}

    grant(out, small.id, NAME, "bob", 3)
    table.write_text("id,chapter,days,time\nada,90,2,1.5\nzoe,90,1,\n")
    done = command(*call, "--extensions", table, root=small.root)
    assert "1 graded, 2 unchanged" in done.stdout  # whose limits are others: who is late otherwise is not graded again
    assert "line 3 (zoe): nobody of that id is in the class yet" in done.stderr
    after = {each.student: each for each in record.records(out, chapter)}
    assert {student: each.penalty for student, each in after.items()} == {"ada": 0.0, "bob": 0.0, "cem": 1.0}
    assert {student for student, each in after.items() if each.verdict.digest != before[student].verdict.digest} == {
        "ada"
    }

    done = command(*call, root=small.root)  # it is remembered
    assert "0 graded, 3 unchanged" in done.stdout, done.stderr
    said = json.loads(command("explain", "ada", NAME, "--out", out, "--json", root=small.root).stdout)
    assert (said["due"], said["extension"], said["penalty"]) == ("2026-01-07T12:00:00", 2 * DAY, 0.0)
    assert said["verdict"]["evidence"]["parts"]["time"] == "1.5 times the chapter's"
    page = (out / "feedback" / "ada" / NAME / f"{NAME}.html").read_text(encoding="utf-8")
    assert "Due 2026-01-07 12:00 UTC, with your extension of 2 d." in page
    assert "1.5 times the chapter" in page
    assert "Due 2026-01-05 12:00 UTC." in (out / "feedback" / "cem" / NAME / f"{NAME}.html").read_text(encoding="utf-8")


def test_only_whose_factor_it_is_gets_other_limits_and_another_digest():
    rubric = Rubric(TINY, (), "checks", "grader", "environment")
    more = rubric.with_time(1.5)
    changed = {
        name: value for name, value in asdict(more.chapter.limits).items() if value != getattr(TINY.limits, name)
    }
    assert changed == {
        name: 1.5 * getattr(TINY.limits, name) for name in ("cell_seconds", "notebook_seconds", "question_seconds")
    }
    assert rubric.with_time(1.0) is rubric
    submission = Submission("ada", classroom.NAME, {"pick": "x"})
    digests = {Job(submission, each, 1).digest for each in (rubric, more, rubric.with_time(2.0))}
    assert len(digests) == 3
    same_limits = Rubric(replace(TINY, limits=more.chapter.limits), (), "checks", "grader", "environment")
    assert same_limits.digest != more.digest  # and nobody's by a header is taken for it


def test_a_date_stays_where_it_is_when_the_due_date_moves_and_days_move_with_it(tmp_path):
    late_penalty.settle(tmp_path, TINY, DUE, "10%", None)
    assert write(tmp_path, LATE).penalty == 1.0
    until = Extension("ada", classroom.NAME, until="2026-01-06T12:00:00Z", where="x.csv, line 2 (ada)")
    assert write(tmp_path, LATE, until).penalty == 0.5
    late_penalty.settle(tmp_path, TINY, "2026-01-04T12:00+00:00", None, None)
    moved = write(tmp_path, LATE)
    assert (moved.penalty, moved.extension) == (0.5, 2 * DAY)
    days = Extension("ada", classroom.NAME, seconds=DAY)
    assert write(tmp_path, LATE, days).penalty == 1.0
    with pytest.raises(CourseError, match=r"x\.csv, line 2 \(ada\): until .* is before it is due"):
        write(tmp_path, LATE, replace(until, until="2026-01-01T12:00:00Z"))


def test_what_was_given_last_counts_and_nothing_takes_back_what_was_given_elsewhere(tmp_path):
    late_penalty.settle(tmp_path, TINY, DUE, "10%", None)
    days = Extension("ada", classroom.NAME, seconds=DAY)
    assert write(tmp_path, LATE, days).penalty == 0.5  # before anything was handed in, too
    grant(tmp_path, "across", classroom.NAME, "ada", 7)
    assert write(tmp_path, LATE).penalty == 0.0
    assert write(tmp_path, LATE, days).penalty == 0.0  # as said before: no news
    assert write(tmp_path, LATE, replace(days, seconds=0.0)).penalty == 1.0
    assert (
        write(tmp_path, LATE, Extension("ada", "", seconds=9 * DAY)).penalty == 1.0
    )  # the chapter's own line goes before it
    assert write(tmp_path, LATE, Extension("bob", "", seconds=9 * DAY), student="bob").penalty == 0.0


def test_a_line_on_time_alone_leaves_the_date_as_it_was(tmp_path):
    late_penalty.settle(tmp_path, TINY, DUE, "10%", None)
    write(tmp_path, LATE, Extension("ada", classroom.NAME, seconds=3 * DAY))
    assert write(tmp_path, LATE, Extension("ada", classroom.NAME, time=2.0)).penalty == 0.0
    with Recorder(tmp_path, TINY) as recorder:
        assert dict(recorder.times) == {"ada": 2.0}
    with Recorder(tmp_path, TINY, extensions=[Extension("ada", classroom.NAME, time=1.0)]) as recorder:
        assert recorder.times["ada"] == 1.0


def test_a_table_says_who_gets_what(tmp_path):
    path = tmp_path / "extensions.csv"
    path.write_text(
        "\ufeffID,Chapter,days,until,time\nada,01,2,,\nbob,tiny,,2026-01-09T12:00+01:00,1.5\n\ncem,,,,2\n", "utf-8"
    )
    found = [replace(each, where="") for each in extensions.read(path, full_name)]
    assert found == [
        Extension("ada", classroom.NAME, 2 * DAY),
        Extension("bob", classroom.NAME, until="2026-01-09T11:00:00Z", time=1.5),
        Extension("cem", time=2.0),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,days\nada,2\n", "its first line must name the column `id`"),
        ("id,days,days\nada,2,2\n", "its first line must name"),
        ("id,chapter,days\nada,09,2\n", r"line 2 \(ada\): no chapter '09'"),
        ("id,days\nada,two\n", r"line 2 \(ada\): days: 'two'; write a number from 0 to 366"),
        ("id,days\nada,-1\n", r"line 2 \(ada\): days: '-1'"),
        ("id,days\nada,nan\n", r"line 2 \(ada\): days: 'nan'"),
        ("id,time\nada,0.5\n", r"line 2 \(ada\): time: '0.5'; write a number from 1 to 10"),
        ("id,chapter,until\nada,01,2026-01-09T12:00\n", r"line 2 \(ada\): until: .* add the offset"),
        ("id,until\nada,2026-01-09T12:00Z\n", r"line 2 \(ada\): until is a date for one chapter"),
        ("id,chapter,days,until\nada,01,1,2026-01-09T12:00Z\n", "it says days and until; keep one"),
        ("id,days\n,2\n", "line 2: it is of nobody"),
        ("id,days,time\nada,,\n", r"line 2 \(ada\): it says nothing"),
        ("id,days\nada,1\nada,2\n", r"line 3 \(ada\): ada stands on an earlier line"),
    ],
)
def test_a_table_that_cannot_be_right_is_refused_with_its_line(tmp_path, text, says):
    path = tmp_path / "extensions.csv"
    path.write_text(text)
    with pytest.raises(CourseError, match=rf"extensions\.csv.*{says}"):
        extensions.read(path, full_name)
