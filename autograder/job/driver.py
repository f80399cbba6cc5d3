"""The process that listens to a student's kernel: a warm server with papermill imported; its child executes one notebook.

It speaks ZeroMQ and parses what the kernel sends, so it has a box of its own, without rights, and nothing of it is used
twice. The kernel's life, its box and every decision are the worker's (see `session`).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import socket
from collections.abc import Callable
from typing import Any

import msgspec
import nbformat
import zmq.asyncio
from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.job import execute, messages
from autograder.job.kernel_client import MESSAGE, KernelClient, SilentError, liveness
from autograder.model import recorded_notebook
from autograder.sandbox import entering

for _name in (
    "jupyter_client.asynchronous",
    "zmq.backend.cython",
    "tornado.platform.asyncio",
    "zmq.eventloop.zmqstream",
):
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)
new_output("stream", text="")  # compiles the schema of outputs: 50 ms of every job otherwise


def before(message: dict[str, Any]) -> Callable[[], None]:
    """See `entering.before`."""
    return entering.before(message["box"])


def child(message: dict[str, Any], fds: list[int], connection: socket.socket) -> None:
    """Execute one notebook; `fds`: it, where the answer goes, the folder of the kernel's sockets, the kernel's pidfd."""
    request: messages.Execute = messages.received(message, messages.Execute)
    notebook, answer, folder, alive = fds
    entering.hold([*fds, connection.fileno()])
    entering.enter(request.box)
    entering.hush()
    os.chdir("/tmp")
    asyncio.set_event_loop(asyncio.new_event_loop())
    with open(notebook, "rb", closefd=False) as file:
        file.seek(0)
        assembled = nbformat.from_dict(json.loads(file.read()))
    assert isinstance(assembled, NotebookNode)
    with open(answer, "wb", closefd=False) as file:
        file.write(messages.written(_execute(request, assembled, folder, alive, connection)))


def _execute(
    request: messages.Execute, notebook: NotebookNode, folder: int, alive: int, connection: socket.socket
) -> messages.Executed:
    context = zmq.asyncio.Context()
    context.setsockopt(zmq.MAXMSGSIZE, MESSAGE)
    kernel = KernelClient(request.connection, folder, liveness(alive))
    try:
        kernel.ready(context)
    except SilentError as error:
        return messages.Executed(fault=str(error))

    def on_cell(cell: int) -> None:
        connection.send(messages.written(messages.CellBegins(cell)))

    executed = execute.execute(notebook, kernel, request, on_cell)
    left = recorded_notebook.room()
    outputs = [recorded_notebook.outputs(cell.get("outputs"), left) for cell in notebook.cells]
    return msgspec.structs.replace(executed, outputs=outputs)
