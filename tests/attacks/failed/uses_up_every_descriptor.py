"""Has thousands of open files under way to itself and keeps every descriptor but a few: all that a user may have."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import socket

HELD = []
try:
    for _ in range(300):
        one, other = socket.socketpair()
        HELD += [one, other]
        socket.send_fds(one, [b"x"], [one.fileno()] * 100)
except OSError:
    pass
try:
    while True:
        HELD.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for _ in range(30):  # without any, its kernel would only break down
    os.close(HELD.pop())


def where(tensor):
    return None
""",
)
