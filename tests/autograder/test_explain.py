"""An explanation: all that a mark can be defended with, what to do, nothing hidden, for people and for machines."""

import io
import json

import classroom
import pytest
from classroom import BLANK, FAILED, HOSTILE, INVALID, PASSED, TIMEOUT, TINY
from rich.console import Console

from autograder.gradebook import roll
from autograder.model.course import CourseError
from autograder.model.verdict import Evidence, Halt, Outcome, Result, Stop
from autograder.report import explain, outputs

PARTS = {"answers": "a" * 64, "release": "b" * 64, "limits": "c" * 64, "checks": "e" * 64, "environment": "python 3"}
SLOW = Halt(Stop.TIMEOUT, "pick", life=2, limit="cell_seconds", value=60.0, note="no end")
TESTS = (
    Outcome("spread", "test_it_is_even", False, 2.0, "assert", "You sent all of them to one device.", "all_to_one"),
    Outcome("spread", "test_it_counts", True),
)
DI = classroom.verdict(
    "di",
    TIMEOUT,
    seconds=121.25,
    notes=('cell "pick": timeout, killed',),
    evidence=Evidence(TESTS, (SLOW,), 2, 4, {"start": 0.25, "cells": 120.5}, PARTS, "control groups v2"),
)


@pytest.fixture
def out(tmp_path):
    classroom.record(tmp_path, *(classroom.verdict("ada"), DI, classroom.verdict("eve", INVALID, INVALID, INVALID)))
    return tmp_path


def said(out, *args) -> str:
    console = Console(width=400, file=io.StringIO())
    with console.capture() as captured:
        for part in explain.explain(out, TINY, *args):
            console.print(part, markup=False)
    return captured.get()


def test_an_explanation_has_all_that_a_mark_can_be_defended_with(out):
    shown = said(out, "di", "pick")
    for part in (
        *("timeout, 0 of 3", "time limit", "LIMIT", "cell_seconds = 60 s, in cell `pick`, kernel 2 of 4: no end"),
        *("seed", "d" * 12, "answers aaaaaaaaaaaa", "checks eeeeeeeeeeee", "python 3", "121.25 s", "cells 120.50"),
        *("2 of at most 4", 'cell "pick": timeout, killed', "--limit cell_seconds=120"),
        "kept within their limits by control groups v2",
    ):
        assert part in shown
    assert "spread" not in shown


def test_each_checks_message_is_told(out):
    shown = said(out, "di", "spread")
    assert "✗ test_it_is_even (weight 2) says: You sent all of them to one device." in shown
    assert "✓ test_it_counts" in shown


def test_a_check_that_broke_is_named_with_its_file(out):
    broken = Evidence((Outcome("pick", "test_it", False, kind="TypeError: no len()", says="Not yet: it."),))
    classroom.record(out, classroom.verdict("flo", FAILED, evidence=broken))
    shown = said(out, "flo", "pick")
    assert "test_it broke: TypeError: no len()" in shown
    assert "Mend test_it in checks/test_01_tiny.py" in shown


def test_the_same_inputs_can_be_had_again_by_a_command(out):
    command = f"autograder grade 01_tiny --submissions {out}/submitted --out {out} --student di --again --dry-run"
    assert said(out, "di").rstrip().endswith(command)
    assert "--submissions SUBMISSIONS --out" in said(out, "eve")  # nothing was taken of it


@pytest.mark.parametrize("result", [each for each in Result if each is not Result.PASSED])
def test_every_end_has_something_to_do(out, result):
    share = 0.5 if result is Result.PARTIAL else 0.0
    classroom.record(out, classroom.verdict("gus", (result, share, "This."), why=(result, share, "This.")))
    assert "what to do" in said(out, "gus", "why" if result is Result.MANUAL else "pick")


def test_an_explanation_shows_no_markup_and_nothing_hidden(out):
    tests = (Outcome("pick", HOSTILE, False, kind=HOSTILE, says="[red]" + HOSTILE),)
    evidence = Evidence(tests, (Halt(Stop.CRASHED, "pick", note=HOSTILE),), 1, 4, {}, PARTS)
    classroom.record(
        out, classroom.verdict("eve", (*FAILED[:2], "[red]" + HOSTILE), notes=(HOSTILE,), evidence=evidence)
    )
    shown = said(out, "eve")
    assert "[red]\\ud800 \\x00 \\x1b[2J" in shown
    assert not set(shown) & set("\ud800\x00\x1b\u202e")


def test_machines_get_all_of_it_whole(out):
    told = json.loads(json.dumps(explain.as_json(out, TINY, "di")))
    verdict, evidence = told["verdict"], told["verdict"]["evidence"]
    assert (verdict["seed"], verdict["digest"], evidence["parts"]) == (7, "d" * 64, PARTS)
    assert next((row["verdict"], row["fault"]) for row in told["rows"]) == ("timeout", "LIMIT")
    assert [(halt["limit"], halt["value"], halt["life"]) for halt in evidence["halts"]] == [("cell_seconds", 60, 2)]
    assert [(test["test"], test["passed"]) for test in evidence["outcomes"] if test["exercise"] == "spread"] == [
        ("test_it_is_even", False),
        ("test_it_counts", True),
    ]


def test_who_was_left_by_a_fault_of_this_machine_is_told_so(out):
    outputs.write(out, TINY, faults={"zed": "no space left"}, workers=1)
    shown = said(out, "zed")
    assert "no space left" in shown
    assert "INFRASTRUCTURE" in shown
    assert explain.as_json(out, TINY, "zed")["fault"] == "INFRASTRUCTURE"
    outputs.write(out, TINY, workers=1)  # `autograder report`: nobody was graded meanwhile
    assert roll.left(out, TINY) == {"zed": "no space left"}


@pytest.mark.parametrize(
    ("student", "exercise", "named"),
    [
        ("daa", "", "did you mean ada?"),
        ("nobody", "", "there are: ada, di, eve"),
        ("ada", "spred", "did you mean spread?"),
    ],
)
def test_who_or_what_is_not_there_is_answered_with_the_nearest(out, student, exercise, named):
    with pytest.raises(CourseError) as raised:
        explain.explain(out, TINY, student, exercise)
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [("cell_seconds", 60.0, "60 s"), ("memory_bytes", 4 << 30, "4 GiB"), ("reply_bytes", 1 << 20, "1 MiB")],
)
def test_limits_are_said_as_people_say_them(limit, value, said):
    assert explain.amount(limit, value) == said


def test_blank_is_nobody_elses_fault(out):
    classroom.record(out, classroom.verdict("hal", BLANK, PASSED))
    assert "Nothing: there is no answer." in said(out, "hal", "pick")


def test_who_is_absent_is_told_so(out):
    roll.keep_absent(out, TINY, ["zoe"])
    with pytest.raises(CourseError, match="'zoe' is absent: nothing was handed in"):
        explain.explain(out, TINY, "zoe")
    with pytest.raises(CourseError, match="did you mean zoe"):
        explain.explain(out, TINY, "zooe")
