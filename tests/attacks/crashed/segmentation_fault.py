"""Reads address 0."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import ctypes

ctypes.string_at(0)
""",
)
