"""A link between two processes of this machine, measured: how long do so many bytes take to arrive?

    seconds = measure([1_000, 1_000_000], repeats=9)
    seconds[1_000_000]                     # nine times, in seconds

The bytes cross a TCP connection over the loopback interface to a process of its own, which answers with one byte once it
has them all. No network card is involved: a lower bound for what a real network costs.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence

TIMEOUT = 20.0  # seconds, for each wait
HEAD = 8  # bytes that tell how many follow
_FAR_END = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20) as link:
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(1 << 20)
    def take(n):
        while n:
            got = link.recv_into(buffer, min(n, len(buffer)))
            if not got:
                sys.exit()
            n -= got
        return True
    while take(8):
        size = int.from_bytes(buffer[:8], "big")
        take(size)
        link.sendall(b"!")
"""


def measure(sizes: Sequence[int], repeats: int = 9) -> dict[int, list[float]]:
    """Return for each size in bytes the seconds of `repeats` transfers, the answer's way back included.

    Sizes take turns, so that what else the machine does falls on all of them alike. Raises OSError when there is no
    loopback interface, or when a transfer takes longer than 20 s.
    """
    seconds: dict[int, list[float]] = {size: [] for size in sizes}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT)
        far = subprocess.Popen([sys.executable, "-c", _FAR_END, str(listener.getsockname()[1])])
        try:
            near, _ = listener.accept()
            with near:
                near.settimeout(TIMEOUT)
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _once(near, max(sizes, default=0))  # the first transfer grows the buffers
                for _ in range(repeats):
                    for size in seconds:
                        _once(near, 0)  # takes what the message before left behind: a cold cache, a sleeping process
                        seconds[size].append(_once(near, size))
        finally:
            far.kill()
            far.wait()
    return seconds


def _once(near: socket.socket, size: int) -> float:
    data = size.to_bytes(HEAD, "big") + bytes(size)
    start = time.perf_counter()
    near.sendall(data)
    if near.recv(1) != b"!":
        raise OSError("the far end of the link has gone")
    return time.perf_counter() - start
