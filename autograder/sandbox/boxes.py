"""The box that untrusted code runs in: bubblewrap builds it, a process forked from a warm server steps into it.

This is the trusted half, which builds, describes and ends boxes; `bubblewrap` says what is seen in one, `entering` is the
forked child's half, `seccomp` the filter of system calls.

Inside there are the Python installation, the environment and `lib/across`, read-only; a work folder at ``/box`` and a
``/tmp``, each in a memory of its own of a bounded size; a loopback of its own and no other network; no other process. It
runs as an ordinary user without any capability, under limits on memory, processes, file sizes and open files, and without
the system calls that neither TensorFlow nor Jupyter needs. Nothing of it lies in a folder of this machine, and whatever is
in it ends with it.
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

from across._process import unprivileged
from autograder.sandbox import bubblewrap, cgroups, memory_watcher, owners, processor, seccomp

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
    """An open box. `close` ends everything in it and removes its groups."""

    def __init__(
        self, name: str, caps: Caps, walls: bool = True, devices: Sequence[str] = (), hidden: Sequence[str] = ()
    ) -> None:
        """Build the box `name` in about 6 ms, with the device files of leased cards in it. Raises SandboxError.

        `hidden` are folders that it must not show even where what it shows holds them; the grader's are hidden anyhow.
        Without `walls` there is a folder and, where possible, a group, but nothing is kept out or in: trusted code only.
        """
        self.name = name
        self.walls = walls
        self.caps = caps
        self.devices = tuple(devices)
        self.hidden = tuple(hidden)
        self.folder = None if walls else workroom() / name
        self.inside = bubblewrap.INSIDE if self.folder is None else str(self.folder)
        self.pid = 0
        self.group: cgroups.Group | None = None
        self._bwrap: subprocess.Popen[bytes] | None = None
        self._first = -1  # pidfd of the box's process 1: with it end all others
        self._writable: dict[str, int] = {}  # descriptors (O_PATH) of the file systems that it may write to
        self._watcher: memory_watcher.MemoryWatcher | None = None
        try:
            self.group = cgroups.open_group(name, caps.memory, caps.pids)
            if self.folder is not None:
                self.folder.mkdir(mode=0o700)
                return
            if said := seccomp.problem():
                raise SandboxError(said)
            if root() and self.group is None:
                raise SandboxError("as root the sandbox needs control groups (memory, pids): mount /sys/fs/cgroup")
            self._build()
            if self.watched:
                self._watcher = memory_watcher.MemoryWatcher(
                    self.pid, caps.memory, caps.pids, list(self._writable.values()), self._kill
                )
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        sleep = None if root() else bubblewrap.open_sleep()
        info, reported = os.pipe()
        filter = os.memfd_create("seccomp")
        passed = [reported, filter] if sleep is None else [reported, filter, sleep]
        try:
            os.write(filter, seccomp.program(watched=self.watched))
            os.lseek(filter, 0, os.SEEK_SET)
            self._bwrap = subprocess.Popen(
                bubblewrap.command(
                    self.name, self.caps.tmp, reported, filter, self.devices, self.hidden, self.watched, sleep
                ),
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PATH": os.environ.get("PATH", os.defpath)},  # process 1 is bwrap: whoever is in there may read it
            )
        except FileNotFoundError:
            os.close(info)
            raise SandboxError(MISSING) from None
        finally:
            for descriptor in passed:
                os.close(descriptor)
        assert self._bwrap.stdout is not None
        assert self._bwrap.stderr is not None
        ended = os.pidfd_open(self._bwrap.pid)  # killed now, it may leave a child that holds our pipes open for ever
        try:
            text = _read(info, b"}", ended)  # bwrap writes it in pieces, and before its mounts are done
            if b"}" in text:
                self.pid = json.loads(text)["child-pid"]
                self._first = os.pidfd_open(self.pid)
            if not self.pid or b"ready" not in _read(self._bwrap.stdout.fileno(), b"\n", ended):
                said = _read(self._bwrap.stderr.fileno(), b"\n", ended).decode(errors="replace").strip()
                raise SandboxError(
                    f"bubblewrap cannot build a box here: {said or 'it ended at once'}{unprivileged.mend()}"
                )
            for place in bubblewrap.WRITABLE:
                self._writable[place] = os.open(f"/proc/{self.pid}/root{place}", os.O_PATH | os.O_DIRECTORY)
        except ProcessLookupError:
            raise SandboxError("bubblewrap cannot build a box here: its process 1 ended at once") from None
        finally:
            os.close(ended)
            os.close(info)

    @property
    def watched(self) -> bool:
        """Whether no control group counts what the box uses, so that somebody has to look."""
        return self.walls and self.group is None

    @property
    def kept_by(self) -> str:
        """Who keeps its memory and its processes within their number."""
        if self.group is not None:
            return f"control groups v{2 if self.group.v2 else 1}"
        return f"a look every {memory_watcher.PERIOD:g} s" if self.walls else "nobody"

    @property
    def user(self) -> int:
        """The user and group in the box: our own; for root one that no other box has, for the kernel counts by user, too.

        Descriptors in flight, signals queued, files watched: what one box used up, another would miss.
        """
        return USERS + self.pid if root() else os.getuid()

    def request(self, apart: bool = False) -> dict[str, object]:
        """What a forked child needs for `enter`, as JSON; `apart`: to share its network alone, and be out of its sight."""
        groups = [str(folder) for folder in self.group.folders] if self.group else []
        place = {"pid": self.pid, "inside": self.inside, "groups": groups}
        if self.walls:
            filter = seccomp.program(watched=self.watched).hex()
            place |= {"user": self.user, "filter": filter, "files": bubblewrap.files(self.caps.tmp)}
            place |= {"apart": self.caps.tmp, "withheld": self.devices} if apart else {}
        return {**place, "file": self.caps.file, "cpu": self.caps.cpu_seconds, "processes": self.caps.pids}

    def open_inside(self, folder: str) -> int:
        """A descriptor (O_PATH) of the folder of that name in the work folder: the way to sockets in it.

        It may be passed to another process, which need not be able to see the box: see `kernel_client`. What the box's
        work folder holds lives as long as the descriptor: close it with the box. Raises OSError where there is no such
        folder; a link leads nowhere.
        """
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
        if os.sep in folder or folder in ("", ".", ".."):
            raise ValueError(f"{folder!r} is no name of a folder in a box")
        if self.folder is not None:
            return os.open(self.folder / folder, flags)
        return os.open(folder, flags, dir_fd=self._writable[bubblewrap.INSIDE])

    def out_of_memory(self) -> bool:
        """Whether something in the box was killed because the box's memory was used up."""
        if self._watcher is not None:
            return self._watcher.killed
        return self.group is not None and self.group.oom_kills() > 0

    def forks_refused(self) -> int:
        """How often a process or thread was refused because the box had its number of them.

        Where there is no control group: 1 if it was ever seen with that number, a tenth of a second apart.
        """
        if self._watcher is not None:
            return int(self._watcher.at_task_limit)
        return self.group.forks_refused() if self.group is not None else 0

    def load(self) -> processor.Load:
        """What the box has had of the processors so far."""
        return processor.load(self.group.used(), self.group.pids()) if self.group else processor.load(None, ())

    def broken(self) -> bool:
        """Whether the box was ended from outside, and not for its memory: nothing in it can end its process 1.

        What runs in a box dies with that process, and not before it is on its way out: there is nothing to wait for.
        """
        if self._bwrap is None or self.out_of_memory():
            return False
        return _exiting(self.pid) or self._bwrap.poll() is not None

    def close(self) -> None:
        """Kill everything in the box, reap it, and remove its groups."""
        if self._watcher is not None:
            self._watcher.close()
        for descriptor in self._writable.values():
            os.close(descriptor)
        self._writable = {}
        if self._bwrap is not None:
            if self._first >= 0:  # all others die with it, and bwrap reaps it
                self._kill()
            else:
                self._bwrap.kill()  # it has not said which one that is
            try:
                self._bwrap.wait(5)
            except subprocess.TimeoutExpired:
                self._bwrap.kill()
                self._bwrap.wait()
            if self._first < 0:
                _end_builders(self.name)
            for stream in (self._bwrap.stdout, self._bwrap.stderr):
                if stream is not None:
                    stream.close()
            self._bwrap = None
        if self._first >= 0:
            os.close(self._first)
            self._first = -1
        if self.group is not None:
            self.group.close()
        if self.folder is not None:
            remove(self.folder)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


