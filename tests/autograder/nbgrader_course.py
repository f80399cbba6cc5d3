"""A course of nbgrader's made from nothing, submissions as its students hand them in, and both commands on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import courses
import nbformat
from small_course import command

from autograder.gradebook import record
from autograder.model.course import Course
from autograder.report import outputs

SOURCE = """\
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
"""
TESTS = 'assert double(2) == 4, "twice 2 is 4"'


def cell(source: str, kind: str = "code", **nbgrader: Any) -> Any:
    """A cell of a notebook, with nbgrader's metadata where there is any."""
    make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    made = make(source)
    if nbgrader:
        usual = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False}
        made.metadata["nbgrader"] = usual | nbgrader
    return made


def answer(name: str, source: str) -> Any:
    """An answer that test cells look at."""
    return cell(source, grade_id=name, solution=True)


def autograded(name: str, source: str, points: float = 1) -> Any:
    """A cell of autograder tests."""
    return cell(source, grade_id=name, grade=True, locked=True, points=points)


def by_hand(name: str, source: str, points: float = 1, kind: str = "code") -> Any:
    """A manually graded answer."""
    return cell(source, kind, grade_id=name, grade=True, solution=True, points=points)


def task(name: str, source: str, points: float = 1) -> Any:
    """A task: students add cells of their own."""
    return cell(source, "markdown", grade_id=name, task=True, locked=True, points=points)


SMALL = (cell("# Small", "markdown"), answer("double", SOURCE), autograded("test_double", TESTS, 2))


SECRET = "the secret of forty-two"
EVERYTHING = (
    cell("# Everything", "markdown"),
    cell("import math"),
    answer("double", SOURCE),
    autograded(
        "test_double",
        f"from math import isclose\n### BEGIN HIDDEN TESTS\nassert double(21) == 42, '{SECRET}'\n### END HIDDEN TESTS\n"
        "assert double(2) == 4",
        2,
    ),
    answer("first", "### BEGIN SOLUTION\nresult = 6\n### END SOLUTION"),
    autograded("test_first", "assert isclose(result, 6)"),
    answer("second", "### BEGIN SOLUTION\nresult = 'six'\n### END SOLUTION"),
    autograded("test_second", "assert result == 'six'"),
    autograded("partly", "score = 3 if result == 'six' else 1.5\nscore", 3),
    autograded("reads", "assert open('data/numbers.csv').read() == '1,2\\n'"),
    by_hand("program", "### BEGIN SOLUTION\nprint('a program')\n### END SOLUTION", 4),
    task("project", "## Do something", 5),
)


def put(folder: Path, path: str, *cells: Any, **metadata: Any) -> Path:
    """Write a notebook into an nbgrader course's folder."""
    kernel = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
    notebook = nbformat.v4.new_notebook(cells=list(cells), metadata=kernel | metadata)
    place = folder / "source" / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(nbformat.writes(notebook), encoding="utf-8")
    return folder


def autograder(*arguments: object, code: int = 0) -> str:
    """Run the command; what it printed."""
    done = command(*arguments, columns=250, code=code)
    return done.stdout + done.stderr


def imported(folder: Path, out: Path) -> Course:
    """The course that importing makes."""
    autograder("import", folder, "--out", out)
    return Course.read(out)


def hand_in(
    course: Course, chapter: str, submissions: Path, student: str, answers: Mapping[str, str], *more: Any
) -> Path:
    """Hand in the released notebook as nbgrader collects it, with these answers, and cells `more` at its end."""
    read = course.chapter(chapter)
    place = submissions / student / read.assignment / f"{read.notebook}.ipynb"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(courses.answered(course, chapter, answers, *more))
    return submissions


def rows(course: Course, chapter: str, out: Path) -> dict[tuple[str, str], record.Row]:
    """What was recorded, by student and exercise."""
    return {(row.student, row.exercise): row for row in record.rows(out, course.chapter(chapter))}


def grade_here(course: Course, chapter: str, submissions: Path, out: Path) -> None:
    """Grade in this process, feedback and report too; its warm servers live on."""
    courses.graded(course, chapter, submissions, out)
    outputs.write(out, course.chapter(chapter))
