"""Where a keeper listens, whom it may serve, and what it must have in common with a command.

The folder is this user's own in TMPDIR or /tmp: a real folder with mode 0700, or it is not used. It is opened once, and every
file in it reached by that descriptor. It is locked while a keeper is started or removes what it leaves. One keeper for
each Python, installation and set of namespaces: its socket is named after these.

What a keeper has in common with a command is a plain value, its key: the part of the environment that libraries and servers
read when they start, limits and rights.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import resource
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any

NAMES = ("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
PREFIXES = (
    *("LC_", "LD_", "PYTHON", "JUPYTER", "IPYTHON", "NBGRADER"),
    *("ACROSS_", "OMP_", "OPENBLAS_", "MKL_", "CUDA_", "TF_"),
)
SPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")  # see namespaces(7)
PATIENCE = 90.0  # seconds for another command to start a keeper


class PlaceError(Exception):
    """The folder is not to be trusted; the message says the mend."""


class Place:
    """The folder of this user's keepers, opened."""

    def __init__(self, path: str, fd: int) -> None:
        self.path, self.fd = path, fd
        self.name = _name()

    def at(self, name: str) -> str:
        """A path to a file of the folder that leads through our descriptor, and so into this folder and no other."""
        return f"/proc/self/fd/{self.fd}/{name}"

    def remove(self, *endings: str) -> None:
        """Remove the files that are named after this Python and end so."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.fd):
                if name.startswith(self.name) and name.endswith(endings):
                    os.unlink(name, dir_fd=self.fd)

    def there(self) -> bool:
        """Whether the folder is still the one of its name."""
        with contextlib.suppress(OSError):
            return os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(self.fd))
        return False

    @contextlib.contextmanager
    def locked(self, patience: float = PATIENCE) -> Iterator[None]:
        """Hold the folder against other commands and keepers. Raises PlaceError after `patience` seconds."""
        until = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise PlaceError(f"{self.path}: another command has held it for {patience:.0f} s") from None
                time.sleep(0.01)
        try:
            yield
        finally:
            fcntl.flock(self.fd, fcntl.LOCK_UN)

    def connect(self) -> socket.socket | None:
        """A connection to this user's keeper, if one listens."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.settimeout(10.0)
            connection.connect(self.at(self.name))
        except OSError:
            connection.close()
            return None
        if peer(connection)[1] != os.geteuid():
            connection.close()
            raise PlaceError(f"{self.path}: another user's process listens there; remove that folder")
        return connection

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self.fd)


def opened(make: bool = True) -> Place:
    """The folder of this user's keepers. Raises PlaceError if it is another's, open to others, a link, or cannot be made."""
    path = os.path.abspath(os.path.join(os.environ.get("TMPDIR") or "/tmp", f"across-kept-{os.geteuid()}"))
    if make:
        with contextlib.suppress(OSError):
            os.mkdir(path, 0o700)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        what = "is no folder" if error.errno in (errno.ENOTDIR, errno.ELOOP) else f"cannot be opened: {error.strerror}"
        raise PlaceError(f"{path}: {what}; remove it") from None
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
        os.close(fd)
        whose = "is another user's" if found.st_uid != os.geteuid() else "is open to others (its mode is not 0700)"
        raise PlaceError(f"{path}: it {whose}; remove it")
    return Place(path, fd)


def peer(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end, as the kernel knows them."""
    pid, user, _group = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, user


def key() -> dict[str, Any]:
    """What a command and a keeper must have in common, as plain JSON: what differs is named by the first level."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if (name in NAMES or name.startswith(PREFIXES)) and name != "PYTHONDONTWRITEBYTECODE"
    }
    if "PYTHONPATH" in environment:  # what it means depends on the working folder
        places = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, places))
    limits = {
        name: list(resource.getrlimit(getattr(resource, name))) for name in dir(resource) if name.startswith("RLIMIT_")
    }
    rights = [os.getuid(), os.geteuid(), os.getgid(), os.getegid(), sorted(os.getgroups())]
    share = [os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0))]
    os.umask(mask := os.umask(0o077))
    return {**environment, "limits (ulimit)": limits, "rights": rights, "priority": share, "umask": mask}


def differs(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """The names of what two keys do not have in common."""
    return sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))


def _name() -> str:
    spaces = []
    for space in SPACES:
        with contextlib.suppress(OSError):
            spaces.append(os.readlink(f"/proc/self/ns/{space}"))
    which = [sys.executable, sys.prefix, sys.version, os.path.dirname(os.path.abspath(__file__)), *spaces]
    return hashlib.sha256(json.dumps(which).encode()).hexdigest()[:16]
