"""The plain value of an answer: the same for a visible check and for grading, whatever its Python type."""

import collections
import decimal
import enum
import fractions

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from across import attempt, expecting
from across.plain import NotPlainError, plain, plainer
from autograder.probe import wire


class Colour(enum.IntEnum):
    RED = 3


class Names(list):
    pass


class Forged(dict):
    """Claims to hold something else."""

    def items(self):
        return [("forged", 1)]


class Text(str):
    """Claims to be another."""

    def __str__(self):
        return "forged"


Pair = collections.namedtuple("Pair", "a b")


PLAIN = [
    (np.float64(2.5), 2.5),
    (np.int64(3), 3),
    (np.bool_(True), True),
    (np.str_("a"), "a"),
    (np.array(4), 4),
    (np.array(["a", "b"]), ["a", "b"]),
    (np.array([{"a": np.int8(1)}], object), [{"a": 1}]),
    (collections.OrderedDict(a=1), {"a": 1}),
    (collections.defaultdict(list, a=[np.int32(1)]), {"a": [1]}),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
    ({3, 1, 2}, [1, 2, 3]),
    (range(3), [0, 1, 2]),
    ({"a": 1}.keys(), ["a"]),
    (collections.deque([1]), [1]),
    (fractions.Fraction(1, 4), 0.25),
    ([decimal.Decimal("0.5")], [0.5]),
    (Names([Colour.RED]), [3]),
    (Pair(1, 2), (1, 2)),
    (Forged(a=1), {"a": 1}),
    ({Text("x"): Colour.RED}, {"x": 3}),
    ((1, (np.float32(0.5),)), (1, (0.5,))),
]
CROSSES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary())
    | st.sampled_from([value for value, _ in PLAIN]),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.parametrize(("value", "expected"), PLAIN, ids=lambda value: type(value).__name__)
def test_a_value_is_the_plain_one_that_is_meant(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)


@given(CROSSES)
def test_grading_reads_what_a_visible_check_reads(value):
    frame = wire.encode(value, 0, plainer)
    _, header, _ = wire.HEAD.unpack(frame[: wire.HEAD.size])
    content = frame[wire.HEAD.size :]
    assert wire.decode(content[:header], content[header:]) == plain(value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "a value of type object; return numbers, text, lists, dictionaries or arrays"),
        (fractions.Fraction(10**400), "a value of type Fraction; return"),
        (np.array(["2020-01-01"], "datetime64[D]"), r"an array of datetime64\[D\]; return"),
        ({"a": [lambda: 1]}, "a value of type function; return"),
    ],
    ids=["object", "huge", "dates", "function inside"],
)
def test_what_has_no_plain_value_says_what_to_return(value, says):
    with pytest.raises(NotPlainError, match=says):
        plain(value)
    with pytest.raises(NotPlainError, match=says):
        wire.encode(value, 0, plainer)


def test_lists_in_lists_without_end_are_refused():
    endless: list = []
    endless.append(endless)
    with pytest.raises(NotPlainError, match="nested more than 100 deep"):
        plain(endless)


def test_a_visible_check_calls_and_reads_as_grading_does():
    assert attempt.call(lambda x: np.float64(x) / 2, 5, returns=expecting.number) == 2.5

    def twice(x):
        return f"{x}{x}"

    with pytest.raises(attempt.NotYet) as caught:
        attempt.call(twice, 3, returns=expecting.whole)
    assert str(caught.value) == "`twice(3)` returned '33'; expected a whole number."

    def nothing(x):
        return iter([x])

    with pytest.raises(attempt.NotYet) as caught:
        attempt.call(nothing, 3)
    assert str(caught.value) == (
        "`nothing(3)` returned a value of type list_iterator; return numbers, text, lists, dictionaries or arrays."
    )
