"""`autograder forget`: a student of whom nothing is left."""

import csv
import json
import os
import shutil

import classroom
import courses
import pytest
from classroom import FAILED
from small_course import NAME, command

from autograder.gradebook import forgetting
from autograder.gradebook.record import records
from autograder.model.harmless import field

SECRET = "what nobody else wrote"


@pytest.fixture(scope="module")
def class_(small, tmp_path_factory):
    """OUT of a class of Tabitha and Bob, with what an instructor's programs wrote beside it."""
    out, chapter = tmp_path_factory.mktemp("kept") / "out", small.chapter(NAME)
    said = {"tabitha": (*FAILED[:2], SECRET), "bob": FAILED}
    verdicts = [classroom.verdict(student, each, each, each, tiny=chapter) for student, each in said.items()]
    classroom.record(out, *verdicts, tiny=chapter, at="2026-01-05 11:00:00 UTC")
    command("report", NAME, "--out", out, root=small.root)
    (out / ".seed").write_bytes(b"s" * 32)
    lines = "file,student,taken\nx.ipynb,tabitha,yes\ny.ipynb,bob,yes\n"
    (out / f"handed_in_{NAME}.csv").write_text(lines)
    log = [{"event": "job", "student": "tabitha"}, {"event": "job", "student": "bob"}]
    (out / "grading.log").write_text("".join(json.dumps(line) + "\n" for line in log))
    return out


@pytest.fixture
def out(class_, tmp_path):
    return shutil.copytree(class_, tmp_path / "out")


def holding(out, what):
    """The files in OUT that hold these bytes."""
    return [path for path in out.rglob("*") if path.is_file() and what in path.read_bytes()]


def test_nothing_is_left_of_a_student_who_is_forgotten_and_all_of_the_others(small, out):
    assert holding(out, SECRET.encode())
    assert holding(out, b"tabitha")
    command("forget", "tabitha", "--out", out, "--yes", root=small.root)
    assert holding(out, SECRET.encode()) == []
    assert holding(out, b"tabitha") == []
    assert not list(out.glob("*/tabitha"))
    assert [each.student for each in records(out, small.chapter(NAME))] == ["bob"]
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
    assert (count, [row[1] for row in rest][1:]) == (1, [field(stays)])


def test_without_yes_nothing_goes_and_what_would_is_listed(small, out):
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    done = command("forget", "tabitha", "--out", out, root=small.root)
    assert NAME in done.stdout
    assert f"{out}/submitted/tabitha" in "".join(done.stdout.split("\n"))
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_where_the_name_stands_still_is_told(small, out):
    (out / "notes.txt").write_text("tabitha asked for her marks")
    done = command("forget", "tabitha", "--out", out, "--yes", root=small.root)
    assert f"has the name still: {out / 'notes.txt'}" in " ".join(done.stderr.split("\n"))


def test_a_short_name_is_told_of_lists_pages_and_archives_and_the_terms_page_goes(small, out):
    for name in ("term.html", "gradebook_of_the_lms.csv", "notes.txt"):
        (out / name).write_text("bob, 12 points")
    done = command("forget", "bob", "--out", out, "--yes", root=small.root)
    assert not (out / "term.html").exists()
    assert "gradebook_of_the_lms.csv" in done.stderr.replace("\n", "")
    assert "notes.txt" not in done.stderr  # "bob" is a word


@pytest.mark.parametrize("name", ["nobody", "..", "../../etc", ""])
def test_who_is_not_there_is_not_forgotten(small, out, name):
    done = command("forget", name, "--out", out, "--yes", root=small.root, code=2)
    assert "nothing is kept of a student" in done.stderr
    assert os.path.isdir(out / "submitted" / "bob")
