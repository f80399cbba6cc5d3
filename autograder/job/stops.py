"""How a kernel's life may stop, the limit that each such stop is of, and what stands in the notebook of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.job import judge
from autograder.model.verdict import Lost, Stop

LOST = {Lost.DEADLINE: Stop.TIMEOUT, Lost.DIED: Stop.CRASHED, Lost.SIZE: Stop.OUTPUT, Lost.PROTOCOL: Stop.CRASHED}
CELL_LIMITS = {
    Stop.TIMEOUT: "cell_seconds",
    Stop.MEMORY: "memory_bytes",
    Stop.OUTPUT: "output_bytes",
    Stop.PROCESSES: "pids",
}
ASKED_LIMITS = {**CELL_LIMITS, Stop.TIMEOUT: "question_seconds", Stop.OUTPUT: "reply_bytes"}


def answer(cell: Any) -> str:
    """The grade id of a student's code cell, the name of one that they added; else empty."""
    meta = cell.metadata.get("nbgrader", {})
    if cell.cell_type != "code":
        return ""
    return meta["grade_id"] if meta.get("solution") else cell.metadata.get("across", {}).get("added", "")


def explain(notebook: NotebookNode, stops: Mapping[str, Stop]) -> None:
    """Say in the cells that were left out, by `answer`, why they were."""
    for cell in notebook.cells:
        if stop := stops.get(answer(cell)):
            says = f"This cell {judge.STOPPED[stop]}; it was left out when the notebook was executed again."
            cell.outputs = [new_output("error", ename=stop.value, evalue=says, traceback=[says])]
