"""What this system has that others have not: the one place that asks which system it is.

Linux forks warm processes, paces sockets, ends a process with its parent and builds boxes. Elsewhere (macOS, Windows) the same
programs start cold and nobody's points depend on it: whoever needs one of these asks here, and has another way.
"""

from __future__ import annotations

import importlib.metadata
import os
import socket
import sys
from pathlib import Path

NEEDS_LINUX = "it needs Linux (on macOS and Windows: a Linux container)"
OURS = "across-tensorflow"  # the distribution that this library is installed as: an index has another one called across
CGROUP = Path("/sys/fs/cgroup")
UNLIMITED = 1 << 60  # cgroup v1 writes a number near 2**63 for no limit


def linux() -> bool:
    """Whether this is Linux, with /proc, prctl and its options of sockets."""
    return sys.platform == "linux"


def forks() -> bool:
    """Whether warm processes can be forked here: fork, pidfd and SOCK_SEQPACKET."""
    return linux() and hasattr(os, "fork") and hasattr(os, "pidfd_open") and hasattr(socket, "SOCK_SEQPACKET")


def name() -> str:
    """What messages call this system: "linux", "darwin", "win32"."""
    return sys.platform


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit(*names: str) -> int | None:
    """A number that this process's cgroup sets as a limit, by the names it has in v2 and v1; None if it sets none."""
    for name in names:
        try:
            value = int((CGROUP / name).read_text())
        except (OSError, ValueError):  # no such file here, or "max"
            continue
        return value if value < UNLIMITED else None
    return None


def version(package: str) -> str | None:
    """The version of a distribution, or of this library by its module's name; None if it is not installed."""
    try:
        return importlib.metadata.version(OURS if package == "across" else package)
    except importlib.metadata.PackageNotFoundError:
        return None


def administrator() -> bool:
    """Whether this process is root's; False where there is no root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def locked(descriptor: int) -> bool:
    """Whether this process, all its threads, has an open file alone until it closes it or ends; it does not wait for that."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            os.lockf(descriptor, os.F_TLOCK, 0)
    except OSError:  # another has it, or this file system knows no locks
        return False
    return True
