"""The clocks of one submission: what it may take, what each step took, and what its kernel had of the processors.

A limit of time is a promise about work. Where it is reached, `lives` asks the chapter's own answers the same, beside it and
after its kernel has ended: if these are slow, too, this machine is at fault, and nobody's answer is.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from autograder.job.forkserver import InfrastructureError
from autograder.job.kernel_process import KernelProcess
from autograder.model.limits import Limits
from autograder.sandbox import processor

LOOK = 0.1  # seconds between two looks at what the processors did for a kernel
NOTEBOOK = "notebook_seconds"

WAITED = "the machine was busy"  # how the note of another life begins


@dataclass(frozen=True)
class Reference:
    """The chapter's own answers, to be asked beside a submission."""

    answers: Mapping[str, str]  # grade id -> source
    slow: Callable[
        [str, tuple[str, ...]], bool
    ]  # (limit, exercises) -> whether, asked now, it needs more than half of it


class BusyError(InfrastructureError):
    """This machine had too much to do to tell a slow answer from a right one. Its text holds nothing of a student's."""

    @classmethod
    def at(cls, what: str) -> BusyError:
        """The error that `what` ended with, and how busy this machine is."""
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        return cls(f"{what}: this machine was busy: load {load:.0f}, {cores} cores; run again")


def overloaded() -> bool:
    """Whether, in the last minute, twice as much wanted to run here as there are processors."""
    return os.getloadavg()[0] >= 2 * (os.cpu_count() or 1)


class Clocks:
    """Those of one submission. Times are in seconds."""

    def __init__(self, limits: Limits, until: float | None) -> None:
        """`until` (time.monotonic) is when its time is up; None: it has all that a notebook has."""
        self.whole = until is None  # it has all that a notebook has
        self._first = limits
        self.limits = limits  # of this life
        self.until = time.monotonic() + limits.notebook_seconds if until is None else until
        self.took = {"cell_seconds": 0.0, "question_seconds": 0.0}  # the longest step of each kind
        self._turned = 0.0
        self._loads: list[processor.Load] = []  # as this life's kernel stood, and when its last cell or question began

    def lives(self, kernel: KernelProcess) -> None:
        """Note that a life begins."""
        self._loads = [kernel.box.load()]

    def begins(self, kernel: KernelProcess) -> None:
        """Note what the kernel has had of the processors when its next cell or question begins, or shortly before.

        To look costs a millisecond, and a submission has forty of them.
        """
        if time.monotonic() - self._loads[-1].at > LOOK:
            self._loads[1:] = [kernel.box.load()]

    def starved(self, kernel: KernelProcess) -> float:
        """Seconds that the last step, or if all of this life was too long that, waited for others; 0: not too long."""
        now = kernel.box.load()
        return processor.starved(self._loads[0 if self.late(now.at) else -1], now)

    def turns(self, kind: str = "") -> None:
        """Note that a step of this kind has ended (none: that one begins)."""
        now = time.monotonic()
        if kind:
            self.took[kind] = max(self.took[kind], now - self._turned)
        self._turned = now

    def late(self, now: float | None = None) -> bool:
        """Whether the submission's time is up."""
        return (time.monotonic() if now is None else now) > self.until - 1.0

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """What is done in the block takes nothing of the submission's time."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.until += time.monotonic() - began

    def more(self) -> None:
        """Give another life, with twice the time for each step that it had at first."""
        twice = {name: 2 * getattr(self._first, name) + 1 for name in ("cell_seconds", "question_seconds")}
        self.until += self._first.notebook_seconds + 1
        self.limits = replace(self.limits, **twice)
