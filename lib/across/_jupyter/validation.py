"""How each exercise of a notebook stands: a fresh kernel runs what its checks need, and what it said before is kept.

Cells that only show something are left out unless a check uses their names. A check is not run again while nothing that it
uses has changed, unless it was interrupted, or never reached; `anew` runs them all. How far it is, is told all the time.
"""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from across import _system
from across._jupyter import running
from across._jupyter.slices import Slice, added, left_out, slices
from across._language.catalogue import said
from across._process import recorded
from across._process.measured import CHANGED
from across._process.recorded import (
    BY_HAND,
    NOT_YET,
    OPEN,
    PASSES,
    Standing,
    answers_digest,
    exercise_of,
    is_check,
    text,
)

FOUND = "found"  # stands for the digest of a check until all have run
PENDING, PREPARED, TRIED = (
    "pending",
    "prepared",
    "tried",
)  # while it is under way: cells that it needs run; its check runs
UNSURE = ("CellTimeoutError", "KeyboardInterrupt")  # errors that another run may not have
NOT_ATTEMPTED = ("NotAttempted", "Waiting")  # of across.attempt, by name
STUB = "NotImplementedError"  # what an answer that was not begun raises
PACKAGES = ("across", "tensorflow", "keras", "numpy")


@dataclass(frozen=True)
class Validation:
    """A notebook that was validated."""

    exercises: tuple[Standing, ...]
    ran: int  # code cells
    cells: int  # code cells in all
    seconds: float
    changed: tuple[str, ...] = ()  # exercises whose check is no longer the released one
    left_out: tuple[str, ...] = ()  # first lines of the student's own cells that nothing which is graded needs
    outputs: Mapping[str, Sequence[NotebookNode]] = field(
        default_factory=dict
    )  # of each check that ran, by its exercise

    @property
    def passed(self) -> bool:
        """Whether no exercise is open, and none was left untried when it was stopped."""
        tried = all(each.again or each.digest for each in self.exercises)
        return tried and not self.changed and all(each.state in (PASSES, BY_HAND) for each in self.exercises)


@dataclass(frozen=True)
class CellUnderWay:
    """A code cell that runs."""

    number: int  # among all cells, from 1
    cell: str  # its id
    line: str  # its first
    own: bool  # the student's: an answer, or one that the student added


def validate(
    path: Path,
    anew: bool = False,
    on_progress: Callable[[tuple[Standing, ...]], None] = lambda exercises: None,
    stop: running.Stop | None = None,
    on_cell: Callable[[CellUnderWay], None] = lambda cell: None,
    in_browser: NotebookNode | None = None,
) -> Validation:
    """Run of the notebook at `path` what its checks need, in its folder; the file stays as it is.

    `on_progress` is called with every exercise as it stands, whenever one stands otherwise; `on_cell` with each cell that
    begins. A cell that takes longer than 120 s is interrupted. After `stop` is asked, what is known is kept, also what was said
    before of the same cells; the others did not run. `in_browser`: the notebook as it is there, in place of what the file has.
    Raises ValueError for what is no notebook, or one whose exercises are not as they were released.
    """
    began = time.monotonic()
    notebook = nbformat.read(path, as_version=4) if in_browser is None else in_browser
    _whole(notebook)
    last = recorded.read(path)
    sources = {number: str(cell.source) for number, cell in enumerate(notebook.cells)}
    every = slices(notebook.cells, everything=_is_imported(notebook))
    here = [platform.node(), platform.python_version(), *(_system.version(each) or "" for each in PACKAGES)]
    wanted, stays = _wanted(every, sources, here, {} if anew else last)
    needed = sorted({cell for each in wanted for cell in (*each.before, each.cell)})
    asked = [number for number, cell in enumerate(notebook.cells) if graded(cell)]
    known = {number: _pending(notebook, number, stays, last) for number in asked}
    under_way = _UnderWay(notebook, wanted, known, on_progress, on_cell)
    ready = [name for each in wanted for name in each.after if name in stays and stays[name].state == PASSES]
    reason = ""
    if needed:
        hear = {"on_begin": under_way.begins, "on_end": under_way.ends}
        lost = running.run(notebook, needed, path, passed=ready, **hear, stop=stop)
        reason = _died(lost)
    found = [under_way.standing(number, reason) for number in asked]
    if stop and stop.asked:
        found = _stopped(found, every, sources, here, (recorded.read(path), recorded.earlier(path)))
    passing = {each.exercise for each in found if each.state == PASSES}
    digests = {each.exercise: each.digest(sources, here, passing) for each in every}
    found = [replace(each, digest=digests[each.exercise]) if each.again and each.digest else each for each in found]
    recorded.write(path, found, last)
    code = sum(cell.cell_type == "code" for cell in notebook.cells)
    changed = tuple(exercise_of(cell) for cell in notebook.cells if _is_changed(cell))
    own = [] if _is_imported(notebook) else left_out(notebook.cells, every)
    unneeded = tuple(sources[number].strip().splitlines()[0] for number in own)
    outputs = {each.exercise: notebook.cells[each.cell].outputs for each in wanted if each.cell in under_way.took}
    return Validation(tuple(found), len(under_way.took), code, time.monotonic() - began, changed, unneeded, outputs)


