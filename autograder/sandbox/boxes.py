"""The box that untrusted code runs in: bubblewrap builds it, a process forked from a warm server steps into it.

This is the trusted half, which builds, describes and ends boxes; `bubblewrap` says what is seen in one, `entering` is the
forked child's half, `seccomp` the filter of system calls.

Inside there are the Python installation, the environment and `lib/across`, read-only; a work folder at ``/box``; a
small ``/tmp``; a loopback of its own and no other network; no other process. It runs as an ordinary user without any
capability, under limits on memory, processes, file sizes and open files, and without the system calls that neither
TensorFlow nor Jupyter needs. Whatever is in it ends with it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autograder.sandbox import bubblewrap, cgroups, memory_watcher, seccomp

USERS = 0x78000000  # and a box's process number: a user of its own, in a range that nobody else hands out


TRIES = 3  # at building a box before it is said that none can be built: somebody may have killed that one


class SandboxError(RuntimeError):
    """No box can be built here; the message says the mend."""


@dataclass(frozen=True)
class Caps:
    """What a box may use: bytes and counts."""

    memory: int
    pids: int
    file: int
    tmp: int
    cpu_seconds: int


class Box:
    """An open box. `close` ends everything in it and removes its folder and its groups."""

    def __init__(self, name: str, caps: Caps, walls: bool = True, devices: Sequence[str] = ()) -> None:
        """Build the box `name` in about 6 ms, with the device files of leased cards in it. Raises SandboxError.

        Without `walls` there is a folder and, where possible, a group, but nothing is kept out or in: trusted code only.
        """
        self.name = name
        self.walls = walls
        self.caps = caps
        self.devices = tuple(devices)
        self.folder = workroom() / name
        self.inside = bubblewrap.INSIDE if walls else str(self.folder)
        self.pid = 0
        self.group: cgroups.Group | None = None
        self._bwrap: subprocess.Popen[bytes] | None = None
        self._watcher: memory_watcher.MemoryWatcher | None = None
        self.folder.mkdir(mode=0o700)
        try:
            self.group = cgroups.open_group(name, caps.memory, caps.pids)
            if not walls:
                return
            if said := seccomp.problem():
                raise SandboxError(said)
            if root() and self.group is None:
                raise SandboxError("as root the sandbox needs control groups (memory, pids): mount /sys/fs/cgroup")
            self._build()
            if root():
                os.chown(self.folder, self.user, self.user)
            if self.group is None:
                self._watcher = memory_watcher.MemoryWatcher(self.pid, caps.memory)
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        info, told = os.pipe()
        filter = os.memfd_create("seccomp")
        try:
            os.write(filter, seccomp.program())
            os.lseek(filter, 0, os.SEEK_SET)
            self._bwrap = subprocess.Popen(
                bubblewrap.command(str(self.folder), self.caps.tmp, told, filter, self.devices),
                pass_fds=[told, filter],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError:
            os.close(info)
            raise SandboxError(MISSING) from None
        finally:
            os.close(told)
            os.close(filter)
        assert self._bwrap.stdout is not None
        assert self._bwrap.stderr is not None
        ended = os.pidfd_open(self._bwrap.pid)  # killed now, it may leave a child that holds our pipes open for ever
        try:
            text = _read(info, b"}", ended)  # bwrap writes it in pieces, and before its mounts are done
            if b"}" in text:
                self.pid = json.loads(text)["child-pid"]
            if not self.pid or b"ready" not in _read(self._bwrap.stdout.fileno(), b"\n", ended):
                said = _read(self._bwrap.stderr.fileno(), b"\n", ended).decode(errors="replace").strip()
                raise SandboxError(f"bubblewrap cannot build a box here: {said or 'it ended at once'}")
        finally:
            os.close(ended)
            os.close(info)

    @property
    def user(self) -> int:
        """The user and group in the box: our own; for root one that no other box has, for the kernel counts by user, too.

        Descriptors in flight, signals queued, files watched: what one box used up, another would miss.
        """
        return USERS + self.pid if root() else os.getuid()

    def request(self) -> dict[str, object]:
        """What a forked child needs for `enter`, as JSON."""
        groups = [str(folder) for folder in self.group.folders] if self.group else []
        place = {"pid": self.pid, "inside": self.inside, "groups": groups}
        if self.walls:
            place |= {"user": self.user, "filter": seccomp.program().hex()}
        return {**place, "file": self.caps.file, "cpu": self.caps.cpu_seconds, "processes": self.caps.pids}

    def out_of_memory(self) -> bool:
        """Whether something in the box was killed because the box's memory was used up."""
        if self._watcher is not None:
            return self._watcher.killed
        return self.group is not None and self.group.oom_kills() > 0

    def broken(self) -> bool:
        """Whether the box was ended from outside, and not for its memory: nothing in it can end its process 1.

        What runs in a box dies with that process, and not before it is on its way out: there is nothing to wait for.
        """
        if self._bwrap is None or self.out_of_memory():
            return False
        return _exiting(self.pid) or self._bwrap.poll() is not None

    def close(self) -> None:
        """Kill everything in the box, reap it, and remove its folder and its groups."""
        if self._watcher is not None:
            self._watcher.close()
        if self._bwrap is not None:
            if self.pid:  # process 1 of the box: all others die with it, and bwrap reaps it
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            else:
                self._bwrap.kill()  # it has not said which one that is
            try:
                self._bwrap.wait(5)
            except subprocess.TimeoutExpired:
                self._bwrap.kill()
                self._bwrap.wait()
            if not self.pid:
                _end_builders(str(self.folder))
            for stream in (self._bwrap.stdout, self._bwrap.stderr):
                if stream is not None:
                    stream.close()
            self._bwrap = None
        if self.group is not None:
            self.group.close()
        remove(self.folder)

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


