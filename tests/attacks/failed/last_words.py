"""Registers atexit and __del__ code that answers for it, then ends its kernel in good order when asked."""

from corpus import QUESTIONS, answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    QUESTIONS
    + """
import atexit
import json
import struct
import weakref


def last_words(*args):
    header = json.dumps({"d": [["value", "/CPU:0"]]}).encode()
    for channel in channels():
        channel.settimeout(1)
        for _ in range(20):
            channel.send(struct.pack("!4sII", b"ASK1", len(header), 0) + header)


class Dying:
    __del__ = last_words


atexit.register(last_words)
HELD = Dying()
weakref.finalize(HELD, last_words)


def where(tensor):
    global HELD
    HELD = None
    get_ipython().kernel.do_shutdown(False)
    get_ipython().kernel.io_loop.stop()
""",
)
