"""Writes files of 100 MiB until there is no room anywhere."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import itertools

for number in itertools.count():
    for place in ("/box", "/tmp", "/dev/shm"):
        try:
            with open(f"{place}/{number}", "wb") as file:
                file.write(b"x" * (100 << 20))
        except OSError:
            pass
""",
)
