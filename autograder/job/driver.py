"""The process that listens to a student's kernel: a warm server with papermill imported; its child executes one notebook.

It speaks ZeroMQ and parses what the kernel sends, so it has a box of its own, without rights, and nothing of it is used
twice. The kernel's life, its box and every decision are the worker's (see `drive`).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import nbformat
import zmq.asyncio
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NotebookExecutionManager

from autograder.job import messages
from autograder.job.assemble import is_executed
from autograder.job.kernel_client import MESSAGE, KernelClient, SilentError, liveness
from autograder.job.messages import Execute, Executed
from autograder.model import recorded_notebook
from autograder.model.verdict import Stop
from autograder.sandbox import entering

PATIENCE = 4.0  # seconds at least for what an ended cell still says, as nbclient's own

for _name in (
    "jupyter_client.asynchronous",
    "zmq.backend.cython",
    "tornado.platform.asyncio",
    "zmq.eventloop.zmqstream",
):
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)
new_output("stream", text="")  # compiles the schema of outputs: 50 ms of every job otherwise


class _OutputError(Exception):
    pass


class _Runner(PapermillNotebookClient):
    kernel: KernelClient
    cap = 0
    used = 0
    at = -1  # papermill marks the cell that killed the kernel as completed: so we note it ourselves
    on_cell: Callable[[int], object]
    seconds: Callable[[NotebookNode], float]  # that a cell has
    ends = 0.0  # time.monotonic at which its time is up

    @property
    def iopub_timeout(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Seconds to wait for what a cell that has ended still says: thousands of displays are read after it ended."""
        return max(PATIENCE, self.ends - time.monotonic())

    async def _async_poll_kernel_alive(self) -> None:
        while self.kernel.alive() and not self.kernel.cut():  # nbclient itself looks once a second
            await asyncio.sleep(0.05)
        if self.task_poll_for_reply is not None:
            self.task_poll_for_reply.cancel()

    def begins(self, cell: NotebookNode, cell_index: int) -> None:
        """Note which cell is executed now."""
        self.at = cell_index
        self.ends = time.monotonic() + self.seconds(cell)
        self.on_cell(cell_index)

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> Any:
        try:
            self.used += sum(len(str(value)) for value in msg["content"].values())
            if self.used > self.cap:
                if self.task_poll_for_reply is not None:  # what is raised here is only seen once the cell has ended
                    self.task_poll_for_reply.cancel()
                raise _OutputError
            return super().process_message(msg, cell, cell_index)
        except (
            RecursionError
        ):  # it was parsed, but nbformat walks it with half of that stack: this output alone is lost
            cell.outputs.append(new_output("display_data", {"text/plain": "(not shown: nested too deeply)"}))


def before(message: dict[str, Any]) -> Callable[[], None]:
    """See `entering.before`."""
    return entering.before(message["box"])


def child(message: dict[str, Any], fds: list[int], connection: socket.socket) -> None:
    """Execute one notebook; `fds`: it, where the answer goes, the folder of the kernel's sockets, the kernel's pidfd."""
    request: Execute = messages.received(message, Execute)
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


def _execute(request: Execute, notebook: NotebookNode, folder: int, alive: int, connection: socket.socket) -> Executed:
    """Execute `notebook` in place, as soon as the kernel is heard, within the limits of the request."""
    context = zmq.asyncio.Context()
    context.setsockopt(zmq.MAXMSGSIZE, MESSAGE)
    kernel = KernelClient(request.connection, folder, liveness(alive))
    try:
        client = kernel.ready(context)
    except SilentError as error:
        return Executed(fault=str(error))
    numbers = [n for n, cell in enumerate(notebook.cells) if is_executed(cell)]
    # only those: papermill spends half a millisecond on a cell that it passes over, and most are prose
    part = NotebookNode(notebook)
    part.cells = [notebook.cells[n] for n in numbers]
    notebook.metadata["papermill"] = {}
    manager = NotebookExecutionManager(part, progress_bar=False)
    manager.notebook_start()
    runner = _Runner(manager, km=kernel, allow_errors=True)
    runner.kernel, runner.kc, runner.cap = kernel, client, request.output_bytes
    left = lambda _cell: max(0.05, min(request.cell_seconds, request.until - time.monotonic()))  # noqa: E731
    runner.timeout_func = runner.seconds = left  # type: ignore[assignment]  # nbclient bears fractions of a second
    runner.on_cell = lambda n: connection.send(messages.written(messages.CellBegins(numbers[n])))
    runner.on_cell_execute = runner.begins
    stopped, note = _run(runner, kernel)
    room = recorded_notebook.room()
    return Executed(
        stopped=stopped,
        cell=numbers[runner.at] if runner.at >= 0 else -1,
        note=note,
        outputs=[recorded_notebook.outputs(cell.get("outputs"), room) for cell in notebook.cells],
    )


def _run(runner: _Runner, kernel: KernelClient) -> tuple[Stop | None, str]:
    """Execute the cells; why that stopped before the last one, if it did, and a note on it."""
    too_much = Stop.OUTPUT, f"more than {runner.cap} bytes of output"
    try:
        runner.papermill_execute_cells()
    except _OutputError:
        return too_much
    except CellTimeoutError:
        return Stop.TIMEOUT, "no end within the time limit"
    except DeadKernelError:
        if runner.used > runner.cap:
            return too_much
        if kernel.alive():
            return Stop.OUTPUT, f"a message of more than {MESSAGE} bytes"
        return Stop.CRASHED, "the kernel died"
    except MemoryError:
        raise
    except Exception as error:  # what a tampered kernel makes its client raise is the student's
        return Stop.CRASHED, f"{type(error).__name__}: {error}"[:300]
    return None, ""
