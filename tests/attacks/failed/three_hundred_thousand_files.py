"""Leaves three hundred thousand empty files in the folders that it may write to."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
for number in range(100_000):
    for place in ("/box", "/tmp", "/dev/shm"):
        try:
            open(f"{place}/{number}", "w").close()
        except OSError:
            pass


def where(tensor):
    return None
""",
)
