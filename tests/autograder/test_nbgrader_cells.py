"""What a kernel says of nbgrader's test cells is judged, whatever it is: no odd value is a fault of the course's author."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autograder.model.test_cells import TestCell
from autograder.probe import nbgrader_cells, wire

CELL = TestCell("test_it", "assert it == 1\n2.0", 2.0, frozenset())
ODD = [
    10**400,
    -(10**400),
    np.array([1, 2]),
    [np.array([1, 2])],
    {"a": np.array([1.0])},
    float("nan"),
    "text",
    True,
    b"",
]
KINDS = [str(number) for number in range(len(ODD))]


class Forger:
    """A kernel that answers as it likes: to the first question, and to the second, of which it knows the token."""

    def __init__(self, said: Any, reached: Any) -> None:
        self.said, self.reached, self.first = said, reached, ""

    def ask(self, probe: Any, **inputs: Any) -> Any:
        if probe.name == "_run_cell":
            self.first = inputs["token"]
            return self.said
        return self.reached(self.first, inputs["token"])


def judged(said: Any, reached: Any) -> None:
    nbgrader_cells._judge(CELL, False, *nbgrader_cells._asked(CELL, CELL.source, Forger(said, reached)))  # pyright: ignore


def honest(first: str, second: str) -> Any:
    return [first, second]


@pytest.mark.parametrize("odd", ODD, ids=KINDS)
def test_points_that_are_no_number_are_the_students_fault(odd):
    with pytest.raises(AssertionError, match="does not come to its end"):
        judged({"ended": True, "points": odd}, honest)


@pytest.mark.parametrize("odd", ODD, ids=KINDS)
def test_an_odd_answer_to_the_second_question_is_the_students_fault(odd):
    with pytest.raises((AssertionError, wire.WireError)):
        judged({"ended": True, "points": None}, lambda first, second: [odd, second])
    with pytest.raises((AssertionError, wire.WireError)):
        judged({"ended": True, "points": None}, lambda first, second: [first, odd])
    with pytest.raises((AssertionError, wire.WireError)):
        judged({"ended": True, "points": None}, lambda first, second: odd)


@pytest.mark.parametrize("odd", ODD, ids=KINDS)
def test_an_odd_answer_to_the_first_question_is_the_students_fault(odd):
    for said in (odd, {"ended": [odd]}, {"ended": False, "line": odd, "error": odd}):
        with pytest.raises(AssertionError) as raised:
            judged(said, honest if said is not odd else lambda first, second: ["", second])
        assert type(raised.value) is AssertionError or isinstance(raised.value, nbgrader_cells.Partial)


def test_who_says_what_is_asked_passes():
    judged({"ended": True, "points": None}, honest)
