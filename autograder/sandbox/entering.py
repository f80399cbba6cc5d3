"""The child's half of the sandbox: a process forked from a warm server steps into a box and sheds what it could.

It is in the memory of every student's kernel: so it holds no secret, and imports nothing of `autograder` but `seccomp`.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence

from autograder.sandbox import seccomp

NAMESPACES = ("pid", "net", "ipc", "uts", "cgroup", "mnt")
APART = ("net", "uts", "cgroup", "mnt")  # what a process shares with a box that it does not step into
CLONE_APART = 0x20000000 | 0x08000000 | 0x00020000  # process numbers, System V and POSIX queues, and mounts of its own
OTHER_USER = 1 << 23  # from the box's user to that of who stands apart: no two boxes are so far from each other
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_RELATIME = 1, 2, 4, 8, 32, 4096, 1 << 21
KEPT = 2 | 4 | 8 | 1024 | 2048  # flags of a mount that statvfs and mount number alike: what has one may not lose it
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")  # in /dev, by bwrap's --dev
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
NS_GET_PARENT = 0xB702
CAPABILITY_VERSION_3 = 0x20080522


def before(box: dict[str, object]) -> Callable[[], None]:
    """Have the next child that this process forks be born in the box's process namespace; return what undoes it.

    It saves `enter` a fork of its own, 20 ms of a process as large as TensorFlow's. Where the box has another user
    namespace (we are not root) nothing is done: `enter` forks. Raises OSError.
    """
    if not box["pid"] or "apart" in box or not _same(f"/proc/{box['pid']}/ns/user", "/proc/self/ns/user"):
        return lambda: None
    libc = ctypes.CDLL(None, use_errno=True)
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY)
    _set(libc, os.open(f"/proc/{box['pid']}/ns/pid", os.O_RDONLY))
    return lambda: _set(libc, ours)


def enter(box: dict[str, object]) -> None:
    """Step into the box that `Box.request` described, for good, and shed every privilege: about 3 ms.

    Call it in a forked, single-threaded child. Unless the child was born there (see `before`), it returns in a
    grandchild, the process inside; the child itself waits for that one and exits as it did. Raises OSError.

    Who stands "apart" shares the box's network and what it shows but leased cards, and is seen by nobody in it: its process
    numbers, its user (of root's boxes), its queues and whatever it can write to are its own.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for folder in box["groups"]:  # type: ignore[attr-defined]
        with open(f"{folder}/cgroup.procs", "w") as file:
            file.write("0")  # the writer, whatever its number is here
    if not box["pid"]:
        _limit(box)
        return
    filter = bytes.fromhex(str(box["filter"]))
    apart = "apart" in box
    born_inside = not apart and _same(f"/proc/{box['pid']}/ns/pid", "/proc/self/ns/pid")
    files: Mapping[str, int] = box["files"]  # type: ignore[assignment]
    inner = _join(libc, int(box["pid"]), APART if apart else NAMESPACES)  # type: ignore[call-overload]
    if apart:
        _do(libc.unshare(CLONE_APART), "no namespaces of its own")
    else:
        _bound(libc, files)
        _settle(libc, inner)
    child = 0 if born_inside else os.fork()  # the child is in the pid namespace, we are not
    if child:
        _watchable(libc, box)
        os.closerange(0, 1024)  # hold nothing of the student's while waiting
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(code if code >= 0 else 128 - code)
    if apart:
        _own_room(libc, files, int(box["apart"]))  # type: ignore[call-overload]
        for device in box["withheld"]:  # type: ignore[attr-defined]
            _do(libc.mount(b"/dev/null", device.encode(), None, MS_BIND, None), f"{device} cannot be withheld")
        _settle(libc, inner)
    for capability in range(64):  # the bounding set first, while we still may
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    _limit(box)
    if inner < 0:
        os.setgroups([])
        user = int(box["user"]) + OTHER_USER * apart  # type: ignore[call-overload]
        os.chown(str(box["inside"]), user, user)
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header, data = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(header, data) or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot drop privileges")
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the change of user, which forgets it
    _watchable(libc, box)
    seccomp.install(filter)  # last: it denies what the steps above need


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


def _watchable(libc: ctypes.CDLL, box: Mapping[str, object]) -> None:
    """Where there is no group that counts: let our memory and namespaces be looked at by whoever watches the box."""
    if not box["groups"]:
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def _join(libc: ctypes.CDLL, pid: int, names: Sequence[str]) -> int:
    """Join the namespaces `names` of process `pid`; -1, or a descriptor of its user namespace, the last to be joined."""
    same_user = _same(f"/proc/{pid}/ns/user", "/proc/self/ns/user")
    fds = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in names]
    inner = -1 if same_user else os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    if not same_user:  # bwrap nests two: the outer one owns the other kinds
        fds.insert(0, fcntl.ioctl(inner, NS_GET_PARENT))
    for fd in fds:
        _set(libc, fd)
    return inner


