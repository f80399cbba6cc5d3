"""Closes every file descriptor of the kernel, the one for questions included."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os

os.closerange(0, 1024)


def where(tensor):
    return None
""",
)
