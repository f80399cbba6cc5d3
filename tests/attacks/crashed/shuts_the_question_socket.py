"""Shuts down the socket on which it is asked."""

from corpus import QUESTIONS, answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    QUESTIONS
    + """
import socket

for channel in channels():
    channel.shutdown(socket.SHUT_RDWR)


def where(tensor):
    return None
""",
)
