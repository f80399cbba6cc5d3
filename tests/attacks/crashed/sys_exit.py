"""Leaves the cell by sys.exit(0), so that nothing after it counts."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import sys

sys.exit(0)


def where(tensor):
    return None
""",
)
