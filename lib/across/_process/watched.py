"""Deadlines by processor time: a TensorFlow that hangs uses none, one that is slow on a busy machine waits for it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
HUNG = 75  # the exit code of a process that was ended so
LOOK = 0.25  # seconds between two looks
WORK = 0.05  # processor seconds that count as a sign of work


def watched(quiet: float, fn: Callable[..., T], *arguments: object) -> T:
    """Return `fn(*arguments)`. This process ends with code HUNG once it has used no processor time for `quiet` seconds.

    Only for a process that serves this one call.
    """

    def watch() -> None:
        used, since = time.process_time(), time.monotonic()
        while time.monotonic() - since < quiet:
            time.sleep(LOOK)
            if time.process_time() - used > WORK:
                used, since = time.process_time(), time.monotonic()
        os._exit(HUNG)

    threading.Thread(target=watch, daemon=True).start()
    return fn(*arguments)


class Wanting:
    """Whether a process goes without processors that it wants: see the kernel's sched-stats.rst. Never where there is none."""

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self.used = 0.0  # processor seconds of its threads
        self._at, self._waited = time.monotonic(), self._look()

    def still(self) -> bool:
        """Whether its threads together waited for half of the time since this was asked last."""
        now, waited = time.monotonic(), self._look()
        wants = waited - self._waited >= (now - self._at) / 2
        self._at, self._waited = now, waited
        return wants and waited > 0

    def _look(self) -> float:
        self.used = waited = 0.0
        with contextlib.suppress(OSError, ValueError, IndexError):
            for task in self._tasks.iterdir():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
                    ran, wanted, *_ = (task / "schedstat").read_text().split()
                    self.used, waited = self.used + int(ran) / 1e9, waited + int(wanted) / 1e9
        return waited
