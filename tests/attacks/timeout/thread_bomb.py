"""Starts threads for ever."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import threading
import time

while True:
    try:
        threading.Thread(target=time.sleep, args=(1000,)).start()
    except RuntimeError:
        pass
""",
)
