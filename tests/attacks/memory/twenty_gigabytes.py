"""Allocates 20 GiB and touches every page."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
held = []
while len(held) < 320:
    held.append(bytearray(b"x") * (64 << 20))
""",
)