def _settle(libc: ctypes.CDLL, inner: int) -> None:
    """Close what nobody in the box may change, and join its user namespace, if it has one."""
    _keep_times(libc)
    if inner >= 0:
        _set(libc, inner)


def _own_room(libc: ctypes.CDLL, files: Mapping[str, int], size: int) -> None:
    """Cover the box's processes and all that is written in it by our own: `size` bytes and so many `files` a place."""
    _do(libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None), "no /proc of its own")
    for place, count in files.items():
        mode = "1777" if place.count("/") > 1 or place == "/tmp" else "0700"
        options = f"size={size},nr_inodes={count},mode={mode}".encode()
        _do(libc.mount(b"tmpfs", place.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options), f"no {place} of its own")


def _do(failed: int, says: str) -> None:
    if failed:
        raise OSError(ctypes.get_errno(), says)


def _bound(libc: ctypes.CDLL, files: Mapping[str, int]) -> None:
    """Bound how many files each file system may hold, for which bwrap has no option. Done again, it changes nothing."""
    for place, count in files.items():
        if libc.mount(None, place.encode(), None, MS_REMOUNT | MS_NOSUID | MS_NODEV, f"nr_inodes={count}".encode()):
            raise OSError(ctypes.get_errno(), f"the number of files in {place} cannot be bounded")


def _keep_times(libc: ctypes.CDLL) -> None:
    """Let nobody in the box change when a device was last changed: the files are this machine's, and all boxes show them.

    Mounted read-only a device is read and written as before. bwrap's own --remount-ro would make it no device. What we have
    open of them was opened outside.
    """
    for place in (f"/dev/{name}" for name in DEVICES):
        has = os.statvfs(place).f_flag
        flags = MS_REMOUNT | MS_BIND | MS_RDONLY | (has & KEPT) | (MS_RELATIME if has & os.ST_RELATIME else 0)
        if libc.mount(None, place.encode(), None, flags, None):
            raise OSError(ctypes.get_errno(), f"{place} cannot be mounted read-only")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)


def _set(libc: ctypes.CDLL, fd: int) -> None:
    if libc.setns(fd, 0):
        raise OSError(ctypes.get_errno(), "cannot enter the box")
    os.close(fd)


def _same(one: str, other: str) -> bool:
    return os.path.samestat(os.stat(one), os.stat(other))


def hush() -> None:
    """Write nothing on standard output and error from now on.

    In a server's child they are a log that all its children share: who makes one of them print fills it, up to the size
    that a file may have, and what the next ones print fails.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def hold(fds: Sequence[int]) -> None:
    """Close every file descriptor but 0, 1, 2 and `fds`."""
    keep = sorted({0, 1, 2, *fds})
    for low, high in zip(keep, [*keep[1:], 4096], strict=True):
        if low + 1 < high:  # closerange(0, 0) closes everything
            os.closerange(low + 1, high)