MISSING = (
    "bubblewrap is missing: install it (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)"
)


def root() -> bool:
    """Whether we are root, and so can give the box a user of its own."""
    return os.getuid() == 0


def problem() -> str:
    """Why untrusted code cannot be run here, with the mend; empty when it can."""
    if sys.platform != "linux":
        return "the sandbox needs Linux (on macOS and Windows: a Linux container)"
    if shutil.which("bwrap") is None:
        return MISSING
    said = ""
    for _ in range(TRIES):
        try:
            Box(f"j{os.getpid()}-try", Caps(1 << 30, 64, 1 << 20, 1 << 20, 10)).close()
        except (SandboxError, OSError) as error:
            said = str(error)
        else:
            return ""
    return said


@cache
def workroom() -> Path:
    """Our folder for boxes: in memory, so that what a box writes counts as its memory; short, for socket paths."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
    if shared := os.environ.get("ACROSS_WORKROOM"):
        return Path(shared)
    _clear(Path(place))
    path = Path(tempfile.mkdtemp(prefix=f"across-{os.getpid()}-", dir=place))
    path.chmod(0o711)
    atexit.register(_leave, path, os.getpid())
    return path


def remove(folder: Path) -> None:
    """Remove a folder that a student's code may have filled: however deep it is, and whatever it locked.

    Not by shutil.rmtree: that recurses, and holds a file descriptor for each level.
    """
    for command in (["rm", "-rf"], ["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        if not os.path.lexists(folder):
            return
        subprocess.run([*command, "--", str(folder)], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _clear(place: Path) -> None:
    """Remove what a grader that was killed has left."""
    for folder in place.glob("across-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            sweep(f"j{owner}-")
            remove(folder)


def _end_builders(folder: str) -> None:
    """Kill what a bwrap that was killed while it built the box of `folder` has left: a child that waits for its word."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                words = (place / "cmdline").read_bytes().split(b"\0")
                if words[0] == b"bwrap" and os.fsencode(folder) in words:
                    os.kill(int(place.name), signal.SIGKILL)


def _leave(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child of ours
        remove(path)


def _exiting(pid: int) -> bool:
    """Whether a process is gone or on its way out: the flag PF_EXITING, see proc(5) and the kernel's sched.h."""
    try:
        flags = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6]
    except OSError:
        return True
    return bool(int(flags) & 0x4)


def out_of_memory(name: str) -> bool:
    """Whether something in the group `name` was killed because its memory was used up; False where there is no group."""
    return any(group.name == name and group.oom_kills() > 0 for group in cgroups.leftovers(name))


def sweep(prefix: str) -> None:
    """Remove the groups that boxes named `prefix...` left behind when the process that held them was killed."""
    for group in cgroups.leftovers(prefix):
        group.close()


def _read(fd: int, end: bytes, ended: int, deadline: float = 20.0) -> bytes:
    """Read until `end`, the end of the file, of the process with pidfd `ended`, or the deadline."""
    text, until = b"", time.monotonic() + deadline
    while end not in text:
        ready = select.select([fd, ended], [], [], max(0.0, until - time.monotonic()))[0]
        part = os.read(fd, 65536) if fd in ready else b""
        if not part:
            break
        text += part
    return text


def caps(limits: object) -> Caps:
    """The box's share of a chapter's `course.Limits`."""
    get = lambda name: getattr(limits, name)  # noqa: E731
    cpu = int(get("notebook_seconds") * (os.cpu_count() or 1)) + 60
    return Caps(get("memory_bytes"), get("pids"), get("file_bytes"), get("tmp_bytes"), cpu)
