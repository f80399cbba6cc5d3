"""How an address answers: resolved, connected, greeted as HTTP/2 (gRPC), and asked which task a TensorFlow server there is.

No op is sent, one question is: `WorkerService/GetStatus`, which each session asks when it opens.
"""

from __future__ import annotations

import hashlib
import re
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

import grpc

from across._cluster_doctor.config import host, port
from across._cluster_doctor.facts import GRPC, NO_ANSWER, NO_PORT, OTHER, REFUSED, SILENT, UNKNOWN, Endpoint

CONNECT, ANSWER = 2.0, 1.5  # seconds
NAME = re.compile(rb"/job:(\w+)/replica:\d+/task:(\d+)/device:")


def answers(addresses: Mapping[str, str], seconds: float) -> dict[str, Endpoint]:
    """How the address of each task answers, all asked at once; a name server may keep one from being there after `seconds`."""
    found: dict[str, Endpoint] = {}

    def ask(task: str) -> None:
        found[task] = probe(task, addresses[task])

    threads = [threading.Thread(target=ask, args=[task], daemon=True) for task in addresses]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return {task: found.get(task, Endpoint(task, address, NO_ANSWER)) for task, address in addresses.items()}


def probe(task: str, address: str) -> Endpoint:
    """Say how the address of a task answers, within CONNECT + ANSWER seconds; a slow name server comes on top."""
    if not port(address):
        return Endpoint(task, address, NO_PORT)
    try:
        resolved = socket.getaddrinfo(host(address), port(address), type=socket.SOCK_STREAM)[0][4]
    except (OSError, UnicodeError) as error:
        return Endpoint(task, address, UNKNOWN, error=str(error))
    here = ours(str(resolved[0]))
    try:
        socket.create_connection((str(resolved[0]), port(address)), CONNECT).close()
    except ConnectionRefusedError as error:
        return Endpoint(task, address, REFUSED, here=here, error=str(error))
    except OSError as error:
        return Endpoint(task, address, NO_ANSWER, here=here, error=str(error))
    answer, says, server = _greeted(str(resolved[0]), port(address))
    return Endpoint(task, address, answer, says, server, here)


def ours(ip: str) -> bool:
    """Whether this machine has that address: it can be bound."""
    with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM) as one:
        try:
            one.bind((ip, 0))
        except OSError:
            return False
    return True


def _greeted(ip: str, number: int) -> tuple[str, str, str]:
    """How a server answers gRPC, the task that it says it is, and which server: its devices have random numbers."""
    options = [("grpc.enable_http_proxy", 0)]  # we look at this address, whatever the environment says
    with grpc.insecure_channel(f"[{ip}]:{number}" if ":" in ip else f"{ip}:{number}", options) as channel:
        try:
            status = channel.unary_unary("/tensorflow.WorkerService/GetStatus")(b"", timeout=ANSWER)
        except grpc.RpcError as raised:
            error: Any = raised
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return SILENT, "", ""
            return OTHER if "failed to connect" in error.details() else GRPC, "", ""
    named = NAME.search(status)
    return GRPC, f"{named[1].decode()}:{named[2].decode()}" if named else "", hashlib.sha256(status).hexdigest()[:16]
