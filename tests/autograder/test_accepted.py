"""What `autograder verify` says of an imported course's tests: which wrong answers they accept, and what would tell them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import nbgrader_course as nb
import pytest
from boxed import needs_a_box

from autograder.authoring import accepted, mutants, telling, unboxed, verify
from autograder.model.course import Course
from autograder.probe import asking

with_mutants = pytest.mark.skipif(not find_spec("cosmic_ray"), reason="cosmic_ray is not installed: uv sync --group ci")
SQUARE = """\
import math
def square(x):
    \"\"\"Given.\"\"\"
    print(end="")
    ### BEGIN SOLUTION
    return x ** 2
    ### END SOLUTION
"""
WEAK = (
    nb.cell("base = 3"),
    nb.answer("square", SQUARE),
    nb.autograded("test_square", "for x in [2]:\n    assert square(x) == 4"),
    nb.answer("value", "given = base\n### BEGIN SOLUTION\nvalue = given + 1.5\n### END SOLUTION"),
    nb.autograded(
        "test_value",
        "assert value > 0\n### BEGIN HIDDEN TESTS\nassert value < 9, 'it is less than 9'\n### END HIDDEN TESTS",
    ),
)


@pytest.fixture(scope="module")
def weak(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """An imported course whose tests let much pass."""
    root = tmp_path_factory.mktemp("weak")
    return nb.imported(nb.put(root / "nbg", "ps1/ps1.ipynb", *WEAK), root / "course")


@needs_a_box
@with_mutants
@pytest.mark.whole
def test_verify_says_which_wrong_answers_an_imported_courses_tests_accept_and_what_tells_them(
    weak: Course, monkeypatch
):
    monkeypatch.setattr(unboxed, "ask", lambda *_: pytest.fail("somebody else's code ran without a box"))
    found = verify.verify(weak, "ps1", seeds=1)
    assert found.faults == []
    square, value = found.accepted
    assert (square.answer, square.names, square.tests) == ("square", ("square",), ("test_square",))
    assert [accepted.described(mutant) for mutant, _ in square.told] == ["`return x ** 2` becomes `return x * 2`"]
    assert [line for line, _ in square.lines] == ["assert square(1) == 1"]
    assert f"square: your tests (test_square) accept 1 of {square.wrong} wrong answers" in str(square)
    assert "  add: assert square(1) == 1  # tells 1" in str(square)
    assert [line for line, _ in value.lines] == ["assert abs(value - 4.5) <= 5e-05"]
    assert not found.good


@needs_a_box
@pytest.mark.whole
def test_what_is_innocent_beside_a_solution_is_tried_in_a_box_too(tmp_path: Path):
    quiet = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as said:\n    double(2)\n"
    quiet += "assert not said.getvalue()"
    folder = nb.put(tmp_path / "nbg", "ps1/ps1.ipynb", *nb.SMALL[:2], nb.autograded("strict", quiet))
    found = verify.verify(nb.imported(folder, tmp_path / "course"), "ps1", seeds=1, quick=True)
    assert ["the solution with print is failed" in fault for fault in found.faults] == [True]
    assert found.mutants == 0


@needs_a_box
@with_mutants
@pytest.mark.whole
def test_nothing_is_said_of_tests_that_the_solution_itself_fails(tmp_path: Path):
    folder = nb.put(
        tmp_path / "nbg", "ps1/ps1.ipynb", nb.SMALL[1], nb.autograded("t", "import no_such_module\ndouble(2)")
    )
    found = verify.verify(nb.imported(folder, tmp_path / "course"), "ps1", seeds=1)
    assert found.accepted == []
    assert ["the reference is failed" in fault for fault in found.faults[:1]] == [True]


@with_mutants
def test_wrong_answers_are_faults_of_the_solutions_own_lines_constants_types_and_the_stub(weak: Course):
    wrong = [each.of for each in accepted.trials(weak, weak.chapter("ps1"), weak.chapter("ps1").exercises, 1, True)]
    some = {accepted.described(each) for each in wrong if isinstance(each, mutants.Mutant) and each.answer == "square"}
    assert {"each function returns 0", "each function returns x", accepted.STUB} < some
    assert {"`return x ** 2` becomes `return str(x ** 2)`", "`return x ** 2` becomes `return None`"} < some
    assert not [each for each in some if "print" in each]  # a line that the author gave


def told(answer: str, tests: list[str], functions: list[str], names: list[str], *wrong: str) -> list[list[str]]:
    return telling.tell(asking.in_process({"base": [3, 1, 2]}), answer, [], tests, functions, names, wrong)


def test_a_line_holds_of_the_solution_and_fails_of_the_wrong_answer():
    right = "def count(n, of):\n    return len(of) + n"
    lines, same = told(
        right, ["assert count(n=1, of=[1])"], ["count"], [], right.replace("+", "-"), right + "\n# the same"
    )
    assert same == []
    scope: dict = {}
    exec(right, scope)
    exec(lines[0], scope)
    exec(right.replace("+", "-"), scope)
    with pytest.raises(AssertionError):
        exec(lines[0], scope)


@pytest.mark.whole
def test_a_wrong_answer_that_never_ends_or_changes_what_it_is_given_is_told_and_harms_no_other():
    right = "def total(of):\n    return sum(of)\nfirst = base[0]"
    endless = "def total(of):\n    while True: pass\nfirst = base[0]"
    sorts = "def total(of):\n    return sum(of)\nbase.sort()\nfirst = base[0]"
    lines = told(right, ["total([1, 2])"], ["total"], ["first"], endless, sorts, right)
    assert [bool(each) for each in lines] == [True, True, False]
    assert lines[1] == ["assert first == 3"]


def test_a_result_that_is_another_each_time_is_no_line():
    right = "import random\ndef draw(n):\n    return random.random()"
    assert told(right, ["draw(1)"], ["draw"], [], "def draw(n):\n    return 2.0") == [[]]


def test_numbers_are_compared_about_and_another_container_of_them_is_no_fault():
    right = "def roots(c):\n    return c ** 0.5, -(c ** 0.5)"
    other, as_list = right.replace("-(", "("), right.replace("c ** 0.5, -(c ** 0.5)", "[c ** 0.5, -(c ** 0.5)]")
    lines = told(right, ["roots(2)"], ["roots"], [], other, as_list)
    assert lines[0][0] == "assert abs(roots(2)[1] - -1.41421) <= 1e-05"
    assert lines[1] == []


def test_a_few_lines_tell_all_that_can_be_told_and_short_ones_come_first():
    assert telling.fewest([["long line", "one"], ["long line"], ["two", "other"], []]) == [("long line", 2), ("two", 1)]
