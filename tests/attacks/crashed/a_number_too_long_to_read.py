"""Answers by an integer of a hundred thousand digits."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import sys

sys.set_int_max_str_digits(0)


def where(tensor):
    return 10**100_000
""",
)
