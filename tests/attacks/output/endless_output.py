"""Prints for ever."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
while True:
    print("x" * 1000)
""",
)
