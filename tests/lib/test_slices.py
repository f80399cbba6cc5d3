"""What a check needs is found by names, and no less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from across._jupyter.slices import left_out, slices, waits_for
from across._process.needed_cells import given_id

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def cell(source: str, kind: str = "plain", name: str = "") -> dict[str, Any]:
    own = {
        "grade": kind == "check",
        "solution": kind == "answer",
        "grade_id": f"check_{name}" if kind == "check" else name,
    }
    metadata: dict[str, Any] = {"nbgrader": own, "across": {"exercise": name}} if name else {}
    if kind == "show":
        metadata["tags"] = ["show"]
    return {"cell_type": "code", "source": source, "metadata": metadata}


NOTEBOOK = [
    cell("import math"),
    cell("print(slow())", "show"),
    cell("def helper(n):\n    return n", "show"),
    cell("def pick(): return 1", "answer", "pick"),
    cell("assert pick() == 1", "check", "pick"),
    cell("def place(): return helper(rows)", "answer", "place"),
    cell("rows = 3"),
    cell("with attempt('place', after=['pick']):\n    place()", "check", "place"),
    cell("after = 1"),
]


def test_a_check_needs_the_cells_before_it_that_are_no_exercise_and_those_whose_names_it_uses():
    pick, place = slices(NOTEBOOK)
    assert (pick.exercise, pick.before, pick.after) == ("pick", (0, 3), ())
    assert (place.exercise, place.before, place.after) == ("place", (0, 2, 5, 6), ("pick",))


@pytest.mark.parametrize(
    ("changed", "source", "others"),
    [
        (3, "def pick(): return 2", ["pick"]),
        (2, "def helper(n):\n    return -n", ["place"]),
        (1, "print(2)", []),
        (8, "after = 2", []),
    ],
)
def test_what_it_depends_on_changes_its_digest_and_nothing_else_does(changed, source, others):
    sources = {number: each["source"] for number, each in enumerate(NOTEBOOK)}
    before = {each.exercise: each.digest(sources, ["1"], []) for each in slices(NOTEBOOK)}
    after = {each.exercise: each.digest({**sources, changed: source}, ["1"], []) for each in slices(NOTEBOOK)}
    assert [name for name in before if before[name] != after[name]] == others


def test_a_digest_knows_what_is_installed_and_whether_the_exercises_that_it_waits_for_passed():
    sources = {number: each["source"] for number, each in enumerate(NOTEBOOK)}
    place = slices(NOTEBOOK)[1]
    assert len({place.digest(sources, *more) for more in ((["1"], []), (["2"], []), (["1"], ["pick"]))}) == 3


def released(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells with the ids that a release gives them."""
    names = [each["metadata"].get("nbgrader", {}).get("grade_id") for each in cells]
    return [{**each, "id": name or given_id("code", each["source"])} for name, each in zip(names, cells, strict=True)]


def test_a_cell_that_the_student_added_counts_by_its_names_alone_as_it_does_for_a_mark():
    given = released(
        [cell("setting(4)"), cell("def pick(): return one()", "answer", "pick"), cell("pick()", "check", "pick")]
    )
    own = [{**cell(source), "id": "own"} for source in ("def one(): return two", "two = len('ab')", "setting(5)")]
    assert slices([*given[:1], *own, *given[1:]])[0].before == (0, 1, 2, 4)
    assert slices([*given[:1], *own, *given[1:]], everything=True)[0].before == (0, 1, 2, 3, 4)
    assert left_out([*given[:1], *own, *given[1:]], slices([*given[:1], *own, *given[1:]])) == [3]
    assert slices([{**each, "id": "lost"} for each in (*given[:1], *own, *given[1:])])[0].before == (0, 1, 2, 3, 4)


@pytest.mark.whole
def test_no_cell_of_a_release_is_taken_for_one_that_was_added():
    for path in sorted(NOTEBOOKS.rglob("[01]*.ipynb")):
        cells = [{**each, "source": "".join(each["source"])} for each in json.loads(path.read_text())["cells"]]
        assert slices(cells) == slices(cells, everything=True), path.name


def test_what_a_check_waits_for_may_be_one_name_or_several():
    assert waits_for("with attempt('a', after='b'):\n    pass") == ("b",)
    assert waits_for("with attempt('a', after=('b', 'c')):\n    pass") == ("b", "c")
    assert waits_for("1 +") == ()


def test_a_check_needs_a_cell_that_only_defines_if_it_uses_what_that_defines():
    cells = [
        cell("def pick(): return 1", "answer", "pick"),
        cell("def twice():\n    return 2 * pick()"),
        cell("def thrice():\n    return 3 * pick()"),
        cell("setting(4)"),
        cell("def place(): return 2", "answer", "place"),
        cell("place()", "check", "place"),
        cell("twice()", "check", "other"),
    ]
    place, other = slices(cells)
    assert (place.before, other.before) == ((3, 4), (0, 1, 3))


def test_a_name_that_is_defined_anew_before_its_reader_is_not_that_of_an_earlier_cell():
    early, anew = cell("model = train()", "check", "early"), cell("def model(): pass")
    may_fail, run = cell("model = build()"), cell("def run(): return model()", "answer", "run")
    check = cell("run()", "check", "run")
    assert slices([early, anew, run, check])[1].before == (1, 2)
    assert slices([early, may_fail, run, check])[1].before == (0, 1, 2)
    assert slices([anew, run, early, check])[1].before == (0, 1, 2)
