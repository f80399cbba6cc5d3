"""Leaves a folder ten thousand deep, names that are no text, links to everywhere."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    r"""
import os

for number in range(200):
    open(b"/box/\xff\n" + str(number).encode(), "w").close()
os.symlink("/", "/box/everything")
os.symlink("/etc/shadow", "/box/shadow")
os.mkdir("/box/locked", 0)
for _ in range(10_000):
    os.mkdir("d")
    os.chdir("d")
os.chdir("/box")


def where(tensor):
    return None
""",
)
