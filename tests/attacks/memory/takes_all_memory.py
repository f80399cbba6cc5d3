"""Answers one exercise rightly, holding 3 GiB, which it may, and then takes all memory."""

from corpus import at_each_test

EXERCISE = "place"
EARNS = {"where": 2.0}
EACH = at_each_test(
    EXERCISE,
    "hold(272)",
    honest=tuple(EARNS),
    before="""
    HELD, TOUCHED = [], b"x" * ((64 << 20) // 4096)


    def hold(pieces):
        for _ in range(pieces):
            HELD.append(bytearray(64 << 20))
            HELD[-1][::4096] = TOUCHED


    hold(48)
    """,
)
