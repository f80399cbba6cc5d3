"""Executing an assembled notebook in a kernel that listens, by papermill, under limits. It runs in the driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines

from autograder.job.assemble import SKIP, is_executed
from autograder.job.kernel_client import MESSAGE, KernelClient
from autograder.model.verdict import Stop

PATIENCE = 4.0  # seconds at least for what an ended cell still says, as nbclient's own


@dataclass(frozen=True)
class Transcript:
    """What happened to a notebook that was executed; its outputs are in the notebook."""

    stopped: Stop | None = None
    cell: int = -1  # the last one that began
    note: str = ""


@dataclass(frozen=True)
class CellLimits:
    """What cells may use."""

    cell_seconds: float  # each of them
    output_bytes: int  # all of them
    until: float  # time.monotonic: when all of them must have ended


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
        limits: CellLimits,
        on_cell: Callable[[int], None],
        transcript: list[Transcript],
        **_: Any,
    ) -> None:
        """Execute the cells that are not tagged `SKIP`; append one Transcript to `transcript`."""
        runner = _Runner(nb_man, km=kernel, allow_errors=True, skip_cells_with_tag=SKIP, log_output=False)
        runner.kernel, runner.kc, runner.cap = kernel, kernel.client, limits.output_bytes
        left = lambda _cell: max(0.05, min(limits.cell_seconds, limits.until - time.monotonic()))  # noqa: E731
        runner.timeout_func = runner.seconds = left  # type: ignore[assignment]  # nbclient bears fractions of a second
        runner.on_cell, runner.on_cell_execute = on_cell, runner.begins
        transcript.append(_run(runner, kernel))


papermill_engines.register("boxed", BoxedEngine)


def _run(runner: _Runner, kernel: KernelClient) -> Transcript:
    try:
        runner.papermill_execute_cells()
    except _OutputError:
        return _too_much(runner)
    except CellTimeoutError:
        return Transcript(Stop.TIMEOUT, runner.at, "no end within the time limit")
    except DeadKernelError:
        if runner.used > runner.cap:
            return _too_much(runner)
        if kernel.alive():
            return Transcript(Stop.OUTPUT, runner.at, f"a message of more than {MESSAGE} bytes")
        return Transcript(Stop.CRASHED, runner.at, "the kernel died")
    except MemoryError:
        raise
    except Exception as error:  # what a tampered kernel makes its client raise is the student's
        return Transcript(Stop.CRASHED, runner.at, f"{type(error).__name__}: {error}"[:300])
    return Transcript(None, runner.at)


def _too_much(runner: _Runner) -> Transcript:
    return Transcript(Stop.OUTPUT, runner.at, f"more than {runner.cap} bytes of output")


def execute(
    notebook: NotebookNode, kernel: KernelClient, limits: CellLimits, on_cell: Callable[[int], None]
) -> Transcript:
    """Execute `notebook` in place in a ready `kernel`. `on_cell` is called with each cell's number before it is executed."""
    numbers = [n for n, cell in enumerate(notebook.cells) if is_executed(cell)]
    # only those: papermill spends half a millisecond on a cell that it passes over, and most are prose
    part = NotebookNode(notebook)
    part.cells = [notebook.cells[n] for n in numbers]
    notebook.metadata["papermill"] = {}
    for cell in part.cells:
        cell.metadata["papermill"] = {}
        cell.metadata.setdefault("tags", [])
    transcript: list[Transcript] = []
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
    return replace(made, cell=numbers[made.cell]) if made.cell >= 0 else made
