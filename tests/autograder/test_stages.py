"""Where nbgrader's test cells are asked is found in a time that students cannot stretch by cells of their own."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from across._process import global_names
from autograder.job import stages
from autograder.model.rubric import InBox, PlannedTest
from autograder.submissions.intake import Submission

TESTS = 20
CHAIN = 200


def cell(number: int, **nbgrader: Any) -> dict[str, Any]:
    meta = {"nbgrader": {"grade_id": f"test_{number}", "grade": True, "solution": False} | nbgrader}
    return {"cell_type": "code", "id": f"c{number}", "metadata": meta, "source": "assert x199", "outputs": []}


def test_each_cell_is_read_a_few_times_however_many_tests_rest_on_it(monkeypatch: pytest.MonkeyPatch):
    """Whoever looks each up when it is needed depends on a cache that three such students, graded at once, overflow."""
    read = Counter[str]()
    for name in ("uses", "changes"):
        real = getattr(global_names, name)
        monkeypatch.setattr(global_names, name, lambda source, real=real: read.update([source]) or real(source))
    release = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell(number) for number in range(TESTS)]}
    chapter: Any = SimpleNamespace(release=release)
    tests = [PlannedTest(f"test_{n}", f"t{n}", in_box=InBox(f"test_{n}", ("x199",), ())) for n in range(TESTS)]
    chain = tuple(("", "code", f"x{number} = x{number - 1} if {number} else 0") for number in range(CHAIN))
    late = (f"c{TESTS - 1}", "code", "x3 = 0")
    rubric: Any = SimpleNamespace(chapter=chapter, tests=tests)
    found = stages.Stages.of(Submission("ann", "ps1", added=(*chain, late)), rubric)
    assert found.ends.keys() == {test.exercise for test in tests}
    assert max(read.values()) <= 6
