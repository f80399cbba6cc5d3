"""Answers by 30 MB of bytes, as the protocol has it."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
def where(tensor):
    return b"x" * 30_000_000
""",
)
