"""Announces a reply of 2 GB and sends zeros, past the protocol's encoder."""

from corpus import QUESTIONS, answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    QUESTIONS
    + """
import struct


def where(tensor):
    for channel in channels():
        channel.sendall(struct.pack("!4sII", b"ASK1", 10, 2_000_000_000))
        for _ in range(2000):
            channel.sendall(bytes(1_000_000))
""",
)
