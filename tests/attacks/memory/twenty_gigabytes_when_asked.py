"""Allocates 20 GiB when it is asked."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
def where(tensor):
    held = []
    while len(held) < 320:
        held.append(bytearray(b"x") * (64 << 20))
""",
)
