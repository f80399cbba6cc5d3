"""A slow network card for this process: what it answers on connections that it accepts leaves at a rate, in bytes a second.

Linux paces what a TCP socket sends (SO_MAX_PACING_RATE, socket(7); Dumazet, 2013), loopback included, without any right. A
connection inherits the rate of the listening socket that accepted it. TensorFlow's tensors are pulled: a server sends them on
connections that it accepted, so to pace the listener is enough. The rate holds for each connection: a task that two others
pull from at the same time sends twice as much.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct

from across import _system

SO_MAX_PACING_RATE = 47  # asm-generic/socket.h; not among Python's constants
LISTENS = getattr(socket, "SO_ACCEPTCONN", 30)


def slow(bytes_per_second: float) -> int:
    """Pace the connections that this process will accept; of how many listening sockets. 0 where this is not Linux."""
    found = 0
    for one in _listening() if _system.linux() else ():
        with one:
            one.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("=Q", round(bytes_per_second)))
            found += 1
    return found


def _listening() -> list[socket.socket]:
    """Duplicates of this process's own descriptors that listen for TCP."""
    found: list[socket.socket] = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            one = socket.socket(fileno=os.dup(int(name)))
            internet = one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM
            if internet and one.getsockopt(socket.SOL_SOCKET, LISTENS):
                found.append(one)
            else:
                one.close()
    return found
