"""Kills every process that it may, its own group and process 1 included."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import signal

for target in (1, os.getppid(), -1, 0, os.getpid()):
    try:
        os.kill(target, signal.SIGKILL)
    except OSError:
        pass
""",
)
