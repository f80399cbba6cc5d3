"""Control groups, v1 or v2, whichever this machine has: memory and process counts that hold for everything in a job.

Where there is a cpu controller each job also gets an equal share of the processors, however many processes it has: beside
a fork bomb of 2,000 busy processes an honest submission took 59 s instead of 0.6. A job counts as much as one process outside
of jobs; without `_weigh` all of them together would.

A v1 machine has one tree per controller, a v2 machine one tree for all; `Group` hides the difference. See the kernel's
Documentation/admin-guide/cgroup-v1 and cgroup-v2. An ordinary user may make groups where systemd delegated one to the
command: `DELEGATED`, and systemd's CGROUP_DELEGATION.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
NAME = "across"
LEAF = "across-grader"  # where a delegated group's own processes go: a group has processes or controlled children
SELF = Path("/proc/self/cgroup")
HANDED_OVER = ("cgroup.procs", "cgroup.subtree_control")  # files that are the user's in a group that was delegated
DELEGATED = "systemd-run --user --scope -p Delegate=yes"  # what to write before a command to have a group of one's own


@dataclass(frozen=True)
class Group:
    """One job's groups: a folder in every tree."""

    name: str
    folders: tuple[Path, ...]
    v2: bool

    def oom_kills(self) -> int:
        """How many processes of the group were killed because its memory was used up."""
        return self._count("memory.events" if self.v2 else "memory.oom_control", r"^oom_kill (\d+)")

    def forks_refused(self) -> int:
        """How often a process or thread was refused because the group had its number of them."""
        return self._count("pids.events", r"^max (\d+)")

    def used(self) -> float | None:
        """Processor seconds of all that ever ran in the group; None where nobody counts them."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                if not self.v2:
                    return int((folder / "cpuacct.usage").read_text()) / 1e9
                found = re.search(r"^usage_usec (\d+)", (folder / "cpu.stat").read_text(), re.MULTILINE)
                return int(found[1]) / 1e6 if found else None
        return None

    def _count(self, file: str, pattern: str) -> int:
        for folder in self.folders:
            with contextlib.suppress(OSError):
                found = re.search(pattern, (folder / file).read_text(), re.MULTILINE)
                return int(found.group(1)) if found else 0
        return 0

    def pids(self) -> set[int]:
        """The processes in the group that our process namespace has.

        Those of another one, a container that shares our control groups, are read as 0: to signal that is to signal our
        own process group.
        """
        found: set[int] = set()
        for folder in self.folders:
            with contextlib.suppress(OSError):
                found |= {int(line) for line in (folder / "cgroup.procs").read_text().split()}
        return found - {0}

    def close(self, deadline: float = 5.0) -> bool:
        """Kill what is in the group and remove it; False if something was still there after `deadline` seconds.

        Such a group is removed later: when the next one is opened or this process ends.
        """
        until = time.monotonic() + deadline
        while not self.remove():
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > until:
                _REMAINING.append(self)
                return False
            time.sleep(0.001)
        return True

    def remove(self) -> bool:
        """Remove the group if nothing is in it; whether it is gone."""
        gone = True
        for folder in self.folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:  # a process is in it
                gone = False
        return gone


_REMAINING: list[
    Group
] = []  # that could not be removed yet: what a fork bomb leaves may take longer to die than we wait


def remove_remaining() -> None:
    """Remove the groups that were not empty in time when they were closed, and are by now."""
    for group in _REMAINING[:]:
        if group.remove():
            with contextlib.suppress(ValueError):  # another thread did
                _REMAINING.remove(group)


atexit.register(remove_remaining)


def _trees() -> tuple[tuple[Path, ...], bool]:
    """The folders under which a job's groups are made, and whether they are v2; none where we may not make any."""
    v2 = (ROOT / "cgroup.controllers").exists()
    processors = ((ROOT / "cpu", "cpu.shares"), (ROOT / "cpuacct", "cpuacct.usage"))  # mostly one tree of two names
    more = {tree.resolve(): tree for tree, file in processors if (tree / file).exists()}
    wanted = [ROOT] if v2 else [ROOT / "memory", ROOT / "pids", *more.values()]
    try:
        return tuple(_opened(tree, v2) for tree in wanted), v2
    except OSError:
        delegated = _delegated() if v2 else None
        return ((delegated,) if delegated else ()), v2


