"""Answers one exercise rightly and then takes all memory."""

from corpus import at_each_test

EXERCISE = "place"
EARNS = {"where": 2.0}
EACH = at_each_test(
    EXERCISE,
    """
    hoard = []
    while True:
        hoard.append(bytearray(1 << 28))
        hoard[-1][::4096] = b"x" * (1 << 16)  # a byte a page
    """,
    honest=tuple(EARNS),
)
