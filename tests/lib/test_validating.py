"""Validate says what it does while it does it."""

from __future__ import annotations

from pathlib import Path

from across._jupyter import panel
from across._jupyter.validating import Asked, told_under_way
from across._jupyter.validation import NOT_YET, OPEN, PASSES, PENDING, PREPARED, TRIED, CellUnderWay, Standing


def _asked(name: str, *states: str) -> Asked:
    asked = Asked(Path(name))
    asked.note(tuple(Standing(f"e{i}", 2.0, f"e{i}", state, seconds=4.0) for i, state in enumerate(states)))
    return asked


def test_while_it_runs_it_says_what_is_tried_how_long_that_took_the_last_time_and_how_many_are_known():
    asked = _asked("a.ipynb", NOT_YET, TRIED, PENDING)
    asked.since -= 2
    told = told_under_way(asked, asked)
    assert told["now"] == "Exercise `e1` is being tried."
    assert told["seconds"] == "2 s; it took 4 s the last time"
    assert told["says"] == "1 of 3 checks are known."
    assert told["exercises"][0] == {"exercise": "e0", "worth": "2 points", "cell": "e0", "state": NOT_YET, "says": ""}
    ended = _asked("a.ipynb", NOT_YET, PASSES, OPEN)
    assert told_under_way(ended, ended)["exercises"][2]["state"] == panel.NEW
    assert told_under_way(ended, ended)["now"] == "The kernel ends."
    asked.stop.ask()
    assert told_under_way(asked, asked)["now"] == "It is being stopped."


def test_one_that_waits_for_another_notebook_says_so():
    told = told_under_way(Asked(Path("b.ipynb")), _asked("a.ipynb", TRIED))
    assert told["now"] == "It waits: a.ipynb is being validated."


def test_a_cell_of_ones_own_is_named_with_its_first_line_and_its_own_seconds():
    asked = _asked("a.ipynb", PREPARED, PENDING)
    asked.since -= 30
    asked.begins(CellUnderWay(3, "given", "import tensorflow as tf", own=False))
    assert told_under_way(asked, asked)["now"] == "Cells are run for exercise `e0`."
    assert told_under_way(asked, asked)["seconds"] == "30 s"
    asked.begins(CellUnderWay(4, "mine", "while slow():", own=True))
    asked.since -= 43
    told = told_under_way(asked, asked)
    assert (told["now"], told["seconds"]) == ("Your cell 4 runs for exercise `e0`.", "43 s")
    assert (told["cell"], told["line"]) == ("mine", "while slow():")
    asked.begins(CellUnderWay(5, "given", "x = 1", own=False))
    assert told_under_way(asked, asked)["cell"] == ""
