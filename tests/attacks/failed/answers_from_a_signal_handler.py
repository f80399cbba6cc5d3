"""Changes the probe's locals from a signal handler that a timer calls a thousand times a second."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import signal
import time


def handler(number, frame):
    while frame is not None:
        if frame.f_code.co_filename.endswith("answering.py"):
            frame.f_locals["value"] = frame.f_locals.get("inputs", True)
        frame = frame.f_back
    globals()["where"] = where


signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):
    signal.signal(number, handler)


def where(tensor):
    time.sleep(0.1)
    return None
""",
)
