"""Leaves threads and timers that watch the main thread and put its inputs in place of its answers."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import sys
import threading
import time

MAIN = threading.main_thread().ident
SEEN = []


def watching():
    while True:
        frame = sys._current_frames().get(MAIN)
        while frame is not None:
            if frame.f_code.co_filename == "<probe>":
                SEEN[:] = [value for value in frame.f_locals.values() if isinstance(value, str | list | tuple | dict)]
            frame = frame.f_back
        time.sleep(0.0001)


def again():
    globals()["where"] = lambda tensor: SEEN[-1] if SEEN else None
    globals()["place"] = lambda ops, default, before: SEEN[-1] if SEEN else before
    threading.Timer(0.01, again).start()


threading.Thread(target=watching, daemon=True).start()
again()


def where(tensor):
    time.sleep(0.05)
    return SEEN[-1] if SEEN else None
""",
)
