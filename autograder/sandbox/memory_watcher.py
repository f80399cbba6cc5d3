"""Where there are no control groups: watch what a box uses, and kill the box at its memory's limit."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PERIOD = 0.1  # seconds
SHARES = 100  # processes, the largest, of which it is asked what they share: some milliseconds each
# In /proc/PID/status and smaps_rollup, sizes in KiB: in bytes, for a process may give itself a name that is no text
COUNTED = re.compile(rb"^(RssAnon|VmSwap|Threads):\s+(\d+)", re.MULTILINE)
SHARED = re.compile(rb"^(?:Pss_Anon|SwapPss):\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Used:
    """What the processes of a box use."""

    # process, or PROCESS/task/THREAD where the first thread has ended -> bytes that are no file's; what several share counts
    # once for each
    memory: dict[str, int]
    tasks: int  # processes and threads, as the kernel counts them: with those that wait outside for one inside

    @property
    def at_most(self) -> int:
        """Bytes that they use together, if they share nothing."""
        return sum(self.memory.values())


class MemoryWatcher:
    """A thread that adds up what a box uses; `killed` says that its memory was too much.

    `at_task_limit` says that it was seen with as many processes and threads as it may have, so that more were refused or
    would have been.
    """

    def __init__(self, pid: int, memory: int, tasks: int, folders: Sequence[int], kill: Callable[[], None]) -> None:
        """Watch the box whose process 1 is `pid` (seen from here), for more than `memory` bytes; `kill` ends it.

        `folders` are descriptors of the file systems in memory that it may write to: what they hold is counted.
        """
        self.killed = self.at_task_limit = False
        self._pid, self._memory, self._tasks = pid, memory, tasks
        self._folders, self._kill = folders, kill
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="memory")
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join(5)

    def _watch(self) -> None:
        try:
            self._look()
        except BaseException:  # a box that nobody watches may take all
            self.killed = True
            self._kill()
            raise

    def _look(self) -> None:
        while not self._stop.wait(PERIOD):
            used = used_by(self._pid)
            self.at_task_limit |= used.tasks >= self._tasks
            left = self._memory - sum(map(_stored, self._folders))
            if used.at_most > left and self._too_much(used, left):
                self.killed = True
                self._kill()
                return

    def _too_much(self, used: Used, left: int) -> bool:
        """Whether the processes use more than `left` bytes together, what they share counted once.

        One is looked at after the other: who forks meanwhile shares with ever more, and what was one process's part a moment
        ago is counted again as another's. So it is too much if it is with the same processes before and after, or twice: a hog
        that forks all the time gains one look, not more.
        """
        if proportional(used) <= left:
            return False
        now = used_by(self._pid)
        return now.memory.keys() == used.memory.keys() or proportional(now) > left


def used_by(pid: int) -> Used:
    """What the box uses whose process 1 is `pid` (seen from here). Files in memory are no process's: see `_stored`."""
    memory: dict[str, int] = {}
    tasks = 0
    processes, users = (_namespace(pid, kind) for kind in ("pid", "user"))
    for name in os.listdir("/proc"):
        if users and name.isdigit() and _namespace(name, "user") == users:
            with contextlib.suppress(OSError):
                counts = _counts(name)
                threads = int(counts.get(b"Threads", 0))
                tasks += threads
                if _namespace(name, "pid") == processes:
                    if b"RssAnon" not in counts and threads > 1:
                        name, counts = _by_a_thread(name)
                    memory[name] = 1024 * (int(counts.get(b"RssAnon", 0)) + int(counts.get(b"VmSwap", 0)))
    return Used(memory, tasks)


def _counts(name: str) -> dict[bytes, bytes]:
    return dict(COUNTED.findall(Path(f"/proc/{name}/status").read_bytes()))


def _by_a_thread(process: str) -> tuple[str, dict[bytes, bytes]]:
    """What a process uses whose first thread has ended: that one shows nothing, and all others what they share."""
    for thread in os.listdir(f"/proc/{process}/task"):
        name = f"{process}/task/{thread}"
        with contextlib.suppress(OSError):
            if b"RssAnon" in (counts := _counts(name)):
                return name, counts
    return process, {}


def proportional(used: Used) -> int:
    """Bytes that the processes use, each its part of what it shares, as forks do with their parent.

    Slower than `used_by`: the kernel walks through all pages. So it is done for the `SHARES` largest only; what others
    share counts once for each.
    """
    largest = sorted(used.memory, key=lambda name: -used.memory[name])
    total = sum(used.memory[name] for name in largest[SHARES:])
    for name in largest[:SHARES]:
        try:
            found = SHARED.findall(Path(f"/proc/{name}/smaps_rollup").read_bytes())
        except (ProcessLookupError, FileNotFoundError):
            if "/" not in name:  # it has ended; of a thread the others may keep what it showed
                continue
            found = []
        except OSError:
            found = []
        total += sum(1024 * int(each) for each in found) if found else used.memory[name]
    return total


def _namespace(pid: int | str, kind: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def _stored(folder: int) -> int:
    """Bytes that the file system of `folder` holds."""
    try:
        system = os.fstatvfs(folder)
    except OSError:
        return 0
    return (system.f_blocks - system.f_bfree) * system.f_frsize
