"""Whose a box is: names that no other grader gives, and that say whether the process that gave them still lives.

A grader that was killed leaves control groups and folders; the next one removes them. Containers may share control groups
and /dev/shm while each numbers its processes from 1, and a number is given again: so a name says the process's number, when
it began, and a token of the kernel and the process namespace in which that is to be understood. Only names of our own
namespace can be judged; every other is left alone.
"""

from __future__ import annotations

import os
import re
import secrets
import zlib
from pathlib import Path

_NAME = re.compile(r"[a-z]+-?(?P<pid>\d+)-(?P<began>[0-9a-f]+)-(?P<world>[0-9a-f]{8})-")


def new_name(prefix: str) -> str:
    """Return a name that nobody has: `prefix` (letters, perhaps a hyphen), this process's identity, a random token."""
    return f"{prefix}{identity()}-{secrets.token_hex(4)}"


def identity() -> str:
    """This process: number, moment of its beginning (clock ticks since boot), kernel and namespace."""
    return f"{os.getpid()}-{_began(os.getpid()):x}-{_world()}"


def is_leftover(name: str) -> bool:
    """Whether the process that gave `name` is known to have ended."""
    found = _NAME.match(name)
    if found is None or found["world"] != _world():
        return False
    pid = int(found["pid"])
    try:
        os.close(os.pidfd_open(pid))  # needs no right, where /proc may hide what is another user's
    except OSError:
        return True
    return _began(pid) not in (0, int(found["began"], 16))


def _began(pid: int) -> int:
    """When process `pid` began: the 22nd field of proc(5)'s stat; 0 where that cannot be read."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def _world() -> str:
    """Eight digits for this boot of this kernel and our process namespace: in no other is a process number ours."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    return f"{zlib.crc32(boot + os.readlink('/proc/self/ns/pid').encode()):08x}"
