"""Ends the kernel by os._exit(0), as if all had gone well."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os

os._exit(0)
""",
)
