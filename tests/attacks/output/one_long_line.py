"""Prints one line of 100 MB."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
print("x" * 100_000_000)
""",
)
