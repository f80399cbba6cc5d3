"""Answers by half a surrogate pair, NaN, huge numbers and values nested to the limit."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    r"""
turn = [0]
nested = "/CPU:0"
for _ in range(90):
    nested = [nested]
VALUES = ("\ud800", float("nan"), float("inf"), 10**4000, nested, {"\udfff": None}, b"\xff" * 1000, "", -0.0, ())


def where(tensor):
    turn[0] += 1
    return VALUES[turn[0] % len(VALUES)]
""",
)
