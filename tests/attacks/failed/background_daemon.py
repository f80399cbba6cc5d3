"""Leaves daemons behind that hold its files, ignore signals and wait for the next student."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import signal
import subprocess
import time

for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            while True:
                open("/tmp/i_was_here", "a").write("x")
                time.sleep(0.5)
        os._exit(0)
subprocess.Popen(["setsid", "sh", "-c", "trap : TERM HUP INT; while :; do sleep 1; done"])


def where(tensor):
    return None
""",
)
