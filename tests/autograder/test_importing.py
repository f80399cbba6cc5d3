"""`autograder import`: courses of nbgrader's, imported, released and graded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
import nbgrader
import nbgrader_course as nb
import pytest
from boxed import needs_a_box
from followed import follow_page, page

from autograder.authoring import importing
from autograder.gradebook import record
from autograder.model.course import Course
from autograder.model.verdict import Result

FORGED = """\
def double(x):
    import os, sys
    wire = sys.modules["autograder.probe.wire"]
    os.write(3, wire.encode({"value": {"ended": True, "points": None}}))
    raise ValueError("the answer was given already")
"""
SPIES = """\
import ast
read = ast.parse
def spy(source, *more, **others):
    print(source)
    raise AssertionError(source) if "double" in str(source) else SystemExit(source)
ast.parse = spy
def double(x):
    raise AssertionError(str(globals()))
"""
RIGHT = {"double": "def double(x):\n    return helper(x)", "first": "result = 6.0", "second": "result = 'six'"}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course with one notebook that has all that nbgrader's may have, and its data."""
    root = tmp_path_factory.mktemp("everything")
    folder = nb.put(root / "nbg", "ps1/ps1.ipynb", *nb.EVERYTHING)
    (folder / "source" / "ps1" / "data").mkdir()
    (folder / "source" / "ps1" / "data" / "numbers.csv").write_text("1,2\n")
    made = importing.import_course(folder, root / "course")
    assert made.refused == []
    return made.course


@pytest.fixture(scope="module")
def marked(
    everything: Course, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[tuple[str, str], record.Row]]:
    """A class of it, graded: where, and its rows by student and exercise."""
    root = tmp_path_factory.mktemp("marked")
    class_ = {
        "right": RIGHT | {"program": "print('mine')"},
        "wrong": RIGHT | {"second": "result = 'seven'", "double": "def double(x):\n    return 4"},
        "loud": RIGHT | {"double": "def double(x):\n    import sys\n    print('!', file=sys.stderr)\n    return 2 * x"},
        "exits": RIGHT | {"double": "def double(x):\n    import os\n    os._exit(0)"},
        "leaves": RIGHT | {"double": "def double(x):\n    raise SystemExit(0)"},
        "forges": RIGHT | {"double": FORGED},
        "spies": RIGHT | {"double": SPIES},
        "splits": RIGHT | {"double": "def double(x):\n    return twice * x"},
        "blank": {},
    }
    mine = [nb.cell("def helper(x):\n    return 2 * x"), nb.cell("<script>alert(1)</script> my project", "markdown")]
    for student, answers in class_.items():
        place = root / "submitted" / student / "ps1" / "ps1.ipynb"
        nb.hand_in(everything, "ps1", root / "submitted", student, answers, *(mine[1:] if answers else ()))
        notebook = json.loads(place.read_text())
        notebook["cells"][1:1] = mine[:1] if answers else []
        if student == "splits":  # JupyterLab gives both halves of a cell its metadata
            number = next(i for i, cell in enumerate(notebook["cells"]) if "twice" in cell["source"])
            notebook["cells"].insert(number, notebook["cells"][number] | {"source": "twice = 2", "id": "half"})
        place.write_text(json.dumps(notebook))
    (root / "submitted" / "absent").mkdir()
    nb.grade_here(everything, "ps1", root / "submitted", root / "out")
    return root / "out", nb.rows(everything, "ps1", root / "out")


def points(rows: dict[tuple[str, str], record.Row], student: str) -> dict[str, float]:
    return {exercise: row.points for (name, exercise), row in rows.items() if name == student}


ALL = {"test_double": 2, "test_first": 1, "test_second": 1, "partly": 3, "reads": 1, "program": 0, "project": 0}


@needs_a_box
def test_honest_answers_get_what_their_test_cells_say(marked):
    out, rows = marked
    assert "Weak: computed where the student" in (out / "report_ps1.html").read_text()
    for student in ("right", "splits", "loud"):  # an answer whose cell was split; one that writes to stderr
        assert points(rows, student) == ALL, student
    assert points(rows, "wrong") == ALL | {"test_double": 0, "test_second": 0, "partly": 1.5}
    assert rows["wrong", "partly"].verdict is Result.PARTIAL
    assert points(rows, "blank") == dict.fromkeys(ALL, 0) | {"reads": 1}
    assert set(points(rows, "absent").values()) == {0.0}
    assert {row.verdict for (student, _), row in rows.items() if student == "absent"} == {Result.ABSENT}


@needs_a_box
@pytest.mark.parametrize("student", ["exits", "leaves", "forges", "spies"])
def test_no_answer_or_a_forged_one_is_no_points_and_costs_others_only_what_they_rest_on(marked, student: str):
    found = points(marked[1], student)
    assert found["test_double"] == 0
    if student == "leaves":
        assert found == ALL | {"test_double": 0}
    elif student != "spies":  # that one took the parser of all test cells away; the others what `test_first` imports
        assert found == ALL | {"test_double": 0, "test_first": 0}


