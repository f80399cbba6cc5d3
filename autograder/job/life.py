"""One life: a kernel in its box, which executes the notebook and is asked, until the box is closed.

This is the worker's side: it holds a kernel, boxes and a clock, and reads nothing that a student's process has sent but what a
driver or a checker made of it. Whether there is one more life is decided by `lives`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.job import assemble, check, drive, messages
from autograder.job.clocks import Clocks
from autograder.job.kernel_process import KernelProcess, StartError
from autograder.model import recorded_notebook
from autograder.model.rubric import Rubric

STEPS = ("start", "cells", "questions")


@dataclass(frozen=True)
class Place:
    """What a submission's kernels need of this machine."""

    student: str  # sockets of the warm servers that are asked for processes
    checker: str
    driver: str
    private: tuple[str, ...] = ()  # folders of the course that no box shows
    name: str = ""  # how the names of its boxes begin
    cards: Mapping[str, Any] = field(default_factory=dict)  # of a lease, come into its kernels: see `KernelProcess`


class Life:
    """Ends when its `kernel` is closed: that leaves nothing behind."""

    def __init__(self, place: Place, number: int, rubric: Rubric, seed: int, clocks: Clocks) -> None:
        """Raises SandboxError, warm.ServerError."""
        self.name = f"{place.name}{number}"
        self.place, self.seed, self.clocks = place, seed, clocks
        self.rubric = replace(rubric, chapter=replace(rubric.chapter, limits=clocks.limits))
        self.seconds: dict[str, float] = dict.fromkeys(STEPS, 0.0)
        made_of = (
            clocks.limits,
            rubric.sandboxed,
            place.cards,
            place.private,
            rubric.chapter.files,
            rubric.chapter.gpus,
        )
        with self.timed("start"):
            self.kernel = KernelProcess(place.student, self.name, *made_of)

    @contextlib.contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Count the block's seconds for a step."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] += time.monotonic() - started

    def execute(self, notebook: NotebookNode, outside: Callable[[], bool]) -> messages.Executed | None:
        """Have a driver execute the notebook as soon as the kernel listens: see `drive.execute`."""
        with self.timed("start"):
            self.kernel.ready()
        self.clocks.lives(self.kernel)
        with self.timed("cells"):
            boxed = (self.place.driver, f"{self.name}d", self.rubric.sandboxed, self.place.private)
            return drive.execute(notebook, self.kernel, self.clocks, *boxed, outside)

    def ask(self, exercises: list[str], notebook: NotebookNode, keep: Mapping[str, list[str]]) -> check.Answers:
        """Have a checker ask about these exercises: see `check.ask`."""
        self.clocks.turns()
        self.kernel.beside.code = [cell.source for cell in notebook.cells if assemble.is_executed(cell)]
        asked = (
            self.kernel,
            self.rubric,
            exercises,
            self.seed,
            self.clocks.until,
            self.place.private,
            self._hears,
            keep,
        )
        return check.ask(self.place.checker, f"{self.name}c", *asked)

    def _hears(self, message: messages.FromChecker) -> None:
        self.clocks.turns("question_seconds")
        if isinstance(message, messages.Asks):
            self.clocks.begins(self.kernel)

    def killed(self) -> bool:
        """Whether SIGKILL ended the kernel, or a process beside it: perhaps nobody's in it.

        Raises StartError when it was this machine for certain.
        """
        if why := self.kernel.outside():
            raise StartError(why)
        return self.kernel.killed()


def recorded(notebook: NotebookNode, executed: messages.Executed) -> NotebookNode:
    """The notebook with the outputs of its cells."""
    ran = [assemble.is_executed(cell) for cell in notebook.cells[: executed.cell + 1]]
    heard: list[dict[str, Any]] = [{"outputs": outputs} for outputs in executed.outputs]
    for cell, count in zip(heard, ran, strict=False):
        cell["execution_count"] = 1 if count else None
    made = nbformat.from_dict(recorded_notebook.rebuilt(notebook, {"cells": heard}))
    assert isinstance(made, NotebookNode)
    return made
