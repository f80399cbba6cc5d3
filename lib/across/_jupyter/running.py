"""Cells of a notebook run in a fresh kernel, in order: each is told when it begins and has ended, and all can be stopped."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

CELL_SECONDS = 120
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Stop:
    """Ends the run that it was given to, as soon as somebody asks for that, from any thread."""

    def __init__(self) -> None:
        self.asked = False
        self._lock = threading.Lock()
        self._end: Callable[[], object] | None = None

    def ask(self) -> None:
        """End the run; one that has not begun ends at its first cell."""
        with self._lock:
            self.asked = True
            if self._end is not None:
                self._end()

    def ends(self, end: Callable[[], object] | None) -> None:
        """Have `end` called when it is asked, at once if it was; None: there is nothing to end any more."""
        with self._lock:
            self._end = end
            if self.asked and end is not None:
                end()


def run(
    notebook: NotebookNode,
    numbers: Sequence[int],
    path: Path,
    *,
    passed: Iterable[str] = (),
    on_begin: Callable[[int], None] = lambda number: None,
    on_end: Callable[[int], None] = lambda number: None,
    stop: Stop | None = None,
) -> int | None:
    """Run the code cells `numbers` (which of the notebook's they are), in its folder; their outputs land in the notebook.

    `passed`: exercises that count as passed. A cell that takes longer than 120 s is interrupted. Returns the cell at which
    the kernel died, or the run was stopped; None if all have ended.
    """
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    ready = f"from across.attempt import count_as_passed as _; _({list(passed)!r}); del _"
    cells = [nbformat.v4.new_code_cell(ready), *(notebook.cells[number] for number in numbers)]
    under_way = [numbers[0]]
    stop = stop or Stop()

    def began(cell: NotebookNode, cell_index: int) -> None:
        if cell_index == 0:  # not before: a kernel that is stopped while it starts is left behind
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            stop.ends(lambda: loop.call_soon_threadsafe(task.cancel))
        else:
            under_way[0] = numbers[cell_index - 1]
            on_begin(under_way[0])

    def ended(cell: NotebookNode, cell_index: int, **_: Any) -> None:
        if cell_index:
            on_end(numbers[cell_index - 1])

    client = NotebookClient(
        nbformat.v4.new_notebook(metadata=notebook.metadata, cells=cells),
        timeout=CELL_SECONDS,
        interrupt_on_timeout=True,
        error_on_timeout={"ename": "CellTimeoutError", "evalue": f"took longer than {CELL_SECONDS} s", "traceback": []},
        allow_errors=True,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_start=began,
        on_cell_executed=ended,
    )
    try:
        finished = asyncio.run(_to_its_end(client.async_execute(env=environment(path)), stop))
    except DeadKernelError:
        return under_way[0]
    return None if finished else under_way[0]


async def _to_its_end(executed: Coroutine[Any, Any, Any], stop: Stop) -> bool:
    """Whether the run came to its end, and was not stopped."""
    task = asyncio.create_task(executed)
    try:
        await task
    except asyncio.CancelledError:
        if not stop.asked:
            raise
        return False
    finally:
        stop.ends(None)
    return True


def environment(path: Path) -> dict[str, str]:
    """The variables of a kernel that runs the notebook at `path` for its checks alone: nothing counts as measured by it."""
    return {**os.environ, "NBGRADER_VALIDATING": "1", "JPY_SESSION_NAME": str(path)}


def error(cell: NotebookNode) -> str:
    """The sentence of the exception that a cell raised, or ""."""
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            if output.ename == "KeyboardInterrupt":
                return f"it was interrupted; a cell may take {CELL_SECONDS} s"
            lines = ANSI.sub("", output.evalue).strip().splitlines()
            return lines[0] if lines else output.ename
    return ""
