"""Executing an assembled notebook in a kernel that listens, by papermill, under limits. It runs in the driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines

from autograder.job.assemble import SKIP, is_executed
from autograder.job.kernel_client import MESSAGE, KernelClient
from autograder.job.messages import Execute, Executed
from autograder.model.verdict import Stop

PATIENCE = 4.0  # seconds at least for what an ended cell still says, as nbclient's own


class _OutputError(Exception):
    pass


class _Runner(PapermillNotebookClient):
    kernel: KernelClient
    cap = 0
    used = 0
    at = -1  # papermill marks the cell that killed the kernel as completed: so we note it ourselves
    on_cell: Callable[[int], None]
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


class BoxedEngine(NBClientEngine):
    """papermill's engine for a kernel that is there already."""

    @classmethod
    def execute_managed_notebook(  # type: ignore[override]
        cls,
        nb_man: Any,
        kernel_name: str,
        *,
        kernel: KernelClient,
        limits: Execute,
        on_cell: Callable[[int], None],
        transcript: list[Executed],
        **_: Any,
    ) -> None:
        """Execute the cells that are not tagged `SKIP`; append what became of them to `transcript`."""
        runner = _Runner(nb_man, km=kernel, allow_errors=True, skip_cells_with_tag=SKIP, log_output=False)
        runner.kernel, runner.kc, runner.cap = kernel, kernel.client, limits.output_bytes
        left = lambda _cell: max(0.05, min(limits.cell_seconds, limits.until - time.monotonic()))  # noqa: E731
        runner.timeout_func = runner.seconds = left  # type: ignore[assignment]  # nbclient bears fractions of a second
        runner.on_cell, runner.on_cell_execute = on_cell, runner.begins
        transcript.append(_run(runner, kernel))


papermill_engines.register("boxed", BoxedEngine)


def _run(runner: _Runner, kernel: KernelClient) -> Executed:
    try:
        runner.papermill_execute_cells()
    except _OutputError:
        return _too_much(runner)
    except CellTimeoutError:
        return Executed(stopped=Stop.TIMEOUT, cell=runner.at, note="no end within the time limit")
    except DeadKernelError:
        if runner.used > runner.cap:
            return _too_much(runner)
        if kernel.alive():
            return Executed(stopped=Stop.OUTPUT, cell=runner.at, note=f"a message of more than {MESSAGE} bytes")
        return Executed(stopped=Stop.CRASHED, cell=runner.at, note="the kernel died")
    except MemoryError:
        raise
    except Exception as error:  # what a tampered kernel makes its client raise is the student's
        return Executed(stopped=Stop.CRASHED, cell=runner.at, note=f"{type(error).__name__}: {error}"[:300])
    return Executed(cell=runner.at)


def _too_much(runner: _Runner) -> Executed:
    return Executed(stopped=Stop.OUTPUT, cell=runner.at, note=f"more than {runner.cap} bytes of output")


def execute(notebook: NotebookNode, kernel: KernelClient, limits: Execute, on_cell: Callable[[int], None]) -> Executed:
    """Execute `notebook` in place in a ready `kernel`, within the `limits` of what was asked.

    `on_cell` is called with each cell's number before it is executed.
    """
    numbers = [n for n, cell in enumerate(notebook.cells) if is_executed(cell)]
    # only those: papermill spends half a millisecond on a cell that it passes over, and most are prose
    part = NotebookNode(notebook)
    part.cells = [notebook.cells[n] for n in numbers]
    notebook.metadata["papermill"] = {}
    for cell in part.cells:
        cell.metadata["papermill"] = {}
        cell.metadata.setdefault("tags", [])
    transcript: list[Executed] = []
    papermill_engines.execute_notebook_with_engine(
        "boxed",
        part,
        "python3",
        kernel=kernel,
        limits=limits,
        on_cell=lambda n: on_cell(numbers[n]),
        transcript=transcript,
        progress_bar=False,
    )
    for cell in part.cells:
        cell.metadata.pop("papermill", None)
    made = transcript[0]
    return msgspec.structs.replace(made, cell=numbers[made.cell]) if made.cell >= 0 else made
