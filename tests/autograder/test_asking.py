"""Questions to a student, asked in this process: what a check sees, and what a student is told."""

import numpy as np
import pytest

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


def test_an_error_of_the_student_is_said():
    with pytest.raises(Refused, match="raised ZeroDivisionError"):
        ask(lambda x: 1 / 0)


def test_a_stub_is_told_apart_from_a_mistake():
    def stub(x):
        raise NotImplementedError("your turn")

    with pytest.raises(Refused, match="Not attempted yet"):
        ask(stub)


def test_an_object_that_equals_everything_cannot_cross():
    class Equal:
        def __eq__(self, other):
            return True

        __hash__ = None

    with pytest.raises(Refused, match="type Equal cannot cross"):
        ask(lambda x: Equal())


def test_an_error_whose_text_raises_is_borne():
    class Nasty(Exception):  # noqa: N818
        def __str__(self):
            raise RuntimeError

    def double(x):
        raise Nasty

    with pytest.raises(Refused, match="raised Nasty"):
        ask(double)


@pytest.mark.parametrize("value", [float("nan"), "\ud800", None, True, {"a": (1, b"x")}, [[]]])
def test_odd_values_are_answers(value):
    got = ask(lambda x: value)
    assert type(got) is type(value)
    assert repr(got) == repr(value)


def test_a_reply_over_the_cap_breaks_the_protocol():
    with pytest.raises(wire.TooBigError, match="the cap"):
        ask(lambda x: np.zeros(20 << 20, np.uint8))


def test_a_variant_whose_old_text_is_gone_is_an_authors_fault():
    variant = asking.Variant("ch", "f", "v", False, change=("sum", "mean"))
    assert variant.written_over("x = sum(y)") == "x = mean(y)"
    with pytest.raises(ValueError, match="does not hold 'sum'"):
        variant.written_over("x = max(y)")
