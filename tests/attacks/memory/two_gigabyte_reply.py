"""Answers by 2 GB of bytes."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
def where(tensor):
    return b"x" * 2_000_000_000
""",
)
