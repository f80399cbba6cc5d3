"""Answers by bytes that are no frame."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import socket
import stat


def where(tensor):
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                channel = socket.socket(fileno=os.dup(fd))
                if channel.family == socket.AF_UNIX and channel.type == socket.SOCK_STREAM:
                    channel.sendall(os.urandom(100_000))
        except OSError:
            pass
""",
)
