"""When asked, computes for ever in eight processes that ignore every signal which can be ignored."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import signal


def where(tensor):
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    for _ in range(7):
        if os.fork() == 0:
            os.setsid()
            break
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
""",
)
