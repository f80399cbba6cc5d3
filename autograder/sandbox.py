"""The box that untrusted code runs in: bubblewrap builds it, a process forked from a warm server steps into it.

Inside there are the Python installation, the environment and `lib/across`, read-only; a work folder at ``/box``; a
small ``/tmp``; a loopback of its own and no other network; no other process. It runs as an ordinary user without any
capability, under limits on memory, processes, file sizes and open files. Whatever is in it ends with it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import json
import os
import resource
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

from autograder import cgroups, watch

INSIDE = "/box"  # the work folder, seen from inside
UID = 20001  # when we are root; otherwise our own user
NAMESPACES = ("pid", "net", "ipc", "uts", "cgroup", "mnt")
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
NS_GET_PARENT = 0xB702
CAPABILITY_VERSION_3 = 0x20080522


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

    def __init__(self, name: str, caps: Caps, walls: bool = True) -> None:
        """Build the box `name` in about 6 ms. Raises SandboxError.

        Without `walls` there is a folder and, where possible, a group, but nothing is kept out or in: trusted code only.
        """
        self.name = name
        self.walls = walls
        self.caps = caps
        self.folder = workroom() / name
        self.inside = INSIDE if walls else str(self.folder)
        self.pid = 0
        self.group: cgroups.Group | None = None
        self._bwrap: subprocess.Popen[bytes] | None = None
        self._watcher: watch.MemoryWatcher | None = None
        self.folder.mkdir(mode=0o700)
        try:
            self.group = cgroups.open_group(name, caps.memory, caps.pids)
            if not walls:
                return
            if root():
                os.chown(self.folder, UID, UID)
            if root() and self.group is None:
                raise SandboxError("as root the sandbox needs control groups (memory, pids): mount /sys/fs/cgroup")
            self.pid = self._build()
            if self.group is None:
                self._watcher = watch.MemoryWatcher(self.pid, caps.memory)
        except BaseException:
            self.close()
            raise

    def _build(self) -> int:
        info, told = os.pipe()
        try:
            self._bwrap = subprocess.Popen(
                _command(str(self.folder), self.caps.tmp, told),
                pass_fds=[told],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError:
            os.close(info)
            raise SandboxError(MISSING) from None
        finally:
            os.close(told)
        try:
            text = _read(info, b"}")  # bwrap writes it in pieces, and before its mounts are done
            assert self._bwrap.stdout is not None
            if b"ready" not in _read(self._bwrap.stdout.fileno(), b"\n"):
                assert self._bwrap.stderr is not None
                said = os.read(self._bwrap.stderr.fileno(), 500).decode(errors="replace").strip()
                raise SandboxError(f"bubblewrap cannot build a box here: {said or 'it ended at once'}")
            return json.loads(text)["child-pid"]
        finally:
            os.close(info)

    def request(self) -> dict[str, object]:
        """What a forked child needs for `enter`, as JSON."""
        groups = [str(folder) for folder in self.group.folders] if self.group else []
        place = {"pid": self.pid, "inside": self.inside, "groups": groups}
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
            with contextlib.suppress(ProcessLookupError):
                if self.pid:
                    os.kill(
                        self.pid, signal.SIGKILL
                    )  # process 1 of the box: all others die with it, and bwrap reaps it
            try:
                self._bwrap.wait(5)
            except subprocess.TimeoutExpired:
                self._bwrap.kill()
                self._bwrap.wait()
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
    try:
        Box(f"j{os.getpid()}-try", Caps(1 << 30, 64, 1 << 20, 1 << 20, 10)).close()
    except (SandboxError, OSError) as error:
        return str(error)
    return ""


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


def _readonly() -> list[str]:
    """What is bound read-only at its own path: the interpreter, the environment, the students' library."""
    import across

    library = str(Path(across.__path__[0]).resolve().parent)
    places = {os.path.realpath(sys.base_prefix), os.path.abspath(sys.prefix)}
    if not library.startswith(os.path.abspath(sys.prefix)):
        places.add(library)
    return sorted(place for place in places if not place.startswith(("/usr/", "/bin/", "/lib/")) and place != "/usr")