def _opened(tree: Path, v2: bool) -> Path:
    """Our folder in a tree, made if it is not there. Raises OSError where it is not ours to use."""
    folder = tree / NAME
    folder.mkdir(exist_ok=True)
    if not os.access(folder, os.W_OK):  # made by root, and we are not
        raise PermissionError(errno.EACCES, "another user's", str(folder))
    if v2:
        for place in (tree, folder):
            (place / "cgroup.subtree_control").write_text("+memory +pids")
            with contextlib.suppress(OSError):  # not delegated to us
                (place / "cgroup.subtree_control").write_text("+cpu")
    elif not (folder / "cgroup.procs").exists():
        raise FileNotFoundError(errno.ENOENT, "a plain folder: no controller is mounted here", str(folder))
    return folder


def _delegated() -> Path | None:
    """Our folder in the group that this process is in, where somebody gave us that group whole; else None.

    Its processes, we among them, go into a group beside ours first: the kernel gives controllers to children of an empty
    group only. All of them are ours, as the group is.
    """
    try:
        line = next(line for line in SELF.read_text().splitlines() if line.startswith("0::/"))
        ours = ROOT / line.removeprefix("0::/")
        ours = ours.parent if ours.name == LEAF else ours
        wanted = ours != ROOT and {"memory", "pids"} <= set((ours / "cgroup.controllers").read_text().split())
        if not wanted or not all(os.access(ours / each, os.W_OK) for each in (".", *HANDED_OVER)):
            return None
        leaf = ours / LEAF
        leaf.mkdir(exist_ok=True)
        for process in (ours / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(process)
        return _opened(ours, v2=True)
    except (OSError, StopIteration):
        return None


def available() -> bool:
    """Whether this process may limit memory and processes by control groups."""
    return bool(_trees()[0])


def used() -> float | None:
    """Processor seconds of all that ever ran in jobs' groups on this machine; None where nobody counts them."""
    trees, v2 = _trees()
    return Group(NAME, trees, v2).used()


def open_group(name: str, memory: int, pids: int) -> Group | None:
    """Make the group of a job: at most `memory` bytes, `pids` processes and threads. None where there are no groups."""
    remove_remaining()
    trees, v2 = _trees()
    if not trees:
        return None
    group = Group(name, tuple(tree / name for tree in trees), v2)
    for folder in group.folders:
        folder.mkdir()
        _weigh(folder.parent)
        for file, value in (
            ("memory.max" if v2 else "memory.limit_in_bytes", memory),
            ("memory.swap.max" if v2 else "memory.swappiness", 0),
            ("pids.max", pids),
        ):
            with contextlib.suppress(FileNotFoundError, PermissionError):  # a file of the other controller
                if (folder / file).exists():
                    (folder / file).write_text(str(value))
    return group


def _weigh(ours: Path) -> None:
    """Give our folder as many shares of the processors as there are jobs in it."""
    jobs = sum(folder.is_dir() for folder in ours.iterdir())
    for file, one, most in (("cpu.shares", 1024, 262_144), ("cpu.weight", 100, 10_000)):
        with contextlib.suppress(OSError):
            if (ours / file).exists():
                (ours / file).write_text(str(min(one * jobs, most)))


def leftovers(prefix: str) -> list[Group]:
    """The groups whose names begin with `prefix`: what a driver that died could not remove."""
    trees, v2 = _trees()
    names = {folder.name for tree in trees for folder in tree.glob(f"{prefix}*") if folder.is_dir()}
    return [Group(name, tuple(tree / name for tree in trees), v2) for name in sorted(names)]
