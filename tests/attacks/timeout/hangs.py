"""Answers one exercise rightly and then never ends."""

from corpus import at_each_test

EXERCISE = "soonest"
EARNS = {"where": 2.0}
EACH = at_each_test(
    EXERCISE,
    """
    while True:
        pass
    """,
    honest=tuple(EARNS),
)
