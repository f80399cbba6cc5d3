"""A disk that is soon full, for this process alone."""

from __future__ import annotations

import ctypes
import os
import signal

from across import _system

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000  # <linux/sched.h>
RLIMIT_FSIZE = 1  # <sys/resource.h>, of Linux and macOS


def small(folder: str, size: int) -> None:
    """Let `folder` have room for `size` bytes, in this process that has one thread.

    A file system in memory, mounted in a namespace of this process. Where that may not be, a limit of each file's size,
    with another error: EFBIG in place of ENOSPC.
    """
    if _system.linux() and _mounted(folder, size):
        return
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ctypes.CDLL(None).setrlimit(
        RLIMIT_FSIZE, (ctypes.c_uint64 * 2)(size // 2, size // 2)
    )  # Windows has no module of it


def _mounted(folder: str, size: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
        return False
    try:
        for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{file}", "w") as map_of:
                map_of.write(text)
    except OSError:
        return False
    return libc.mount(b"none", folder.encode(), b"tmpfs", 0, f"size={size}".encode()) == 0
