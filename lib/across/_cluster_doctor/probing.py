"""How an address answers: resolved, connected, greeted as HTTP/2 (gRPC), and asked which task a TensorFlow server there is.

No op is sent. Two questions are: `WorkerService/GetStatus`, which each session asks when it opens, and the coordination
service's `GetTaskState`, who has come.
"""

from __future__ import annotations

import hashlib
import re
import socket
import threading
import time
from collections.abc import Mapping

from across._cluster_doctor import grpc
from across._cluster_doctor.config import host, port
from across._cluster_doctor.facts import GRPC, NO_ANSWER, NO_PORT, OTHER, REFUSED, SILENT, UNKNOWN, Endpoint

CONNECT, ANSWER = 2.0, 1.5  # seconds
STATES = {2: "has not come", 3: "has come", 4: "failed"}  # CoordinatedTaskState
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
    """Say how the address of a task answers, within CONNECT + 2 ANSWER seconds; a slow name server comes on top."""
    if not port(address):
        return Endpoint(task, address, NO_PORT)
    try:
        resolved = socket.getaddrinfo(host(address), port(address), type=socket.SOCK_STREAM)[0][4]
    except (OSError, UnicodeError) as error:
        return Endpoint(task, address, UNKNOWN, error=str(error))
    here = ours(str(resolved[0]))
    try:
        with socket.create_connection((str(resolved[0]), port(address)), CONNECT) as connection:
            try:
                answer, says, server = _greeted(connection)
            except OSError as error:
                return Endpoint(task, address, SILENT, here=here, error=str(error))
            return Endpoint(task, address, answer, says, server, here)
    except ConnectionRefusedError as error:
        return Endpoint(task, address, REFUSED, here=here, error=str(error))
    except OSError as error:
        return Endpoint(task, address, NO_ANSWER, here=here, error=str(error))


def ours(ip: str) -> bool:
    """Whether this machine has that address: it can be bound."""
    with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM) as one:
        try:
            one.bind((ip, 0))
        except OSError:
            return False
    return True


def states(address: str, tasks: list[str]) -> Mapping[str, str]:
    """What a coordination service at that address says of each task; nothing where there is none."""
    asked = b""
    for task in tasks:
        job, _, index = task.rpartition(":")
        asked += grpc.field(1, grpc.field(1, job.encode()) + grpc.field(2, int(index)))
    try:
        with socket.create_connection((host(address), port(address)), CONNECT) as connection:
            grpc.greet(connection, ANSWER)
            told = grpc.fields(grpc.call(connection, "/tensorflow.CoordinationService/GetTaskState", asked, ANSWER))
            return dict(_state(grpc.fields(grpc.message(each))) for each in told.get(1, []))
    except (OSError, ValueError, LookupError):
        return {}


def _state(of_task: Mapping[int, list[bytes | int]]) -> tuple[str, str]:
    """The task of a CoordinatedTaskStateInfo, and its state."""
    task = grpc.fields(grpc.message(of_task[1][0]))
    job = grpc.message(task[1][0]).decode("utf-8", "replace")
    return f"{job}:{task.get(2, [0])[0]}", STATES.get(int(of_task.get(2, [0])[0]), "is not known")


def _greeted(connection: socket.socket) -> tuple[str, str, str]:
    """How a server answers HTTP/2, the task that it says it is, and which server: its devices have random numbers."""
    try:
        grpc.greet(connection, ANSWER)
    except TimeoutError:
        return SILENT, "", ""
    except ValueError:
        return OTHER, "", ""
    try:
        status = grpc.call(connection, "/tensorflow.WorkerService/GetStatus", b"", ANSWER)
    except (OSError, ValueError):
        return GRPC, "", ""
    named = NAME.search(status)
    return GRPC, f"{named[1].decode()}:{named[2].decode()}" if named else "", hashlib.sha256(status).hexdigest()[:16]