@needs_a_box
def test_a_hidden_test_is_in_no_release_no_page_and_no_message(everything: Course, marked):
    out, rows = marked
    assert nb.SECRET in everything.source("ps1").read_text()
    release = everything.notebook("ps1").read_text()
    assert not [hidden for hidden in (nb.SECRET, "2 * x") if hidden in release]
    assert "raise NotImplementedError()" in release  # nbgrader's own stub
    said = [row.message for row in rows.values()]
    pages = [path.read_text() for path in (out / "feedback").rglob("*.html")]
    assert len(pages) == 10
    assert not [text for text in (*said, *pages) if nb.SECRET in text or "double(21)" in text]
    assert rows["wrong", "test_double"].message == "Not yet: a hidden test of the cell `test_double` fails."


@needs_a_box
def test_programs_and_tasks_marked_by_hand_wait_and_show_what_the_student_added(everything: Course, marked):
    out, rows = marked
    assert rows["right", "program"].waiting
    assert rows["right", "project"].waiting
    assert rows["blank", "program"].verdict is rows["blank", "project"].verdict is Result.BLANK
    page = (out / "feedback" / "right" / "ps1" / "ps1.html").read_text()
    assert "my project" in page
    assert "<script>alert" not in page
    kept = nbformat.read(out / "autograded" / "right" / "ps1" / "ps1.ipynb", 4)
    assert "my project" in kept.cells[-1].source
    assert "<script>" not in kept.cells[-1].source.replace("```\n<script>", "")  # in a fence only
    with record.book(out, everything.chapter("ps1")) as book:
        assert book.find_grade("project", "ps1", "ps1", "right").needs_manual_grade
        assert not book.find_grade("project", "ps1", "ps1", "blank").needs_manual_grade
        for exercise, score in {"program": 3, "project": 5}.items():
            book.find_grade(exercise, "ps1", "ps1", "right").manual_score = score
        book.db.commit()
    again = nb.rows(everything, "ps1", out)
    assert points(again, "right") == ALL | {"program": 3, "project": 5}
    assert not again["right", "project"].waiting


def test_what_lies_beside_a_notebook_is_handed_out_with_it_and_no_hidden_test_is(everything: Course, tmp_path: Path):
    nb.autograder("--course", everything.root, "release", "ps1", "--out", tmp_path / "handout")
    assert (tmp_path / "handout" / "notebooks" / "data" / "numbers.csv").read_text() == "1,2\n"
    assert not [
        path for path in (tmp_path / "handout").rglob("*") if path.is_file() and nb.SECRET.encode() in path.read_bytes()
    ]


REFUSED = {
    "r.ipynb": (
        "its kernel is r; only Python",
        [nb.cell("1")],
        {"kernelspec": {"name": "ir", "language": "R", "display_name": "R"}},
    ),
    "new.ipynb": ('cell "t": nbgrader refuses it: Schema version is too new: 10', [nb.task("t", "do")], {}),
    "twice.ipynb": ("nbgrader refuses it: Duplicate grade id: a", [nb.answer("a", "1"), nb.autograded("a", "1")], {}),
    "points.ipynb": (
        "cell \"t\": nbgrader refuses it: nbgrader cell 't' does not have points",
        [nb.cell("1", grade_id="t", grade=True)],
        {},
    ),
    "region.ipynb": (
        'cell "a": nbgrader refuses it: no end solution statement found',
        [nb.answer("a", "### BEGIN SOLUTION")],
        {},
    ),
    "hidden.ipynb": (
        "cell 1: nbgrader refuses it: Hidden test region detected in a non-grade cell",
        [nb.cell("### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS")],
        {},
    ),
    "auto.ipynb": ('cell "t": AUTOTEST is no test yet', [nb.autograded("t", "### AUTOTEST a")], {}),
    "syntax.ipynb": ('cell "t": it is no Python that can be run by itself', [nb.autograded("t", "assert (")], {}),
    "prose.ipynb": (
        'cell "p": nbgrader refuses it: Markdown solution cell is not marked as a grade cell',
        [nb.cell("x", "markdown", grade_id="p", solution=True)],
        {},
    ),
}


def test_a_notebook_that_cannot_be_imported_is_named_with_its_mend_and_stops_no_other(tmp_path: Path):
    folder = nb.put(tmp_path / "nbg", "ps1/good.ipynb", *nb.SMALL)
    for name, (_, cells, metadata) in REFUSED.items():
        nb.put(folder, f"ps1/{name}", *cells, **metadata)
    new = folder / "source" / "ps1" / "new.ipynb"
    new.write_text(new.read_text().replace('"schema_version": 3', '"schema_version": 10'))
    (folder / "source" / "ps1" / "broken.ipynb").write_text("{")
    printed = " ".join(nb.autograder("import", folder, "--out", tmp_path / "course", code=2).split())
    for name, (says, *_) in REFUSED.items():
        assert f"source/ps1/{name}" in printed
        assert says in printed, name
    assert "source/ps1/broken.ipynb: is no notebook that can be read" in printed
    assert Course.read(tmp_path / "course").chapters == ("ps1_good",)