@cache
def _fixed(tmp: int) -> list[str]:
    arguments = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"]
    if not root():
        arguments.append("--unshare-user")
    arguments += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "box"]
    arguments += ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "lib", "lib64", "sbin"):
        if os.path.isdir(f"/{name}"):
            arguments += ["--symlink", f"usr/{name}", f"/{name}"]
    arguments += ["--perms", "0755", "--dir", "/etc"]
    for file in ("/etc/ld.so.cache", "/etc/hosts"):
        if os.path.exists(file):
            arguments += ["--ro-bind", file, file]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for place in ("/tmp", "/dev/shm"):  # before what may lie in them: an environment below /tmp
        arguments += ["--size", str(tmp), "--perms", "1777", "--tmpfs", place]
    places = _readonly()
    parents = {str(parent) for place in places for parent in Path(place).parents} - {"/", "/tmp", "/dev/shm"}
    for parent in sorted(parents):  # bwrap itself would make them for root only
        arguments += ["--perms", "0755", "--dir", parent]
    for place in places:
        arguments += ["--ro-bind", place, place]
    return arguments


def _command(folder: str, tmp: int, told: int) -> list[str]:
    mounts = ["--bind", folder, INSIDE, "--remount-ro", "/"]
    return ["bwrap", *_fixed(tmp), *mounts, "--info-fd", str(told), "sh", "-c", "echo ready; exec sleep infinity"]


def _read(fd: int, end: bytes, deadline: float = 20.0) -> bytes:
    """Read until `end`, the end of file or the deadline."""
    text, until = b"", time.monotonic() + deadline
    while end not in text and select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(fd, 65536)
        if not part:
            break
        text += part
    return text


def enter(box: dict[str, object]) -> None:
    """Step into the box that `Box.request` described, for good, and shed every privilege: about 3 ms.

    Call it in a forked, single-threaded child. It returns in a grandchild, the process inside; the child itself waits
    for that one and exits as it did. Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for folder in box["groups"]:  # type: ignore[attr-defined]
        with open(f"{folder}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
    if not box["pid"]:
        _limit(box)
        return
    same_user = _join(libc, int(box["pid"]))  # type: ignore[call-overload]
    child = os.fork()  # the child is in the pid namespace, we are not
    if child:
        os.closerange(0, 1024)  # hold nothing of the student's while waiting
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(code if code >= 0 else 128 - code)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for capability in range(64):  # the bounding set first, while we still may
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    _limit(box)
    if same_user:
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
    header, data = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(header, data) or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot drop privileges")
    if not box["groups"]:
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or its memory could not be watched from outside


def _limit(box: dict[str, object]) -> None:
    for kind, value in (
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_FSIZE, box["file"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, box["cpu"]),
    ):
        resource.setrlimit(kind, (value, value))  # type: ignore[arg-type]
    if not box["groups"]:
        resource.setrlimit(resource.RLIMIT_NPROC, (box["processes"], box["processes"]))  # type: ignore[arg-type]


def _join(libc: ctypes.CDLL, pid: int) -> bool:
    """Join the namespaces of process `pid`; whether it is in our own user namespace."""
    inner = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    same_user = os.path.samestat(os.fstat(inner), os.stat("/proc/self/ns/user"))
    fds = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in NAMESPACES]
    if same_user:
        os.close(inner)
    else:
        fds = [fcntl.ioctl(inner, NS_GET_PARENT), *fds, inner]  # bwrap nests two: the outer one owns the other kinds
    for fd in fds:
        if libc.setns(fd, 0):
            raise OSError(ctypes.get_errno(), "cannot enter the box")
        os.close(fd)
    return same_user


def caps(limits: object) -> Caps:
    """The box's share of a chapter's `course.Limits`."""
    get = lambda name: getattr(limits, name)  # noqa: E731
    cpu = int(get("notebook_seconds") * (os.cpu_count() or 1)) + 60
    return Caps(get("memory_bytes"), get("pids"), get("file_bytes"), get("tmp_bytes"), cpu)


def hold(fds: Sequence[int]) -> None:
    """Close every file descriptor but 0, 1, 2 and `fds`."""
    keep = sorted({0, 1, 2, *fds})
    for low, high in zip(keep, [*keep[1:], 4096], strict=True):
        if low + 1 < high:  # closerange(0, 0) closes everything
            os.closerange(low + 1, high)
