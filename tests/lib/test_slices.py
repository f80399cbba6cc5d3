"""What a check needs is found by names, and no less."""

from __future__ import annotations

from typing import Any

import pytest

from across._jupyter.slices import only_defines, reads, slices, waits_for


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


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("for name in names:\n    print(name)", {"names", "print"}),
        ("with open(path) as file:\n    file.read()", {"open", "path"}),
        ("x = 1\nprint(x)", {"print"}),
        ("print(x)\nx = 1", {"print", "x"}),
        ("if a:\n    x = 1\nprint(x)", {"a", "print", "x"}),
        ("def f():\n    return x\nx = 1", {"x"}),
        ("x = 1\ndef f():\n    return x", {"x"}),
        ("[y for y in rows]", {"rows"}),
        ("x += 1", {"x"}),
        ("x = 0\nx += 1", set()),
        ("def f():\n    x = 0\n    x += 1", set()),
        ("def f():\n    global x\n    x += 1", {"x"}),
        ("x = 1\n[x for _ in [1]]", set()),
        ("[x for _ in [1]]\nx = 1", {"x"}),
        ("x = 1\ny = (x for _ in [1])", {"x"}),
        ("x = 1\ny = [lambda: x for _ in [1]]", {"x"}),
        ("if a:\n    x = 1\nelse:\n    x = 2\nprint(x)", {"a", "print"}),
        ("if a:\n    x = 1\n    print(x)", {"a", "print"}),
        ("while a:\n    x = 1\nprint(x)", {"a", "print", "x"}),
        ("try:\n    x = f()\nexcept E as e:\n    print(e)\nprint(x)", {"E", "f", "print", "x"}),
        ("[y for y in rows]\nprint(y)", {"rows", "print", "y"}),
        ("[y := z for z in rows]\nprint(y)", {"rows", "print"}),
        ("[[z for z in y] for y in rows]", {"rows"}),
        ("rows = 1\n[y for y in f([z for z in rows])]", {"f"}),
        ("rows = 1\n[y for y in f(lambda: rows)]", {"f", "rows"}),
        ("match a:\n    case 1:\n        x = 1\nprint(x)", {"a", "print", "x"}),
        ("%%timeit\nf(x)", {"timeit", "f", "x"}),
    ],
)
def test_a_cell_reads_what_it_has_not_bound_itself_before_and_whatever_its_functions_read(source, names):
    assert reads(source) == names


def test_what_a_check_waits_for_may_be_one_name_or_several():
    assert waits_for("with attempt('a', after='b'):\n    pass") == ("b",)
    assert waits_for("with attempt('a', after=('b', 'c')):\n    pass") == ("b", "c")
    assert waits_for("1 +") == ()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("x = 1\ndef f():\n    return x\nf()", set()),
        ("x = 1\ny = (x for _ in [1])", set()),
        ("def f():\n    return x\nf()\nx = 1", {"x"}),
        ("if a:\n    x = 1\ndef f():\n    return x", {"a", "x"}),
    ],
)
def test_in_the_last_cell_a_function_reads_what_was_bound_before_it_was_made(source, names):
    assert reads(source, last=True) == names


@pytest.mark.parametrize(
    ("source", "only"),
    [
        ("def f(a, b=(1, 'x')) -> None:\n    g()", True),
        ("'Said.'\nSIZE = [1, 2]\n\nclass A:\n    n = 1\n    def f(self):\n        g()", True),
        ("# nothing", True),
        ("def f(a=g()):\n    pass", False),
        ("def f(a=b):\n    pass", False),
        ("def f(a: g()):\n    pass", False),
        ("@g\ndef f():\n    pass", False),
        ("class A(B):\n    pass", False),
        ("class A:\n    n = g()", False),
        ("a.b = 1", False),
        ("a[0] = 1", False),
        ("a = b", False),
        ("a = f'{b}'", False),
        ("import a", False),
        ("f()", False),
        ("%magic", False),
    ],
)
def test_a_cell_that_only_defines_runs_nothing_and_cannot_fail(source, only):
    assert only_defines(source) is only


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
