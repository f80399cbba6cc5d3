"""`autograder import`: a course of nbgrader's, imported, released and graded through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import nbgrader_course as nb
import pytest

from autograder.model.verdict import Result
from autograder.sandbox import boxes

boxed = pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem())
REGION = "### BEGIN HIDDEN TESTS\nassert double(21) == 42, 'the secret of 42'\n### END HIDDEN TESTS"


@boxed
def test_a_notebook_of_nbgraders_is_imported_released_and_graded(tmp_path: Path):
    course = nb.imported(nb.put(tmp_path / "nbg", "ps1/ps1.ipynb", *nb.SMALL), tmp_path / "course")
    for student, source in {"ada": "def double(x):\n    return x + x", "bob": "def double(x):\n    return x"}.items():
        nb.hand_in(course, "ps1", tmp_path / "submitted", student, {"double": source})
    nb.hand_in(course, "ps1", tmp_path / "submitted", "eve", {})
    found = nb.graded(course, "ps1", tmp_path / "submitted", tmp_path / "out")
    assert {(student, row.points, row.verdict) for (student, _), row in found.items()} == {
        ("ada", 2.0, Result.PASSED),
        ("bob", 0.0, Result.FAILED),
        ("eve", 0.0, Result.BLANK),
    }
    assert 'assert double(2) == 4, "twice 2 is 4"' in found["bob", "test_double"].message
    release = json.loads(course.notebook("ps1").read_text())
    assert "2 * x" not in json.dumps(release)
    assert "raise NotImplementedError()" in json.dumps(release)  # nbgrader's own stub
