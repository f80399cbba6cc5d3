"""Fills files that are in memory and have no name, 200 MB each, until there is no memory."""

from corpus import answering

EXERCISE = "where"
WATCHED = "crashed"  # where no control group counts them, such files are refused
submission = answering(
    EXERCISE,
    """
import os

HELD, part = [], b"x" * 1_000_000
for _ in range(100):
    HELD.append(os.memfd_create("hog"))
    for _ in range(200):
        os.write(HELD[-1], part)
""",
)
