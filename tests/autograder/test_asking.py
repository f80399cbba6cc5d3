"""Questions to a student, asked in this process: what a check sees, and what a student is told."""

import numpy as np
import pytest

from across import expecting
from autograder.probe import asking, wire
from autograder.probe.asking import Refused, in_process, probe


@probe
def doubled(student, x):
    return student.double(x)


def ask(double):
    return in_process({"double": double}).ask(doubled, x=np.arange(3))


def test_a_probe_returns_plain_values():
    np.testing.assert_array_equal(ask(lambda x: 2 * x), [0, 2, 4])


def test_a_name_that_is_missing_is_said():
    with pytest.raises(Refused, match="`double` is not defined"):
        in_process({}).ask(doubled, x=1)


class Equal:
    def __eq__(self, other):
        return True

    __hash__ = None


class Nasty(Exception):  # noqa: N818
    def __str__(self):
        raise RuntimeError


def raises(error):
    def double(x):
        raise error

    return double


@pytest.mark.parametrize(
    ("double", "says"),
    [
        (lambda x: 1 / 0, "raised ZeroDivisionError"),
        (raises(NotImplementedError("your turn")), "Not attempted yet"),  # a stub, told apart from a mistake,
        (raises(NotImplementedError("Cannot convert a symbolic tf.Tensor.")), "raised NotImplementedError.*symbolic"),
        (raises(Nasty()), "raised Nasty"),  # whose text raises
        (lambda x: Equal(), "type Equal;"),  # what equals everything
    ],
)
def test_what_a_student_did_instead_of_answering_is_said(double, says):
    with pytest.raises(Refused, match=says):
        ask(double)


def test_a_reply_over_the_cap_breaks_the_protocol():
    with pytest.raises(wire.TooBigError, match="the cap"):
        ask(lambda x: np.zeros(20 << 20, np.uint8))


def test_an_array_stays_an_array_and_a_tensor_becomes_one():
    tf = pytest.importorskip("tensorflow")
    for value in (np.arange(3.0), tf.range(3.0), tf.Variable([0.0, 1.0, 2.0])):
        got = ask(lambda x, value=value: value)
        assert (type(got), got.tolist()) == (np.ndarray, [0.0, 1.0, 2.0])
    assert ask(lambda x: tf.constant(3.0)) == 3.0


@pytest.mark.parametrize("value", [(n for n in [1]), object, len, np.datetime64("2020"), 1j])
def test_what_is_nothing_plain_is_said_with_its_type(value):
    with pytest.raises(Refused, match="Your code returned"):
        ask(lambda x: value)


def test_a_call_is_answered_case_by_case_and_begins_its_sentence():
    student = in_process({"double": lambda x: 2 * x if x < 3 else "six"})
    pairs = student.call("double", [[1], [2], [3]], expecting.whole)
    assert [next(pairs), next(pairs)] == [([1], 2), ([2], 4)]
    with pytest.raises(AssertionError, match=r"^`double\(3\)` returned 'six'; expected a whole number\.$"):
        next(pairs)
    assert student.call_once("double", 2, returns=expecting.whole) == 4


@pytest.mark.parametrize("reply", [None, [1, 2], np.zeros(2), "abc"])
def test_another_number_of_answers_than_of_cases_is_the_students(reply):
    student = asking.Student(lambda *_: {"value": reply})
    with pytest.raises(AssertionError, match=r"^Your notebook answered with .*; expected a list of 3 answers\.$"):
        list(student.call("f", [[1], [2], [3]]))


def test_a_recorded_guess_needs_every_entry_and_nothing_else():
    test = asking.recorded("guess", {"a": expecting.whole, ("b", "c"): expecting.truth})
    said = []
    for guess in ({"a": 1, ("b", "c"): 0}, {}, {"a": 1}, {"a": None, ("b", "c"): None}, {"a": 1, ("b", "c"): None}, 3):
        try:
            test(in_process({"guess": guess}))
            said.append("")
        except AssertionError as error:
            said.append(str(error))
    assert said[0] == ""
    assert [bool(each) for each in said[1:]] == [True] * 5
    assert "has no entry for b c" in said[2]
    assert "Nothing is predicted yet" in said[3]
    assert "b c is left open" in said[4]


NEAR = {"a": "off", "b": "is off"}
DEVICES = {
    "any": "device of the list",
    "third": "the third device of the list",
    "summed": "third device of the list",
}


@pytest.mark.parametrize(
    ("known", "exercise", "error", "says", "name"),
    [
        (NEAR, "f", asking.Misconception("c", "it is off"), "it is off", "c"),
        (NEAR, "f", AssertionError(), "it is off", "b or a"),  # all that get this sentence, the nearest first
        (NEAR, "g", AssertionError(), "it is off", ""),
        (DEVICES, "f", AssertionError(), "expected the third device of the list", "third or summed or any"),
        (DEVICES, "f", AssertionError(), "expected the first device of the list", "any"),
    ],
)
def test_a_misconception_has_the_name_that_it_is_raised_with_or_those_that_are_listed(
    known, exercise, error, says, name
):
    listed = [asking.Variant("ch", "f", each, False, "x", says=part, exercise="f") for each, part in known.items()]
    assert asking.misconception(listed, exercise, error, says) == name
