"""How each exercise of a notebook stands: a fresh kernel runs what its checks need, and what it said before is kept.

Cells that only show something are left out unless a check uses their names. A check is not run again while nothing that it
uses has changed, unless it was interrupted, or never reached; `anew` runs them all.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

from across._jupyter import headless
from across._jupyter.slices import Slice, is_check, slices
from across._language.catalogue import said
from across._process import kept
from across.attempt import CHANGED

KIND = "validated"  # of what is kept
CELL_SECONDS = 120
FOUND = "found"  # stands for the digest of a check until all have run
PASSES, OPEN, NOT_YET, BY_HAND = "passes", "open", "not yet", "by hand"  # how an exercise stands; open: not attempted
UNSURE = ("CellTimeoutError", "KeyboardInterrupt")  # errors that another run may not have
NOT_ATTEMPTED = ("NotAttempted", "Waiting")  # of across.attempt, by name
STUB = "NotImplementedError"  # what an answer that was not begun raises
PACKAGES = ("across", "tensorflow", "keras", "numpy")


@dataclass(frozen=True)
class Standing:
    """One exercise, as its visible check sees it."""

    exercise: str
    points: float
    cell: str  # grade id of the cell to go to
    state: str
    says: str = ""  # the check's sentence, or what is to be known of one that passes
    check: bool = True  # there is a visible check; without one a person reads it
    digest: str = ""  # of all that decided it; empty: another run may say something else
    answers: str = ""  # digest of the student's cells that it looks at
    when: str = ""  # ISO 8601
    again: bool = True  # run just now


@dataclass(frozen=True)
class Validation:
    """A notebook that was validated."""

    exercises: tuple[Standing, ...]
    ran: int  # code cells
    cells: int  # code cells in all
    seconds: float
    changed: tuple[str, ...] = ()  # exercises whose check is no longer the released one

    @property
    def passed(self) -> bool:
        """Whether no exercise is open."""
        return not self.changed and all(each.state in (PASSES, BY_HAND) for each in self.exercises)


def validate(
    path: Path, anew: bool = False, on_progress: Callable[[int, int], None] = lambda done, of: None
) -> Validation:
    """Run of the notebook at `path` what its checks need, in its folder; the file stays as it is.

    `on_progress` is called with how many cells are done, and of how many. A cell that takes longer than 120 s is interrupted.
    Raises ValueError for what is no notebook, or one whose exercises are not as they were released.
    """
    began = time.monotonic()
    notebook = nbformat.read(path, as_version=4)
    _whole(notebook)
    before = {} if anew else kept.read(KIND, path).get("exercises", {})
    sources = {number: str(cell.source) for number, cell in enumerate(notebook.cells)}
    here = [platform.node(), platform.python_version(), *map(_version, PACKAGES)]
    wanted, stays = _wanted(slices(notebook.cells), sources, here, before)
    needed = sorted({cell for each in wanted for cell in (*each.before, each.cell)})
    died = _execute(notebook, needed, path, [each.after for each in wanted], stays, on_progress) if wanted else None
    found = [_standing(notebook, number, stays, died) for number, cell in enumerate(notebook.cells) if _graded(cell)]
    passing = {each.exercise for each in found if each.state == PASSES}
    digests = {each.exercise: each.digest(sources, here, passing) for each in slices(notebook.cells)}
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    found = [
        replace(each, digest=digests[each.exercise] if each.digest else "", when=now) if each.again else each
        for each in found
    ]
    kept.write(KIND, path, {"exercises": {each.exercise: asdict(each) for each in found}})
    code = sum(cell.cell_type == "code" for cell in notebook.cells)
    changed = tuple(_name(cell) for cell in notebook.cells if _is_changed(cell))
    return Validation(tuple(found), len(needed), code, time.monotonic() - began, changed)


def answers_digest(notebook: Mapping[str, Any], graded: Mapping[str, Any]) -> str:
    """Of the student's cells that the exercise of a graded cell looks at."""
    wanted = set(graded["metadata"].get("across", {}).get("answers", [])) | {graded["metadata"]["nbgrader"]["grade_id"]}
    cells = (cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution"))
    sources = [text(cell) for cell in cells if cell["metadata"]["nbgrader"].get("grade_id") in wanted]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()


def _wanted(
    found: Sequence[Slice], sources: Mapping[int, str], here: Sequence[str], before: Mapping[str, Any]
) -> tuple[list[Slice], dict[str, Standing]]:
    """The checks to run, and how those stand that are not run again."""
    wanted: list[Slice] = []
    stays: dict[str, Standing] = {}
    for each in found:
        passing = {name for name, standing in stays.items() if standing.state == PASSES}
        waits = [name for name in each.after if any(name == other.exercise for other in wanted)]
        said = before.get(each.exercise) or {}
        try:
            same = said["digest"] == each.digest(sources, here, passing)
            if same and not waits:
                stays[each.exercise] = Standing(**{**said, "again": False})
                continue
        except (KeyError, TypeError):  # written by another version
            pass
        wanted.append(each)
    return wanted, stays


def _execute(
    notebook: NotebookNode,
    needed: Sequence[int],
    path: Path,
    after: Sequence[Sequence[str]],
    stays: Mapping[str, Standing],
    on_progress: Callable[[int, int], None],
) -> int | None:
    """Run the cells `needed`, whose outputs land in the notebook; the one at which the kernel died, if it did."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    ready = [name for names in after for name in names if name in stays and stays[name].state == PASSES]
    first = nbformat.v4.new_code_cell(f"from across.attempt import count_as_passed as _; _({ready!r}); del _")
    part = nbformat.v4.new_notebook(metadata=notebook.metadata, cells=[first, *(notebook.cells[i] for i in needed)])
    at = [0]

    def began(cell: NotebookNode, cell_index: int) -> None:
        at[0] = cell_index
        on_progress(cell_index, len(needed))

    client = NotebookClient(
        part,
        timeout=CELL_SECONDS,
        interrupt_on_timeout=True,
        error_on_timeout={"ename": "CellTimeoutError", "evalue": f"took longer than {CELL_SECONDS} s", "traceback": []},
        allow_errors=True,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_start=began,
    )
    try:
        client.execute(env=headless.environment(path))
    except DeadKernelError:
        return needed[at[0] - 1] if at[0] else needed[0]
    return None


def _standing(notebook: NotebookNode, number: int, stays: Mapping[str, Standing], died: int | None) -> Standing:
    cell = notebook.cells[number]
    name, points = _name(cell), float(cell.metadata.nbgrader.get("points", 0))
    if name in stays:
        return stays[name]
    own = next((each for each in notebook.cells if _answer(each) == name), cell)
    made = {"exercise": name, "points": points, "cell": own.metadata.nbgrader.grade_id}
    made["answers"] = answers_digest(notebook, cell)
    if not is_check(cell.metadata):
        state, says = (BY_HAND, "A person reads it.") if answered(cell) else (OPEN, f"{name}: not attempted yet.")
        return Standing(**made, state=state, says=says, check=False)
    if cell.execution_count is None:
        where = "" if died is None else f", at cell {died + 1}"
        return Standing(**made, state=NOT_YET, says=f"{name}: did not run. The kernel died before{where}.")
    error = next((output for output in cell.outputs if output.output_type == "error"), None)
    if error is None:
        lines = [
            line
            for output in cell.outputs
            for line in output.get("text", "").splitlines()
            if CHANGED in line or said(CHANGED) in line
        ]
        return Standing(**made, state=PASSES, says=headless.ANSI.sub("", lines[-1]) if lines else "", digest=FOUND)
    says = headless.error(cell)
    raised = (
        [output.ename for output in own.get("outputs", []) if output.output_type == "error"] if own is not cell else []
    )
    if raised:
        says += f" (The cell of your answer raised: {headless.error(own)})"
    state = OPEN if error.ename in NOT_ATTEMPTED and raised in ([], [STUB]) else NOT_YET
    return Standing(**made, state=state, says=says, digest="" if error.ename in UNSURE else FOUND)


def answered(cell: Mapping[str, Any]) -> bool:
    """Whether an answer cell is no longer as it was released: nbgrader's checksum of the stub is in its metadata."""
    from nbgrader.utils import compute_checksum  # 0.5 s

    node = NotebookNode(nbformat.from_dict({**cell, "source": text(cell)}))
    return node.metadata.get("nbgrader", {}).get("checksum") != compute_checksum(node)


def _whole(notebook: NotebookNode) -> None:
    """Raise ValueError if an exercise's cell is there twice, or is not of the type that it was."""
    seen: Collection[str] = set()
    for number, cell in enumerate(notebook.cells, 1):
        meta = cell.metadata.get("nbgrader", {})
        name = meta.get("grade_id")
        if name and name in seen:
            raise ValueError(f'cell {number}: "{name}" is there twice; delete the copy, with Edit, Undo if need be')
        if name and meta.get("cell_type", cell.cell_type) != cell.cell_type:
            raise ValueError(f'cell {number}, "{name}": is a {cell.cell_type} cell; make it {meta["cell_type"]} again')
        seen = {*seen, name}


def _is_changed(cell: NotebookNode) -> bool:
    meta = cell.metadata.get("nbgrader", {})
    return bool(meta.get("locked") and meta.get("checksum") and answered(cell))


def _graded(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("grade"))


def _answer(cell: NotebookNode) -> str:
    meta = cell.metadata.get("nbgrader", {})
    return meta.get("grade_id", "") if meta.get("solution") else ""


def _name(cell: NotebookNode) -> str:
    return cell.metadata.get("across", {}).get("exercise") or cell.metadata.nbgrader.grade_id


def text(cell: Mapping[str, Any]) -> str:
    """The source of a cell as nbformat, or JSON, has it."""
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
