"""A class of 120 whose truth is known, for it was made so: graded, exported, and read back as Canvas reads.

The course's own chapter, as an instructor has it: Canvas's zip, a roster, times, an extension. Every mark, label and total
is what the making of the class says; an ordinary user gives the same marks as root.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import courses
import lms_downloads
import ordinary_user
import pytest
from boxed import needs_a_box

import demo
from autograder.authoring import build
from autograder.model.course import find
from autograder.probe import asking
from autograder.probe.listed import Variant

pytestmark = [pytest.mark.slow, needs_a_box]

COURSE = find()
NAME = demo.chapter_of(COURSE)
CHAPTER = COURSE.chapter(NAME)
SIZE = 120
DUE = datetime(2025, 11, 30, 23, 59, tzinfo=UTC)
RATE = 0.1  # of the points, a day begun
ALMOST = -timedelta(minutes=5)  # a quarter of an hour is forgiven
RIGHT, WRONG, BLANK, USES_ONE = "right", "wrong", "blank", "uses one that is not right"


@dataclass
class Truth:
    """A student as they were made."""

    name: str
    number: int  # Canvas's
    fates: dict[str, str] = field(default_factory=dict)  # exercise -> one of the four above
    wrong: dict[str, Variant] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    file: str = "notebook"  # pdf: handed in something else; none: nothing
    days: int = 0  # begun after the due date

    @property
    def marked(self) -> bool:
        return self.file == "notebook"


def uses(source: str, others: dict[str, str]) -> set[str]:
    """The other answers whose names stand in a source."""
    return {name for name in others if re.search(rf"\b{name}\b", source)}


def made() -> list[Truth]:
    """The class; the same at every run."""
    toss = random.Random(120)
    reference = build.solution_source(COURSE, NAME)
    variants = demo.listed(COURSE)
    students = []
    for number in range(SIZE):
        one = Truth(f"student{number:03}", 1000 + number)
        if number % 40 == 7:
            one.file = "pdf"
        elif number % 40 == 23:
            one.file = "none"
        one.days = {11: 1, 12: 3}.get(number % 40, 0)
        for exercise in CHAPTER.exercises:
            name = exercise.name
            if exercise.manual:
                one.fates[name], one.answers[name] = RIGHT, reference[name]
                continue
            mine = [each for each in variants if name == each.answer == (each.exercise or name)]
            wrong, right = [each for each in mine if not each.correct], [each for each in mine if each.correct]
            earlier = {each for each in uses(reference[name], one.fates) if one.fates[each] != RIGHT}
            fate = toss.random()
            source = reference[name]
            if earlier:
                one.fates[name] = USES_ONE if fate < 0.5 else BLANK
            elif fate < 0.25 and wrong:
                one.wrong[name] = toss.choice(wrong)
                source = one.wrong[name].written_over(reference[name])
                one.fates[name] = WRONG
            else:
                one.fates[name] = BLANK if fate > 0.9 else RIGHT
                if fate > 0.7 and right:
                    source = toss.choice(right).written_over(reference[name])
            if one.fates[name] != BLANK:
                one.answers[name] = f"{source}\n# {one.name}"  # nobody's answer is another's
        students.append(one)
    return students


STUDENTS = made()


def prepare(folder: Path) -> None:
    """What the instructor has: Canvas's zip and gradebook, the roster, the times, an extension."""
    with zipfile.ZipFile(folder / "submissions.zip", "w") as archive:
        for one in STUDENTS:
            late = "LATE_" if one.days else ""
            stem = f"{one.name}_{late}{one.number}_{90000 + one.number}"
            if one.marked:
                notebook = demo.notebook_bytes(demo.Student(one.name, "", one.answers), CHAPTER)
                assert notebook
                lms_downloads.put(archive, f"{stem}_{NAME}.ipynb", notebook)
            elif one.file == "pdf":
                lms_downloads.put(archive, f"{stem}_report.pdf", b"%PDF-1.7")
    tables: dict[str, list[list[object]]] = {
        "class.csv": [["id", "lms id", "name", "email"]],
        "times.csv": [["lms id", "handed in"]],
        "extensions.csv": [["id", "chapter", "days", "time"], [extended().name, "03", extended().days, 1]],
        "gradebook.csv": [
            ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Device placement (7001)"],
            ["    Points Possible", "", "", "", "", sum(each.max_points for each in CHAPTER.exercises)],
        ],
    }
    for one in STUDENTS:
        tables["class.csv"].append([one.name, one.number, f"The {one.name}", f"{one.name}@u.example"])
        tables["gradebook.csv"].append([f"The {one.name}", one.number, f"s-{one.number}", one.name, "A", ""])
        if one.days:
            when = DUE + timedelta(days=one.days) + ALMOST
            tables["times.csv"].append([one.number, when.isoformat(timespec="minutes")])
    for name, rows in tables.items():
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)


def extended() -> Truth:
    """Who has as many days more as they took."""
    return next(one for one in STUDENTS if one.days > 1 and one.marked)


