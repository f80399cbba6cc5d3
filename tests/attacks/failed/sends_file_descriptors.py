"""Sends file descriptors along with its answers, to fill the checker's table."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import array
import os
import socket
import stat

for fd in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            channel = socket.socket(fileno=os.dup(fd))
            if channel.family == socket.AF_UNIX and channel.type == socket.SOCK_STREAM:
                channel.settimeout(0.1)
                pipes = array.array("i", [end for _ in range(50) for end in os.pipe()])
                channel.sendmsg([b"A"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, pipes)])
    except OSError:
        pass


def where(tensor):
    return None
""",
)
