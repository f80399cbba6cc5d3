"""The demo: a class of 30 invented submissions gets, student by student, the marks that it was made for."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import courses
import pytest

import demo
from autograder.model.course import find
from autograder.model.verdict import Result
from autograder.sandbox import boxes
from autograder.submissions import intake

COURSE = find()
CHAPTER = demo.chapter_of(COURSE)
STUDENTS = demo.students(COURSE)
DEADLINE = 1200.0  # seconds for the whole class

pytestmark = pytest.mark.classes


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    """Where tools/demo.py has written the class and its marks."""
    if problem := boxes.problem():
        pytest.skip(f"no sandbox here: {problem}")
    place = tmp_path_factory.mktemp("demo")
    command = [sys.executable, str(COURSE.root / "tools" / "demo.py"), "--out", str(place / "out")]
    with open(place / "log", "w+b") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            code = process.wait(DEADLINE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        log.seek(0)
        said = log.read().decode(errors="replace")
    assert code == 0, said[-4000:]
    assert "report.html" in said.splitlines()[-1]
    return place / "out"


@pytest.fixture(scope="module")
def marks(out) -> dict[str, dict[str, dict[str, str]]]:
    """The rows of marks.csv: student -> exercise -> row."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in courses.table(out / "marks.csv"):
        found.setdefault(row["student"], {})[row["exercise"]] = row
    return found


def test_the_class_has_thirty_students(marks):
    assert len(STUDENTS) == 30
    assert marks.keys() == {student.name for student in STUDENTS}


@pytest.mark.parametrize("student", STUDENTS, ids=lambda student: student.name)
def test_a_student_gets_the_marks_that_the_submission_was_made_for(marks, student):
    rows = marks[student.name]
    assert rows.keys() == student.expected.keys()
    for name, expected in student.expected.items():
        row = rows[name]
        assert Result(row["verdict"]) in expected.results, (name, row)
        if expected.points is None:
            assert float(row["points"]) < float(row["max_points"]), (name, row)
        else:
            assert float(row["points"]) == expected.points, (name, row)
        assert expected.says in row["message"], (name, row)


def test_every_listed_misconception_is_in_the_class_once():
    wrong = {
        (v.answer, v.written_over(demo.build.solution_source(COURSE, CHAPTER)[v.answer]))
        for v in demo.listed(COURSE)
        if not v.correct
    }
    shown = {(answer, source) for student in STUDENTS for answer, source in student.answers.items()}
    assert wrong <= shown


def test_every_other_right_way_of_an_exercise_is_in_the_class_up_to_two():
    ways: dict[str, int] = {}
    for variant in demo.listed(COURSE):
        ways[variant.answer] = ways.get(variant.answer, 0) + variant.correct
    students = {student.name: student for student in STUDENTS}
    for answer, count in ways.items():
        sources = {students[name].answers[answer] for name in ("ada", "alan", "barbara")}
        assert len(sources) == 1 + min(count, 2)


def test_a_talkative_student_did_talk(out):
    notebook = json.loads((out / "autograded" / "chatty" / CHAPTER / f"{CHAPTER}.ipynb").read_text())
    said = "".join(str(output.get("text")) for cell in notebook["cells"] for output in cell.get("outputs", []))
    assert "thinking aloud" in said
    assert "are you sure?" in said


def test_there_is_feedback_for_everybody_and_a_report(out):
    assert (out / "report.html").stat().st_size > 10_000
    for student in STUDENTS:
        assert (out / "feedback" / student.name / CHAPTER / f"{CHAPTER}.html").stat().st_size > 1_000, student.name


def test_the_class_is_laid_out_as_nbgrader_does(tmp_path):
    chapter = COURSE.chapter(CHAPTER)
    found = intake.collect(demo.make(COURSE, tmp_path), chapter)
    read = {each.student: intake.read(each, chapter) for each in found}
    assert read["ada"].timestamp == demo.ON_TIME
    assert read["tardy"].timestamp == demo.LATE
    assert read["absent"].nothing
    assert read["corrupt"].refused
    assert read["double"].invalid
