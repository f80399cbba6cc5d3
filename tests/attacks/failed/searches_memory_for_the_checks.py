"""Reads all of its own memory for words of the checks, the reference, seeds and the class's secret."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import ctypes
import re

# written so that this cell itself does not hold them
WORDS = rb"copies_are[_]free|wipes_out[_]pins|def greed[y]|BEGIN SOLUTIO[N]|solution_sourc[e]|some_device[s]"
GOT = []
SPANS = [line.split()[:2] for line in open("/proc/self/maps") if "[v" not in line]
for span, rights in SPANS:
    start, end = (int(part, 16) for part in span.split("-"))
    if rights.startswith("rw") and end - start < 1 << 30:
        GOT += re.findall(WORDS, (ctypes.c_char * (end - start)).from_address(start))


def where(tensor):
    if GOT:  # then this answer is right, and the attack is seen to have got through
        return "/" + tensor.backing_device.split("device:")[-1]
    return None
""",
)
