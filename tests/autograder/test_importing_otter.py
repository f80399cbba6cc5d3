"""`autograder import` of master notebooks of otter's `assign`."""

from __future__ import annotations

from pathlib import Path

import nbformat
import nbgrader_course as nb
import pytest
from boxed import needs_a_box

from autograder.authoring import build, importing
from autograder.model import test_cells
from autograder.model.course import CourseError


def raw(source: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_raw_cell(source)


def ran(source: str, output: str) -> nbformat.NotebookNode:
    """A code cell whose last value was shown."""
    shown = nbformat.v4.new_output("execute_result", {"text/plain": output})
    return nbformat.v4.new_code_cell(source, outputs=[shown])


def question(config: str, answer: list, tests: list) -> list:
    made = [raw(f"# BEGIN QUESTION\n{config}"), nb.cell("What is it?", "markdown")]
    made += [raw("# BEGIN SOLUTION"), *answer, raw("# END SOLUTION")]
    made += [raw("# BEGIN TESTS"), *tests, raw("# END TESTS")] if tests else []
    return [*made, raw("# END QUESTION")]


DOUBLE = """\
def double(x):
    y = 2 * x # SOLUTION
    # BEGIN IGNORE
    print("mine")
    # END IGNORE
    return y # SOLUTION

four = double(2) # SOLUTION"""
HIDDEN = '""" # BEGIN TEST CONFIG\npoints: 3\nhidden: true\n""" # END TEST CONFIG\n'
MASTER = (
    raw("# ASSIGNMENT CONFIG\nname: hw01\nfiles:\n    - data.csv"),
    nb.cell("# Homework", "markdown"),
    nb.cell("import math"),
    *question(
        "name: q1\npoints: 4",
        [nb.cell(DOUBLE)],
        [
            ran("double(3) == 6", "True"),
            ran("four", "4"),
            nb.cell(f"{HIDDEN}def test_more(double, env):\n    assert double(7) == 14\n\ntest_more(double)  # IGNORE"),
        ],
    ),
    *question(
        "name: q 2\nall_or_nothing: true",
        [nb.cell("word = 'a' # SOLUTION")],
        [ran("word", "'a'"), ran("len(word)", "1")],
    ),
    *question("name: why\nmanual: true\npoints: 2", [nb.cell("**Because.**", "markdown")], []),
)


def put(root: Path, *cells) -> Path:
    place = root / "hw01" / "hw01.ipynb"
    place.parent.mkdir(parents=True)
    place.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=list(cells))), encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> importing.Imported:
    root = tmp_path_factory.mktemp("otter")
    return importing.import_course(put(root / "theirs", *MASTER), root / "course", source=".")


def test_questions_become_answers_and_test_cells_with_otters_points(imported):
    assert imported.refused == []
    chapter = imported.course.chapter("hw01")
    assert [(each.grade_id, each.max_points, each.manual) for each in chapter.exercises] == [
        ("q1_test_1", 0.5, False),
        ("q1_test_2", 0.5, False),
        ("q1_test_3", 3.0, False),
        ("q_2_test_1", 1.0, False),
        ("why", 2.0, True),
    ]
    cells = {cell.grade_id: cell.source for cell in test_cells.read(imported.course.source("hw01"))}
    assert cells["q1_test_1"] == "assert double(3) == 6"
    assert cells["q1_test_2"] == "assert (four) == 4"
    assert "test_more(double, globals())" in cells["q1_test_3"]
    assert cells["q_2_test_1"] == "assert (word) == 'a'\n\nassert (len(word)) == 1"


def test_students_get_names_and_stubs_and_neither_solution_nor_hidden_test(imported):
    release = imported.course.notebook("hw01").read_text()
    assert not [
        secret for secret in ("2 * x", "mine", "double(7)", "Because", "BEGIN", "ASSIGNMENT") if secret in release
    ]
    assert (
        imported.course.chapter("hw01").answers["q1"] == "def double(x):\n    # y = ...\n    ...\n\n# four = ...\n..."
    )
    assert build.solution_source(imported.course, "hw01")["q_2"] == "# word = ...\nword = 'a'"


def test_what_blank_prose_gets_is_said_once(imported):
    assert ["1 manually graded answers and tasks" in note for note in imported.notes] == [True]


@needs_a_box
@pytest.mark.whole
def test_it_is_graded_and_its_solution_has_every_point(imported, tmp_path: Path):
    course = imported.course
    solution = build.solution_source(course, "hw01")
    nb.hand_in(course, "hw01", tmp_path / "submitted", "ada", solution)
    nb.hand_in(course, "hw01", tmp_path / "submitted", "bob", solution | {"q1": solution["q1"].replace("2 *", "3 *")})
    nb.grade_here(course, "hw01", tmp_path / "submitted", tmp_path / "out")
    found = nb.rows(course, "hw01", tmp_path / "out")
    assert {
        student: sum(row.points for (who, _), row in found.items() if who == student) for student in ("ada", "bob")
    } == {
        "ada": 5.0,
        "bob": 1.0,
    }


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([raw("# BEGIN QUESTION\npoints: 1"), raw("# END QUESTION")], "cell 1: a question without a name"),
        ([raw("# BEGIN QUESTION\nname: q1")], 'question "q1" has no end'),
        ([raw("# BEGIN TESTS")], "cell 1: `# BEGIN TESTS` outside of a question"),
    ],
)
def test_what_is_no_master_notebook_is_named_with_its_cell(tmp_path: Path, cells: list, says: str):
    with pytest.raises(CourseError) as error:
        importing.import_course(put(tmp_path / "theirs", *cells), tmp_path / "course", source=".")
    assert f"hw01/hw01.ipynb, {says}" in str(error.value)
