"""What a box has had of the processors, and how long it waited for one: to tell a slow answer from a busy machine.

A thread's waiting alone does not tell: a process that a student starts beside it, of the lowest priority and on the same
processor, waits for as long as the answer computes. So the box must have used little, too.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Load:
    """The processors and a box up to a moment."""

    at: float  # time.monotonic
    used: float | None  # processor seconds of all that ran in it; None where nobody counts them
    waited: dict[int, float]  # thread -> seconds for which it was ready to run and had no processor


def load(used: float | None, pids: Iterable[int]) -> Load:
    """The load of the processes `pids`, which together have `used` so many processor seconds."""
    return Load(time.monotonic(), used, {thread: waited for pid in pids for thread, waited in _threads(pid)})


def starved(before: Load, now: Load) -> float:
    """Seconds, from `before` until `now`, that its threads waited in all; 0 where the box did not want for processors.

    It did where they waited for half of that time and for longer than the box computed: the work of a pipeline goes from thread
    to thread, and none of them waits for long. It did not where it used more than half of a processor, or nobody knows what it
    used. A box whose own threads wake all at once to do little looks starved, too: that is worth twice the time, once.
    """
    seconds = now.at - before.at
    if before.used is None or now.used is None or (used := now.used - before.used) > seconds / 2:
        return 0.0
    waited = sum(max(0.0, each - before.waited.get(thread, 0.0)) for thread, each in now.waited.items())
    return waited if waited >= max(used, seconds / 2) else 0.0


def _threads(pid: int) -> list[tuple[int, float]]:
    """The second number of each thread's schedstat: see the kernel's sched-stats.rst. A process may end meanwhile.

    A thread that lets others go before it waits by its own choice, which it cannot take back: it is left out.
    """
    found = []
    with contextlib.suppress(OSError):
        for thread in map(int, os.listdir(f"/proc/{pid}/task")):
            with contextlib.suppress(OSError, ValueError, IndexError):
                if os.sched_getscheduler(thread) == os.SCHED_OTHER and _nice(thread) <= _nice(0):
                    text = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text()
                    found.append((thread, int(text.split()[1]) / 1e9))
    return found


def _nice(thread: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, thread)
