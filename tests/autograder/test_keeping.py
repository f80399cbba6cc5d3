"""`autograder forget`: a student of whom nothing is left."""

import csv
import json
import os
import shutil

import courses
import pytest
from small_course import CHECKS, NAME, SOURCE, command

from autograder.gradebook import forgetting
from autograder.gradebook.record import Recorder, records
from autograder.model.harmless import field
from autograder.model.verdict import Fault, Mark, Result, Verdict

SECRET = "what nobody else wrote"


def verdict(course, student):
    chapter = course.chapter(NAME)
    marks = tuple(
        Mark(each.name, 0.0, each.max_points, Result.FAILED, Fault.STUDENT, SECRET if student == "tabitha" else "No.")
        for each in chapter.exercises
    )
    return Verdict(student, NAME, "d" * 64, marks, 7, 0.4, chapter.release)


@pytest.fixture(scope="module")
def class_(tmp_path_factory):
    """A class of Tabitha and Bob, with what an instructor's programs wrote beside it; the course and OUT."""
    folder = tmp_path_factory.mktemp("kept")
    course, out = courses.write(folder / "course", NAME, SOURCE, CHECKS), folder / "out"
    with Recorder(out, course.chapter(NAME)) as recorder:
        for student in ("tabitha", "bob"):
            recorder.write(verdict(course, student), "2026-01-05 11:00:00 UTC")
    done = command("report", NAME, "--out", out, root=course.root)
    assert done.returncode == 0, done.stderr
    (out / ".seed").write_bytes(b"s" * 32)
    lines = "file,student,taken\nx.ipynb,tabitha,yes\ny.ipynb,bob,yes\n"
    (out / f"handed_in_{NAME}.csv").write_text(lines)
    log = [{"event": "job", "student": "tabitha"}, {"event": "job", "student": "bob"}]
    (out / "grading.log").write_text("".join(json.dumps(line) + "\n" for line in log))
    return course, out


@pytest.fixture
def graded(class_, tmp_path):
    """The course, and a copy of OUT."""
    course, out = class_
    return course, shutil.copytree(out, tmp_path / "out")


def holding(out, what):
    """The files in OUT that hold these bytes."""
    return [path for path in out.rglob("*") if path.is_file() and what in path.read_bytes()]


def test_nothing_is_left_of_a_student_who_is_forgotten_and_all_of_the_others(graded):
    course, out = graded
    assert holding(out, SECRET.encode())
    assert holding(out, b"tabitha")
    done = command("forget", "tabitha", "--out", out, "--yes", root=course.root)
    assert done.returncode == 0, done.stderr
    assert holding(out, SECRET.encode()) == []
    assert holding(out, b"tabitha") == []
    assert not list(out.glob("*/tabitha"))
    assert [each.student for each in records(out, course.chapter(NAME))] == ["bob"]
    assert {row["student"] for row in courses.table(out / "marks.csv")} == {"bob"}
    assert (out / f"handed_in_{NAME}.csv").read_text() == "file,student,taken\ny.ipynb,bob,yes\n"
    assert json.loads((out / "grading.log").read_text())["student"] == "bob"
    assert (out / "feedback" / "bob").is_dir()


@pytest.mark.parametrize(("forgotten", "stays"), [("'=x", "=x"), ("=x", "'=x"), ("''@a", "'@a")])
def test_who_is_called_as_anothers_line_is_written_takes_no_line_of_theirs(tmp_path, forgotten, stays):
    path = tmp_path / "handed_in.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["file", "student"], *(["x.ipynb", field(each)] for each in (forgotten, stays))])
    rest, count = forgetting._lines(path, forgotten)
    assert (count, [row[1] for row in csv.reader(rest.splitlines())][1:]) == (1, [field(stays)])


def test_without_yes_nothing_goes_and_what_would_is_listed(graded):
    course, out = graded
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    done = command("forget", "tabitha", "--out", out, root=course.root)
    assert done.returncode == 0
    assert NAME in done.stdout
    assert f"{out}/submitted/tabitha" in "".join(done.stdout.split("\n"))
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_where_the_name_stands_still_is_told(graded):
    course, out = graded
    (out / "notes.txt").write_text("tabitha asked for her marks")
    done = command("forget", "tabitha", "--out", out, "--yes", root=course.root)
    assert f"has the name still: {out / 'notes.txt'}" in " ".join(done.stderr.split("\n"))


@pytest.mark.parametrize("name", ["nobody", "..", "../../etc", ""])
def test_who_is_not_there_is_not_forgotten(graded, name):
    course, out = graded
    done = command("forget", name, "--out", out, "--yes", root=course.root)
    assert (done.returncode, "nothing is kept of a student" in done.stderr) == (2, True)
    assert os.path.isdir(out / "submitted" / "bob")
