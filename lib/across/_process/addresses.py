"""Addresses of this machine for servers that are still to start."""

from __future__ import annotations

import socket

from across import _system

HOST = "127.0.0.1"


def free_address(held: list[socket.socket]) -> str:
    """An address of this machine that nobody else gets: bound by a socket that is `held`, and never listens, until it closes.

    A server gets it all the same with TF_GRPC_REUSE_PORT=1 in its environment.

    Where TensorFlow cannot bind it a second time (not Linux), it is only likely that nobody else does.
    """
    one = socket.socket()
    held.append(one)
    if _system.linux():
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind((HOST, 0))
    port = one.getsockname()[1]
    if not _system.linux():
        one.close()
    return f"{HOST}:{port}"
