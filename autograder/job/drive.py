"""Having a driver execute a notebook in a kernel: the worker's side of `driver`, with a box for it and a clock on it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from nbformat import NotebookNode

from across._process import warm
from autograder.job import messages, peers
from autograder.job.clocks import Clocks
from autograder.job.kernel_process import KernelProcess, StartError
from autograder.model.verdict import Stop
from autograder.sandbox import boxes

DRIVER = boxes.Caps(1 << 30, 512, messages.EXECUTED, 1 << 20, 600)
GRACE = 15.0  # seconds that a driver may take over what its cell, or its start, is allowed


def execute(
    notebook: NotebookNode,
    kernel: KernelProcess,
    clocks: Clocks,
    server: str,
    name: str,
    sandboxed: bool,
    hidden: Sequence[str],
    outside: Callable[[], bool],
) -> messages.Executed | None:
    """Have a child of the warm server at `server`, in box `name`, execute `notebook` in `kernel`.

    None if it was killed, perhaps by nothing that it heard, and `outside` takes that for true. Raises StartError where
    neither cell nor answer is to blame.
    """
    with contextlib.ExitStack() as stack:
        box = stack.enter_context(boxes.Box(name, DRIVER, sandboxed, hidden=hidden))
        files = [os.memfd_create("notebook"), os.memfd_create("executed"), kernel.open_pid()]
        for fd in files:
            stack.callback(os.close, fd)
        assembled, answer, alive = files
        Path(f"/proc/self/fd/{assembled}").write_bytes(json.dumps(notebook).encode())
        request = messages.Execute(
            box=box.request(),
            connection=kernel.connection,
            cell_seconds=clocks.limits.cell_seconds,
            output_bytes=clocks.limits.output_bytes,
            until=clocks.until,
        )
        descriptors = [assembled, answer, kernel.sockets, alive]
        driver = stack.enter_context(warm.request(server, messages.sent(request), descriptors))
        cell = -1
        clocks.turns()
        try:
            while (message := driver.receive(_patience(clocks))) is not None:
                cell = messages.received(message, messages.CellBegins).cell
                clocks.turns("cell_seconds")
                clocks.begins(kernel)
            clocks.turns("cell_seconds")
        except TimeoutError:  # its loop never turned: what came kept it from looking at the clock
            return _blamed(notebook, cell, Stop.TIMEOUT, "no end within the time limit")
        except ValueError as error:
            return _blamed(notebook, cell, Stop.OUTPUT, f"what came confused the driver: {error}")
        if driver.returncode:
            if driver.lost:
                raise StartError("the warm server of the drivers ended")
            if driver.returncode in peers.KILLED and not box.out_of_memory() and outside():
                return None
            return _blamed(notebook, cell, Stop.OUTPUT, "what came ended the process that listened to it")
        if os.stat(answer).st_size > messages.EXECUTED:
            return _blamed(notebook, cell, Stop.OUTPUT, "more output than there is room for")
        try:
            executed = messages.read(Path(f"/proc/self/fd/{answer}").read_bytes(), messages.Executed)
        except messages.MessageError as error:
            return _blamed(notebook, cell, Stop.OUTPUT, f"what came confused the driver: {error}")
    if executed.fault:
        raise StartError(executed.fault)
    if kernel.out_of_memory() and executed.stopped in (None, Stop.CRASHED):
        return msgspec.structs.replace(executed, stopped=Stop.MEMORY, note="a process was killed for its memory")
    if executed.stopped is Stop.CRASHED and kernel.box.forks_refused():
        note = f"{executed.note}; a process or thread was refused before"
        return msgspec.structs.replace(executed, stopped=Stop.PROCESSES, note=note)
    return executed


def _patience(clocks: Clocks) -> float:
    """Seconds to wait for a driver's next word."""
    return max(0.0, min(clocks.limits.cell_seconds, clocks.until - time.monotonic())) + GRACE


def _blamed(notebook: NotebookNode, cell: int, stop: Stop, note: str) -> messages.Executed:
    """A notebook of which nothing but its last cell is known. Raises StartError where none had begun."""
    if cell not in range(len(notebook.cells)):
        raise StartError(f"before the first cell began: {note}")
    return messages.Executed(stopped=stop, cell=cell, note=note)
