"""Sends its reply a byte at a time, each in time."""

from corpus import QUESTIONS, answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    QUESTIONS
    + """
import struct
import time


def where(tensor):
    for channel in channels():
        for byte in struct.pack("!4sII", b"ASK1", 1000, 0) + b" " * 1000:
            channel.sendall(bytes([byte]))
            time.sleep(1)
""",
)
