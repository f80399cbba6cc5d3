"""Allocates half a GiB in its cell, which it may, and 19 more when it is asked."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
HELD, TOUCHED = [], b"x" * ((64 << 20) // 4096)

def hold(pieces):
    for _ in range(pieces):
        HELD.append(bytearray(64 << 20))
        HELD[-1][::4096] = TOUCHED

def where(tensor):
    hold(312)

hold(8)
""",
)
