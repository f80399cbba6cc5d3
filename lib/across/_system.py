"""What this system has that others have not: the one place that asks which system it is.

Linux forks warm processes, paces sockets, ends a process with its parent and builds boxes. Elsewhere (macOS, Windows) the same
programs start cold and nobody's points depend on it: whoever needs one of these asks here, and has another way.
"""

from __future__ import annotations

import os
import socket
import sys

NEEDS_LINUX = "it needs Linux (on macOS and Windows: a Linux container)"


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


def administrator() -> bool:
    """Whether this process is root's; False where there is no root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def listens_again() -> bool:
    """Whether SO_REUSEADDR lets a port that was just left be listened on; on Windows it would take one that is in use."""
    return sys.platform != "win32"