def autograder(folder: Path, words: str, as_user: int | None = None) -> str:
    """Run a command in the instructor's folder; what it printed."""
    line = [sys.executable, "-m", "autograder", "--course", str(COURSE.root), *words.split()]
    if as_user is not None:
        line = ordinary_user.command(as_user, folder, line)
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


GRADE = (
    f"grade 03 --submissions submissions.zip --roster class.csv --handed-in times.csv --extensions extensions.csv "
    f"--out class --due {DUE.isoformat(timespec='minutes')} --late-per-day {RATE:.0%} --grace 15m"
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """The instructor's folder after the class was graded and exported; open to other users, as pytest's own are not."""
    home = Path(tempfile.mkdtemp(prefix="across-class-", dir="/tmp"))
    home.chmod(0o755)
    prepare(home)
    autograder(home, GRADE)
    autograder(home, "export 03 --out class --canvas gradebook.csv --roster class.csv --waiting")
    yield home
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def marks(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    return courses.marks(folder / "class")


def test_nobody_is_lost(marks):
    assert set(marks) == {(one.name, each.name) for one in STUDENTS for each in CHAPTER.exercises}
    for one in STUDENTS:
        seen = {marks[one.name, each.name]["verdict"] for each in CHAPTER.exercises}
        if not one.marked:
            assert seen == {{"pdf": "invalid", "none": "absent"}[one.file]}, one.name


def test_every_mark_is_what_the_answer_earned(marks):
    odd = []
    for one in STUDENTS:
        for exercise in CHAPTER.exercises:
            row = marks[one.name, exercise.name]
            points = float(row["points"])
            fate = one.fates[exercise.name]
            if not one.marked or exercise.manual:
                right = points == 0
            elif fate == RIGHT:
                right = points == exercise.max_points and row["verdict"] == "passed"
            elif fate == BLANK:
                right = points == 0 and row["verdict"] == "blank"
            else:  # a listed answer is wrong for half of the points at least
                right = fate == USES_ONE or (points <= exercise.max_points / 2 and row["fault"] == "STUDENT")
            if not right:
                odd.append((one.name, exercise.name, fate, one.wrong.get(exercise.name), row))
    assert odd == []


def test_every_name_is_right(marks):
    """One name is the right one; of several, all of whom get the sentence that the student got, it is one."""
    found, wrong = 0, []
    listed = {each.name: {} for each in CHAPTER.exercises}
    for each in demo.listed(COURSE):
        if not each.correct:
            listed[each.exercise or each.answer][each.name] = each.says
    for one in STUDENTS:
        for exercise in CHAPTER.exercises if one.marked else ():
            name, fate = marks[one.name, exercise.name]["misconception"], one.fates[exercise.name]
            told, its = {each for each in name.split(asking.OR) if each}, one.wrong.get(exercise.name)
            says = marks[one.name, exercise.name]["message"]
            alike = {each for each in told if each in listed[exercise.name] and listed[exercise.name][each] in says}
            right = its.name in told and told - {its.name} <= alike if its and fate == WRONG else not told
            if fate != USES_ONE and not right:
                wrong.append((one.name, fate, its, name))
            found += fate == WRONG
    assert wrong == []
    assert found > SIZE / 2  # each is a listed answer itself, with another comment


def expected_total(one: Truth, marks: dict[tuple[str, str], dict[str, str]]) -> float:
    raw = sum(float(marks[one.name, each.name]["points"]) for each in CHAPTER.exercises)
    return raw * (1 - RATE * one.days * (one is not extended()))


def test_totals_are_the_marks_less_the_penalty(folder, marks):
    totals = {row["student"]: float(row["total"]) for row in courses.table(folder / "class" / "totals.csv")}
    assert totals == {one.name: pytest.approx(expected_total(one, marks), abs=0.006) for one in STUDENTS}
    late = [one for one in STUDENTS if one.days and one.marked and one is not extended()]
    assert len(late) >= 4


def test_canvas_reads_every_total_back(folder, marks):
    rows = courses.table(folder / "class" / "export" / "gradebook.csv")
    read = {row["ID"]: row["Device placement (7001)"] for row in rows if row["ID"]}
    assert set(read) == {str(one.number) for one in STUDENTS}
    for one in STUDENTS:
        if one.marked:
            assert float(read[str(one.number)]) == pytest.approx(expected_total(one, marks), abs=0.006), one.name


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user for this test")
def test_an_ordinary_user_gives_the_same_marks(folder, marks):
    home = folder / "another"
    home.mkdir()
    prepare(home)
    (home / "class").mkdir(mode=0o700)
    shutil.copy(folder / "class" / ".seed", home / "class" / ".seed")
    folder.chmod(0o755)
    autograder(home, GRADE, as_user=ordinary_user.free_number())
    theirs = courses.marks(home / "class")
    differ = {key: (marks[key], row) for key, row in theirs.items() if decided(row) != decided(marks[key])}
    assert json.dumps(differ, indent=1) == "{}"
    assert set(theirs) == set(marks)


def decided(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[each] for each in ("points", "verdict", "fault", "message", "misconception"))
