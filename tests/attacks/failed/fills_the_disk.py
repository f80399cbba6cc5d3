"""Writes files of 100 MiB until there is no room in any folder that it may write to."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import itertools

places = ["/box", "/tmp", "/dev/shm", "/dev"]
for number in itertools.count():
    for place in list(places):
        try:
            with open(f"{place}/{number}", "wb") as file:
                file.write(b"x" * (100 << 20))
        except OSError:
            places.remove(place)
    if not places:
        break


def where(tensor):
    return None
""",
)