def after_a_run(notebook: NotebookNode, lost: int | None) -> list[Standing]:
    """How each exercise stands after a run of all cells, whose outputs the notebook has; `lost`: where the kernel died."""
    found = []
    for number, cell in enumerate(notebook.cells):
        if graded(cell) and not is_check(cell.metadata):
            found.append(_by_hand(notebook, number))
        elif graded(cell) and cell.get("execution_count") is None:
            found.append(_did_not_run(notebook, number, _died(lost)))
        elif graded(cell):  # Validate runs less than all: it may say something else, and runs this check again
            found.append(replace(_standing(notebook, number), digest=""))
    return found


def _died(lost: int | None) -> str:
    return said("The kernel died before, at cell {0}.", (lost or 0) + 1)


def graded(cell: Mapping[str, Any]) -> bool:
    """Whether a cell of a notebook is an exercise's: its check, or what a person reads."""
    return bool(cell["metadata"].get("nbgrader", {}).get("grade"))


def _is_imported(notebook: NotebookNode) -> bool:
    """Whether it is nbgrader's own assignment: there a check needs all that stands before it."""
    return "assignment" in notebook.metadata.get("across", {})


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


def _stopped(
    found: Sequence[Standing],
    every: Sequence[Slice],
    sources: Mapping[int, str],
    here: Sequence[str],
    records: Sequence[Mapping[str, Any]],
) -> list[Standing]:
    """How each stands after a stop: one that was not come to, as the first of the `records` has it of the same cells."""
    slice_of = {each.exercise: each for each in every}
    passing: set[str] = set()
    told = []
    for each in found:
        if not each.ran:
            digest = slice_of[each.exercise].digest(sources, here, passing)
            known = (_as_recorded(each, record.get(each.exercise, {}), digest) for record in records)
            says = said("{0}: You stopped Validate before this one.", each.exercise)
            each = next(filter(None, known), replace(each, says=says))
        passing |= {each.exercise} if each.state == PASSES else set()
        told.append(each)
    return told


def _as_recorded(pending: Standing, entry: Mapping[str, Any], digest: str) -> Standing | None:
    """What an entry of the record says of an exercise, if it is of the same cells; a tick knows its answer's alone."""
    same = entry.get("digest") == digest if entry.get("digest") else entry.get("answers") == pending.answers
    if not same or not entry.get("ran", True) or entry.get("state") not in (PASSES, OPEN, NOT_YET):
        return None
    how = {name: entry.get(name, default) for name, default in (("says", ""), ("digest", ""), ("ticked", False))}
    return replace(pending, state=str(entry["state"]), ran=True, again=False, **how)


class _UnderWay:
    """What is known of each exercise while the cells run."""

    def __init__(
        self,
        notebook: NotebookNode,
        wanted: Sequence[Slice],
        known: dict[int, Standing],
        on_progress: Callable[[tuple[Standing, ...]], None],
        on_cell: Callable[[CellUnderWay], None],
    ) -> None:
        self.notebook = notebook
        self.checks = [each.cell for each in wanted]
        self.known = known  # by the number of the graded cell
        self.on_progress, self.on_cell = on_progress, on_cell
        code = {number: str(cell.source) for number, cell in enumerate(notebook.cells) if cell.cell_type == "code"}
        self.own = added(notebook.cells, code) | {number for number in code if _answer(notebook.cells[number])}
        self.began: dict[int, float] = {}
        self.took: dict[int, float] = {}  # seconds, by cell
        self.prepares(0)

    def prepares(self, number: int) -> None:
        """The cells from `number` on are run for the next check."""
        for check in self.checks:
            if check >= number:
                self.becomes(check, replace(self.known[check], state=PREPARED))
                return

    def becomes(self, number: int, standing: Standing) -> None:
        if standing != self.known[number]:
            self.known[number] = standing
            self.on_progress(tuple(self.known.values()))

    def begins(self, number: int) -> None:
        self.began[number] = time.monotonic()
        cell = self.notebook.cells[number]
        line = next(iter(str(cell.source).strip().splitlines()), "")
        self.on_cell(CellUnderWay(number + 1, cell.get("id", ""), line, number in self.own))
        if number in self.checks:
            self.becomes(number, replace(self.known[number], state=TRIED))

    def ends(self, number: int) -> None:
        self.took[number] = time.monotonic() - self.began[number]
        if number in self.checks:
            self.becomes(number, self.standing(number))
            self.prepares(number + 1)

    def standing(self, number: int, reason: str = "") -> Standing:
        """How the exercise stands whose graded cell that is; `reason`: why it did not run, if it did not."""
        if number not in self.checks:
            return self.known[number]
        if number in self.took:
            return replace(_standing(self.notebook, number), seconds=round(self.took[number], 2))
        return replace(_did_not_run(self.notebook, number, reason), seconds=self.known[number].seconds)


