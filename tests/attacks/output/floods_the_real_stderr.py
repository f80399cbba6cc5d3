"""Fills the real stdout and stderr below Python, then answers wrongly."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os

try:
    for _ in range(10_000):
        os.write(1, b"x" * 65536)
        os.write(2, b"y" * 65536)
except OSError:
    pass


def where(tensor):
    return None
""",
)
