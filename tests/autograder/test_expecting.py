"""Expectations: a value comes as its exact type, in a range in which one can compute, or a sentence says what it is."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from across import expecting
from across.expecting import (
    anything,
    array,
    between,
    device,
    device_in,
    dict_of,
    entries,
    list_of,
    maybe,
    number,
    one_of,
    row,
    shown,
    task_in,
    text,
    truth,
    whole,
)

EVERY = [
    *(anything, number, whole, truth, text, device, between(0, 9), between(0, math.inf, whole), one_of(["a", 1])),
    *(maybe(whole), list_of(whole), list_of(text, 3), row(text, number), dict_of(number), entries({"a": whole})),
    *(array(), array([2, 2]), device_in(["CPU:0"]), task_in(["ps:0 CPU:0"]), row(number, number).named("a pair")),
]
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(st.characters() | st.characters(categories=["Cs", "Cc"]))
    | st.binary()
    | st.sampled_from([np.zeros((2, 0)), np.array(["nan"]), np.float32("nan"), np.array([1 + 2j]), np.ones(3, bool)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(PLAIN, st.sampled_from(EVERY))
def test_whatever_comes_is_taken_or_gets_one_line(value, expected):
    try:
        expected(value, "It is")
    except AssertionError as error:
        said = str(error)
        assert said.startswith("It is ")
        assert said.isprintable()
        assert len(said) < 300
        assert not expected.fits(value)
    else:
        assert expected.fits(value)


@given(st.integers() | st.floats())
def test_a_number_that_is_taken_can_be_computed_with(value):
    if number.fits(value):
        assert math.isfinite(number(value, "") * 1.0)
        assert f"{number(value, ''):g}"


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 10**400, -(10**400), 5e-324, True, "1", None, [1]])
def test_no_odd_number_is_one(odd):
    with pytest.raises(AssertionError, match=r"It is .*; expected a number\."):
        number(odd, "It is")


def test_what_means_the_same_is_taken():
    assert (whole(3.0, ""), type(whole(3.0, ""))) == (3, int)
    assert truth(1, "") is True
    assert truth(0, "") is False
    assert list_of(whole)((1, 2.0), "") == [1, 2]
    assert row(text, whole)(["a", 1], "") == ("a", 1)
    short = ("/CPU:2", "cpu:2", "/device:CPU:2", "/cpu:2")
    assert {device(each, "") for each in (*short, "/job:localhost/replica:0/task:0/device:CPU:2")} == {"CPU:2"}
    assert not any(
        device.fits(f"/job:{each}") for each in ("localhost/replica:0/task:0CPU:2", "ps/replica:0/task:0/CPU:2")
    )
    np.testing.assert_array_equal(array([2, 2])([[1, 2], [3, 4]], ""), [[1.0, 2.0], [3.0, 4.0]])


def test_a_sentence_says_what_came_which_part_of_it_and_what_was_expected():
    with pytest.raises(AssertionError) as told:
        list_of(row(text, whole))([("a", 1), ("b", None)], "`f(2)` returned")
    assert str(told.value) == (
        "`f(2)` returned [('a', 1), ('b', None)]; in it [1][1] is None; expected a whole number."
    )
    with pytest.raises(AssertionError) as told:
        list_of(whole, 2).named("two seats")([1], "You take")
    assert str(told.value) == "You take [1]; expected two seats."


def test_what_is_shown_is_one_line_of_printable_characters():
    assert shown("\x1b[31m\u202e\ud800") == r"'\x1b[31m\u202e\ud800'"
    assert "\n" not in shown(np.zeros((50, 50)))
    assert len(shown("x" * 10**6)) == 60
    assert expecting.shown([1]) == "[1]"


def test_an_array_is_a_list_where_one_is_meant():
    assert row(whole, whole)(np.array([8, 16]), "It is") == (8, 16)
    assert list_of(number, 2)(np.array([0.5, 1.0]), "It is") == [0.5, 1.0]
    assert list_of(list_of(whole))(np.eye(2, dtype=int), "It is") == [[1, 0], [0, 1]]
    with pytest.raises(
        AssertionError, match=r"It is array\(\[8\]\); expected 2 values: a whole number, a whole number"
    ):
        row(whole, whole)(np.array([8]), "It is")


@pytest.mark.parametrize(
    "name", ["ps:1 CPU:0", "ps:1 cpu:0", "/job:ps/task:1/cpu:0", "/job:ps/replica:0/task:1/device:CPU:0"]
)
def test_a_device_of_a_cluster_may_be_spelled_as_tensorflow_spells_it(name):
    assert task_in(["ps:0 CPU:0", "ps:1 CPU:0"])(name, "it is") == "ps:1 CPU:0"


@pytest.mark.parametrize("name", ["ps:2 CPU:0", "ps1 CPU:0", "job:ps/task:1/cpu:0", "ps:1", "ps:1 GPU:0", None, 1])
def test_a_device_that_is_not_of_the_cluster_is_none_of_it(name):
    with pytest.raises(AssertionError, match="ps:1 CPU:0"):
        task_in(["ps:0 CPU:0", "ps:1 CPU:0"])(name, "it is")