def _did_not_run(notebook: NotebookNode, number: int, reason: str) -> Standing:
    blank = _blank(notebook, number)
    why = reason if str(notebook.cells[number].source).strip() else said("Its cell is empty.")
    return replace(blank, state=NOT_YET, says=said("{0}: did not run. {1}", blank.exercise, why), ran=False)


def _pending(notebook: NotebookNode, number: int, stays: Mapping[str, Standing], before: Mapping[str, Any]) -> Standing:
    """How an exercise stands before any cell is run."""
    cell = notebook.cells[number]
    if exercise_of(cell) in stays:
        return stays[exercise_of(cell)]
    if not is_check(cell.metadata):
        return _by_hand(notebook, number)
    last = before.get(exercise_of(cell)) or {}
    usual = last.get("seconds") if last.get("state") in (PASSES, NOT_YET) else None
    return replace(_blank(notebook, number), seconds=usual if isinstance(usual, float) else 0.0)


def _blank(notebook: NotebookNode, number: int) -> Standing:
    """What is known of an exercise without running anything."""
    cell = notebook.cells[number]
    own = next((each for each in notebook.cells if _answer(each) == exercise_of(cell)), cell)
    return Standing(
        exercise=exercise_of(cell),
        points=float(cell.metadata.nbgrader.get("points", 0)),
        cell=own.metadata.nbgrader.grade_id,
        state=PENDING,
        answers=answers_digest(notebook, cell),
    )


def _by_hand(notebook: NotebookNode, number: int) -> Standing:
    blank = _blank(notebook, number)
    if answered(notebook.cells[number]):
        return replace(blank, state=BY_HAND, says=said("A person reads it."), check=False)
    says = said("{0}: not attempted yet. A person reads it.", blank.exercise)
    return replace(blank, state=OPEN, says=says, check=False)


def _standing(notebook: NotebookNode, number: int) -> Standing:
    """How an exercise stands whose check was run."""
    cell, blank = notebook.cells[number], _blank(notebook, number)
    own = next((each for each in notebook.cells if _answer(each) == blank.exercise), cell)
    error = next((output for output in cell.outputs if output.output_type == "error"), None)
    if error is None:
        lines = [
            line
            for output in cell.outputs
            for line in output.get("text", "").splitlines()
            if CHANGED in line or said(CHANGED) in line
        ]
        return replace(blank, state=PASSES, says=running.ANSI.sub("", lines[-1]) if lines else "", digest=FOUND)
    says = running.error(cell)
    raised = (
        [output.ename for output in own.get("outputs", []) if output.output_type == "error"] if own is not cell else []
    )
    if raised:
        says += said(" (The cell of your answer raised: {0})", running.error(own))
    state = OPEN if error.ename in NOT_ATTEMPTED and raised in ([], [STUB]) else NOT_YET
    return replace(blank, state=state, says=says, digest="" if error.ename in UNSURE else FOUND)


def answered(cell: Mapping[str, Any]) -> bool:
    """Whether an answer cell is no longer as it was released: nbgrader's checksum of the stub is in its metadata."""
    return cell["metadata"].get("nbgrader", {}).get("checksum") != checksum(cell)


def checksum(cell: Mapping[str, Any]) -> str:
    """nbgrader's checksum of a cell of its own, as `nbgrader.utils.compute_checksum` has it; a test holds the two equal.

    Whoever only opens a notebook needs no nbgrader, with its database and its programs, for that.
    """
    meta = cell["metadata"]["nbgrader"]
    grade, solution = meta.get("grade", False), meta.get("solution", False)
    locked = not solution and (grade or meta.get("locked", False))
    parts = [text(cell), cell["cell_type"], str(grade), str(solution), str(bool(locked)), meta["grade_id"]]
    parts += [str(float(meta["points"]))] if grade else []
    return hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()


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


def _answer(cell: NotebookNode) -> str:
    meta = cell.metadata.get("nbgrader", {})
    return meta.get("grade_id", "") if meta.get("solution") else ""
