"""Prints one line of 50 MB."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
print("x" * 50_000_000)
""",
)
