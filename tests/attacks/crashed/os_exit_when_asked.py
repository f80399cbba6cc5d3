"""Ends the kernel by os._exit(0) at the first question."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os


def where(tensor):
    os._exit(0)
""",
)
