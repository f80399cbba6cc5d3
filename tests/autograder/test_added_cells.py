"""Cells of a student's own count as far as an answer needs them: a helper is executed, and what only tries something is not."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import classroom
import courses
import pytest
from boxed import needs_a_box
from small_course import CHECKS, CODE, NAME, command

from across._process import needed_cells
from autograder.job import assemble, stages
from autograder.job.grade import Job
from autograder.model.course import Chapter, Course
from autograder.submissions import added_cells, intake, unanswered
from autograder.submissions.intake import Found, Submission

HEADER = "# ---\n# jupyter:\n#   across:\n#     limits: {cell_seconds: 3, revivals: 2}\n# ---\n\n"
GIVEN = 'import math\nfactor = 2\n\n# %% tags=["show"]\nseen = [factor]'
DOUBLE = "def double(x):\n    return times(x)"
HELPER = "def times(x):\n    return 2 * x"
SECOND = "def times(x, by):\n    return x + by"
SHIFT = "def shift(x, by):\n    return times(x, by)"
RIGHT = {"double": DOUBLE, "shift": "def shift(x, by):\n    return x + by"}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    source = HEADER + CODE.replace("import numpy as np", GIVEN)
    return courses.write(tmp_path_factory.mktemp("own") / "course", NAME, source, CHECKS)


@pytest.fixture(scope="module")
def chapter(course: Course) -> Chapter:
    return course.chapter(NAME)


def own(source: str, cell_id: str = "mine") -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": source,
    }


def notebook(chapter: Chapter, answers: dict[str, str], *cells: tuple[str, str]) -> dict[str, Any]:
    """The chapter with answers, and with cells above those of the ids: (id of a cell, source)."""
    made = []
    for cell in chapter.release["cells"]:
        made += [own(source, f"own{number}") for number, (at, source) in enumerate(cells) if at == cell["id"]]
        made.append({**cell, "source": answers.get(cell["id"], cell["source"])})
    return {**chapter.release, "cells": made}


@pytest.fixture
def read(chapter: Chapter, tmp_path: Path):
    def made(answers: dict[str, str], *cells: tuple[str, str], change: Any = lambda cells: None) -> Submission:
        content = notebook(chapter, answers, *cells)
        change(content["cells"])
        (tmp_path / NAME).mkdir(exist_ok=True)
        (tmp_path / NAME / f"{NAME}.ipynb").write_text(json.dumps(content))
        return intake.read(Found("ada", tmp_path), chapter)

    return made


def ran(submission: Submission, chapter: Chapter) -> list[str]:
    return [cell.source for cell in assemble.assemble(submission, chapter).cells if assemble.is_executed(cell)]


def test_a_helper_is_executed_where_it_stands_and_what_it_needs_with_it(read, chapter):
    got = read(RIGHT, ("double", "two = 2"), ("double", HELPER.replace("2", "two")), ("double", "print(times(3))"))
    first, *others = ran(got, chapter)
    assert first.startswith("import math")
    assert others == ["two = 2", HELPER.replace("2", "two"), DOUBLE, RIGHT["shift"]]


def test_what_is_left_out_is_named_for_the_student(read):
    tried = [("double", f"print({number})\nprint()") for number in range(5)]
    says = "Of your own cells these were not executed, as no answer needs what they bind: "
    assert read(RIGHT, ("double", HELPER), tried[0]).notes[0] == says + "`print(0)`."
    assert read(RIGHT, *tried).notes[0] == says + "`print(0)`, `print(1)`, `print(2)`, and 2 more."


def test_a_cell_that_gives_a_name_of_the_release_another_value_counts_for_an_answer_that_reads_it(read, chapter):
    reads = {**RIGHT, "double": "def double(x):\n    return factor * x"}
    assert "factor = 3" in ran(read(reads, ("double", "factor = 3")), chapter)
    assert "factor = 3" not in ran(read(RIGHT, ("double", "factor = 3"), ("double", HELPER)), chapter)


def test_a_cell_of_the_release_that_was_changed_stands_below_ours(read, chapter):
    def change(cells: list[dict[str, Any]]) -> None:
        (given,) = [cell for cell in cells if "factor = 2" in cell["source"]]
        given["source"] = "import math\nfactor = 3"

    got = read({**RIGHT, "double": "def double(x):\n    return factor * x"}, change=change)
    assert ran(got, chapter)[:2] == ["import math\nfactor = 2", "import math\nfactor = 3"]


def test_a_cell_of_an_earlier_release_is_nobodys(read):
    def change(cells: list[dict[str, Any]]) -> None:
        earlier = "import math\nfactor = 1"
        cells.insert(2, own(earlier, needed_cells.given_id("code", earlier)))

    got = read({**RIGHT, "double": "def double(x):\n    return factor * x"}, change=change)
    assert (got.added, got.notes) == ((), ())


def test_what_was_tried_below_the_check_does_not_count(read):
    assert read(RIGHT, ("double", HELPER), ("shift", "def times(x):\n    return 0")).added[1:] == ()


def test_an_answer_may_stand_in_a_cell_of_ones_own_between_its_cell_and_its_check(read, chapter):
    got = read({**RIGHT, "double": "# see below"}, ("check_double", "def double(x):\n    return 2 * x"))
    assert "def double(x):\n    return 2 * x" in ran(got, chapter)
    assert unanswered.blank(got, chapter) == set()


def test_an_exercise_that_was_left_as_released_is_blank_whatever_was_added(read, chapter):
    got = read({}, ("double", HELPER), ("check_double", "def double(x):\n    return 2 * x"))
    assert got.added == ()
    assert unanswered.blank(got, chapter) == {"double", "shift"}


def test_the_digest_is_of_the_cells_that_count_and_of_no_other(read, chapter):
    def digest(*cells: tuple[str, str]) -> str:
        rubric: Any = SimpleNamespace(chapter=chapter, digest="")
        return Job(read(RIGHT, *cells), rubric, 1).answers

    plain, helped = digest(), digest(("double", HELPER))
    assert digest(("double", "print(1)")) == plain != helped
    assert digest(("double", HELPER), ("shift", "print(2)")) == helped != digest(("double", HELPER + "\n"))


def test_only_so_many_cells_are_read_and_so_many_bytes(read, chapter):
    got = read(RIGHT, *[("double", "times = len('a')")] * (added_cells.MOST + 5))
    assert len(got.added) == added_cells.MOST
    most = chapter.limits.cell_bytes
    long = read(RIGHT, ("double", "#" * (most + 1)))
    assert (
        f"Of your own cells, number 4 was not executed: of its {most + 1} bytes at most {most} are read." in long.notes
    )
    many = read(RIGHT, *[("double", "times = len('a')".ljust(most))] * 9)
    assert sum(len(source) for _, _, source in many.added) == added_cells.BYTES


def test_where_a_name_means_something_else_further_down_an_exercise_is_asked_where_its_check_stands(read, chapter):
    got = read({**RIGHT, "shift": SHIFT}, ("double", HELPER), ("shift", SECOND))
    rubric: Any = SimpleNamespace(chapter=chapter, tests=())
    cells = assemble.assemble(got, chapter).cells
    (place,) = [
        n for n, cell in enumerate(cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == "check_double"
    ]
    assert stages.Stages.of(got, rubric).ends == {"double": place}


def test_check_brings_a_shown_cell_whose_name_an_answer_uses_as_grade_does(course, tmp_path):
    answer = tmp_path / "answer.py"
    answer.write_text("def double(x):\n    return seen[0] * x")
    done = command("check", NAME, "double", "--answer", answer, root=course.root)
    assert "3 of 3" in done.stdout


CLASS: dict[str, tuple[dict[str, str], list[tuple[str, str]]]] = {
    "ada": (RIGHT, [("double", HELPER), ("double", "while True: pass")]),
    "bob": ({**RIGHT, "shift": SHIFT}, [("double", HELPER), ("shift", SECOND)]),
    "eve": (RIGHT, [("double", f"{HELPER}\nwhile True: pass")]),
    "mal": (RIGHT, [("double", f"import os\n{HELPER}\nos._exit(0)")]),
    "own": ({}, [("check_double", "def double(x):\n    return 2 * x")]),
}


@pytest.fixture(scope="module")
def out(course: Course, chapter: Chapter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("class")
    for student, (answers, cells) in CLASS.items():
        (root / "in" / student / NAME).mkdir(parents=True)
        content = json.dumps(notebook(chapter, answers, *cells))
        (root / "in" / student / NAME / f"{NAME}.ipynb").write_text(content)
    command("grade", NAME, "--submissions", root / "in", "--out", root / "out", root=course.root)
    return root / "out"


@needs_a_box
@pytest.mark.parametrize(
    ("student", "points"),
    [("ada", (2, 3)), ("bob", (2, 3)), ("eve", (0, 3)), ("mal", (0, 3)), ("own", (0, 0))],
)
def test_a_helper_earns_what_it_ticks_and_one_that_hangs_or_kills_costs_only_who_needs_it(out, student, points):
    marks = {name: float(row["points"]) for (who, name), row in courses.marks(out).items() if who == student}
    assert (marks["double"], marks["shift"]) == points


@needs_a_box
def test_the_page_shows_the_cells_that_counted_and_names_the_others(out):
    page = classroom.shown(out / "feedback" / "ada" / NAME / f"{NAME}.html").get_text()
    assert "these were not executed, as no answer needs what they bind: while True: pass." in page
    assert page.count("while True: pass") == page.count("def times(x):") == 1
