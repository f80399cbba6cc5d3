"""Writes 100 MB at once, more than one message of a kernel may have."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
print("x" * 100_000_000, flush=True)
""",
)
