"""Sends its reply a byte at a time, each in time."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import socket
import stat
import struct
import time


def where(tensor):
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                channel = socket.socket(fileno=os.dup(fd))
                if channel.family == socket.AF_UNIX and channel.type == socket.SOCK_STREAM:
                    for byte in struct.pack("!4sII", b"ASK1", 1000, 0) + b" " * 1000:
                        channel.sendall(bytes([byte]))
                        time.sleep(1)
        except OSError:
            pass
""",
)
