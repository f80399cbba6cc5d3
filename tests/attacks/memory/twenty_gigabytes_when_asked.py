"""Allocates 20 GiB when it is asked."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import mmap

HELD = []

def where(tensor):
    while len(HELD) < 320:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        HELD.append(mmap.mmap(-1, 64 << 20, flags=flags))
""",
)
