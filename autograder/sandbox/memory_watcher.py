"""Where there are no control groups: watch the memory of everything in a box, and kill the box at the limit."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

PERIOD = 0.1  # seconds
PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryWatcher:
    """A thread that adds up the resident memory of a box's processes; `killed` says that it was too much."""

    def __init__(self, pid: int, limit: int) -> None:
        """Watch the box whose process 1 is `pid` (seen from here), for more than `limit` bytes."""
        self.pid = pid
        self.limit = limit
        self.killed = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="memory")
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join(5)

    def _watch(self) -> None:
        box = _namespace(self.pid)
        while box and not self._stop.wait(PERIOD):
            if resident(box) > self.limit:
                self.killed = True
                with contextlib.suppress(OSError):
                    os.kill(self.pid, signal.SIGKILL)
                return


def _namespace(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def resident(namespace: str) -> int:
    """Bytes of resident memory of all processes in a pid namespace, without file-backed and shared pages."""
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and _namespace(name) == namespace:
            with contextlib.suppress(OSError, ValueError, IndexError):
                resident_pages, shared_pages = Path(f"/proc/{name}/statm").read_text().split()[1:3]
                total += (int(resident_pages) - int(shared_pages)) * PAGE  # the libraries are shared by all
    return total