MISSING = f"bubblewrap is missing: {unprivileged.INSTALL}"


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
            Box(owners.new_name("j"), Caps(1 << 30, 64, 1 << 20, 1 << 20, 10)).close()
        except (SandboxError, OSError) as error:
            said = str(error)
        else:
            return ""
    return said


@cache
def workroom() -> Path:
    """Our folder for boxes without walls: in memory where there is some; short, for sockets' paths."""
    for place in ("/dev/shm", "/tmp"):
        path = Path(place, owners.new_name("across-"))
        try:
            path.mkdir(mode=0o711)
        except OSError:
            if place == "/tmp":
                raise
        else:
            break
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


def remove_leftovers() -> None:
    """Remove the groups and folders that a grader left which was killed; see `owners`."""
    for group in cgroups.leftovers("j"):
        if owners.is_leftover(group.name):
            group.close()
    for place in {"/dev/shm", "/tmp", tempfile.gettempdir()}:
        for folder in Path(place).glob("across-*"):
            if owners.is_leftover(folder.name):
                remove(folder)


def _end_builders(name: str) -> None:
    """Kill what a bwrap that was killed while it built the box `name` has left: a child that waits for its word."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                process = os.pidfd_open(int(place.name))
                try:
                    words = (place / "cmdline").read_bytes().split(b"\0")
                    if words[0] == b"bwrap" and os.fsencode(name) in words:
                        signal.pidfd_send_signal(process, signal.SIGKILL)
                finally:
                    os.close(process)


def _leave(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child of ours
        remove(path)


def _exiting(pid: int) -> bool:
    """Whether a process is gone or on its way out: the flag PF_EXITING, see proc(5) and the kernel's sched.h."""
    try:
        flags = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[6]
    except OSError:
        return True
    return bool(int(flags) & 0x4)


def sweep(prefix: str) -> list[str]:
    """Remove what boxes named `prefix...` left: groups that were not empty in time, folders; their names."""
    groups = cgroups.leftovers(prefix)
    for group in groups:
        group.close()
    folders = list(workroom().glob(f"{prefix}*")) if workroom.cache_info().currsize else []
    for folder in folders:
        remove(folder)
    return [*(group.name for group in groups), *(folder.name for folder in folders)]


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
