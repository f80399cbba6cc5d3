"""Notebooks of nbgrader's own test suite, and one that has everything, graded by stock nbgrader and by us: the same marks."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import nbformat
import nbgrader
import nbgrader_course as nb
import pytest
import stock
from boxed import needs_a_box

from autograder.authoring import build, importing

pytestmark = [pytest.mark.classes, needs_a_box]
SUITE = Path(nbgrader.__path__[0]) / "tests"
NOTEBOOKS = [
    "apps/files/test.ipynb",
    "apps/files/open_relative_file.ipynb",
    "apps/files/autotest-hashed-changed.ipynb",
    "apps/files/autotest-hidden-changed-right.ipynb",
    "preprocessors/files/submitted-changed.ipynb",
    "preprocessors/files/manually-graded-code-cell.ipynb",
]
SLIPS = (
    ("range(1, n + 1)", "range(n)"),
    ("a = 5", "a = 6"),
    ("a = 1", "a = 2"),
    ("return 2 * x", "return x"),
    ("= 'six'", "= 6"),
)
MARKS = """
select s.student_id, c.name, coalesce(g.auto_score, 0) from grade g join base_cell c on c.id = g.cell_id
join submitted_notebook n on n.id = g.notebook_id join submitted_assignment s on s.id = n.assignment_id
"""


def compared(folder: Path) -> None:
    """Grade the assignment `ps1` of the nbgrader course in `folder`, of which stock nbgrader released the notebook, by both."""
    course = importing.import_course(folder, folder.parent / "course").course
    stock.nbgrader("update", "source", cwd=folder, home=folder)
    stock.nbgrader("generate_assignment", "ps1", cwd=folder, home=folder)
    right = build.solution_source(course, "ps1")
    wrong = dict(right)
    for answer, source in right.items():
        for old, new in SLIPS:
            wrong[answer] = wrong[answer].replace(old, new) if old in source else wrong[answer]
    for student, answers in {"right": right, "wrong": wrong, "blank": {}}.items():
        place = folder / "submitted" / student / "ps1"
        shutil.copytree(folder / "release" / "ps1", place)
        notebook = json.loads((place / "ps1.ipynb").read_text())
        for cell in notebook["cells"]:
            grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
            cell["source"] = answers.get(grade_id, cell["source"])
        (place / "ps1.ipynb").write_text(json.dumps(notebook))
    stock.nbgrader("autograde", "ps1", cwd=folder, home=folder)
    with sqlite3.connect(folder / "gradebook.db") as book:
        theirs = {(student, cell): score for student, cell, score in book.execute(MARKS)}
    nb.grade_here(course, "ps1", folder / "submitted", folder.parent / "out")
    ours = {key: row.points for key, row in nb.rows(course, "ps1", folder.parent / "out").items()}
    assert ours == theirs
    assert len(ours) >= 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: Path(path).stem)
def test_a_notebook_of_nbgraders_suite_gets_the_marks_that_nbgrader_gives_it(notebook: str, tmp_path: Path):
    place = tmp_path / "nbg" / "source" / "ps1"
    place.mkdir(parents=True)
    made = nbformat.read(SUITE / notebook, 4)
    nbformat.write(made, place / "ps1.ipynb")
    (place / "data.txt").write_text("a\nb\nc\nd")
    compared(tmp_path / "nbg")


def test_a_notebook_with_everything_gets_the_marks_that_nbgrader_gives_it(tmp_path: Path):
    folder = nb.put(tmp_path / "nbg", "ps1/ps1.ipynb", *nb.EVERYTHING)
    (folder / "source" / "ps1" / "data").mkdir()
    (folder / "source" / "ps1" / "data" / "numbers.csv").write_text("1,2\n")
    compared(folder)