@pytest.mark.parametrize(("version", "name"), [(0, "test-v0"), (1, "test-v1"), (2, "test-v2"), (3, "test")])
def test_metadata_of_nbgraders_earlier_versions_becomes_the_third(tmp_path: Path, version: int, name: str):
    (tmp_path / "nbg" / "source" / "ps1").mkdir(parents=True)
    shutil.copy(
        Path(nbgrader.__path__[0]) / "tests" / "apps" / "files" / f"{name}.ipynb", tmp_path / "nbg/source/ps1/ps1.ipynb"
    )
    made = importing.import_course(tmp_path / "nbg", tmp_path / "course")
    assert [(each.grade_id, each.max_points, each.manual) for each in made.course.chapter("ps1").exercises] == [
        ("correct_squares", 1, False),
        ("squares_invalid_input", 1, False),
        ("correct_sum_of_squares", 0.5, False),
        ("sum_of_squares_uses_squares", 0.5, False),
        ("sum_of_squares_equation", 1, True),
        ("sum_of_squares_application", 2, True),
    ]


def test_a_courses_own_stubs_marks_and_header_are_kept(tmp_path: Path):
    source = "def double(x):\n    # A\n    return 2 * x\n    # Z"
    folder = nb.put(tmp_path / "nbg", "ps1/ps1.ipynb", nb.answer("double", source), nb.SMALL[2])
    nb.put(folder, "../header.ipynb", nb.cell("Put your name here.", "markdown"))
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\nc.ClearSolutions.code_stub = {'python': 'pass  # yours'}\nc.CourseDirectory.course_id = 'algebra'\n"
        "c.ClearSolutions.begin_solution_delimeter = '# A'\nc.ClearSolutions.end_solution_delimeter = '# Z'\n"
        "c.IncludeHeaderFooter.header = 'header.ipynb'\n"
    )
    course = importing.import_course(folder, tmp_path / "course").course
    assert course.id == "algebra"
    assert course.chapter("ps1").answers == {"double": "def double(x):\n    pass  # yours"}
    assert "Put your name here." in course.notebook("ps1").read_text()
    assert importing.build.solution_source(course, "ps1") == {"double": "def double(x):\n    return 2 * x"}


@needs_a_box
@pytest.mark.classes
def test_whoever_follows_the_page_imports_grades_and_moves_an_exercise(tmp_path: Path):
    follow_page(page("importing.md"), tmp_path)
    course = Course.read(tmp_path / "course")
    rows = nb.rows(course, "ps1_problem1", tmp_path / "graded")
    assert rows["ada", "correct_squares"].misconception == "from_zero"
    assert rows["ada", "squares_invalid_input"].verdict is Result.FAILED


@needs_a_box
def test_a_test_cell_that_others_rest_on_and_that_ends_the_kernel_costs_no_other_points(tmp_path: Path):
    """`test_ends` is asked where it stands, and before that only run for `test_rests`, which uses what it binds."""
    cells = [
        nb.answer("plain", "### BEGIN SOLUTION\nplain = 1\n### END SOLUTION"),
        nb.autograded("test_plain", "assert plain == 1"),
        nb.answer("ends", "### BEGIN SOLUTION\nvalue = 1\ndef ends(x):\n    return x\n### END SOLUTION"),
        nb.autograded("test_ends", "from math import isclose\nassert ends(value)"),
        nb.answer("rests", "### BEGIN SOLUTION\nvalue = 2\n### END SOLUTION"),
        nb.autograded("test_rests", "assert isclose(value, 2)"),
        nb.answer("other", "### BEGIN SOLUTION\nother = 3\n### END SOLUTION"),
        nb.autograded("test_other", "assert other == 3"),
    ]
    folder = nb.put(tmp_path / "nbg", "ps1/ps1.ipynb", nb.cell("# All", "markdown"), *cells)
    course = importing.import_course(folder, tmp_path / "course").course
    right = {"plain": "plain = 1", "rests": "value = 2", "other": "other = 3"}
    ends = {"ends": "value = 1\ndef ends(x):\n    import os\n    os._exit(0)"}
    nb.hand_in(course, "ps1", tmp_path / "submitted", "ann", right | ends)
    nb.grade_here(course, "ps1", tmp_path / "submitted", tmp_path / "out")
    found = points(nb.rows(course, "ps1", tmp_path / "out"), "ann")
    assert found == {"test_plain": 1, "test_ends": 0, "test_rests": 0, "test_other": 1}
