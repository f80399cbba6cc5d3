"""A process that stands still by turns, as on a machine that others use, without a change to its program.

    with slowed(pid, still=0.05, of=0.06) as stood: ...      # it runs 10 ms of every 60; `stood` says when it did not

A thread of ours sends SIGSTOP and SIGCONT. When the block ends the process runs on, whatever happened in it; a process that
ends in the block is left alone, also where another one gets its number.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator


@contextlib.contextmanager
def slowed(pid: int, still: float, of: float) -> Iterator[list[tuple[float, float]]]:
    """Have process `pid` stand still for the first `still` of every `of` seconds. Linux only.

    Gives the list of when it did, as (from, to) on `time.monotonic`, which is complete when the block ends.
    Raises ValueError unless 0 < still < of, ProcessLookupError where there is no such process.
    """
    if not 0.0 < still < of:
        raise ValueError(f"a slow process stands still for a part of the time; got {still:g} of {of:g} seconds")
    over, process = threading.Event(), os.pidfd_open(pid)
    stood: list[tuple[float, float]] = []
    turns = threading.Thread(target=_take_turns, args=(process, still, of - still, over, stood), daemon=True)
    try:
        turns.start()
        yield stood
    finally:
        over.set()
        turns.join()
        os.close(process)


def _take_turns(
    process: int, still: float, runs: float, over: threading.Event, stood: list[tuple[float, float]]
) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        try:
            while not over.is_set():
                signal.pidfd_send_signal(process, signal.SIGSTOP)
                since = time.monotonic()
                over.wait(still)
                stood.append((since, time.monotonic()))
                signal.pidfd_send_signal(process, signal.SIGCONT)
                over.wait(runs)
        finally:
            signal.pidfd_send_signal(process, signal.SIGCONT)
