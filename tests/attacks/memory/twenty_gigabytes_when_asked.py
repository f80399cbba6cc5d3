"""Allocates 20 GiB when it is asked."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
def where(tensor):
    held, touched = [], b"x" * ((64 << 20) // 4096)
    while len(held) < 320:
        held.append(bytearray(64 << 20))
        held[-1][::4096] = touched
""",
)
