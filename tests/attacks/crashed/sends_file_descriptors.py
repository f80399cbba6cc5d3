"""Sends file descriptors along with its answers, to fill the checker's table."""

from corpus import QUESTIONS, answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    QUESTIONS
    + """
import array
import os
import socket

for channel in channels():
    channel.settimeout(0.1)
    pipes = array.array("i", [end for _ in range(50) for end in os.pipe()])
    channel.sendmsg([b"A"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, pipes)])


def where(tensor):
    return None
""",
)
