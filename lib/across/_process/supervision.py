"""Child processes that belong together: started, listened to and ended in one place.

    with Group(folder) as group:
        members = [group.fork(f"process {i}", socket, message) for i in range(3)]    # or group.spawn(name, command, env)
        failed = group.wait(60.0)                    # the first that failed; None: all have ended, and well

What a member prints goes into files of its own, not through us: it never waits for us to read. A file that grows beyond LOG
is cut; its end is kept. The end of all is certain: by `close`, by the end of this process or of the last reference to
the group, and after a SIGKILL of this process by the fork server of forked members, by the kernel for others (Linux).
An interrupt (Ctrl-C, a notebook's) is held back while members are started or ended, for half a start would leak one.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from across import _system
from across._process import warm

LOG = 16 << 20  # bytes of each of a member's two files, about
KEPT = 1 << 16  # bytes before a cut that are kept
LOOK = 0.05  # seconds between two looks at what members print


class Log:
    """What one process prints to one stream, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._read = 0  # where in the file `new` has come to

    def open(self) -> int:
        """Return a file descriptor that appends to it."""
        return os.open(self.path, os.O_WRONLY | os.O_APPEND)

    def new(self) -> str:
        """Return what came since this was called the last time; a character of several bytes comes whole."""
        with open(self.path, "rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        return self._decoder.decode(data)

    def text(self) -> str:
        """Return all of it or, where the file was cut, the end."""
        return self.path.read_bytes().decode("utf-8", "replace")

    def cut(self) -> None:
        """Cut the file if it is longer than LOG."""
        if self.path.stat().st_size <= LOG:
            return
        with contextlib.suppress(OSError):  # Windows lets nobody cut an open file
            notice = f"\n(all but the end of {LOG >> 20} MiB was dropped here)\n".encode()
            with open(self.path, "r+b") as file:
                first_kept = file.seek(-KEPT, os.SEEK_END)
                kept = file.read()
                file.seek(0)
                file.write(notice + kept)
                file.truncate()  # who writes it goes on at its end
            if self._read < first_kept:
                self._decoder.reset()
                self._read = 0
            else:
                self._read += len(notice) - first_kept


class Member:
    """One process of a group."""

    def __init__(self, name: str, process: warm.Child | _Spawned, stdout: Log, stderr: Log) -> None:
        self.name = name
        self.process = process
        self.stdout = stdout
        self.stderr = stderr
        self.code: int | None = None  # exit code, negative for a signal; None while it runs, as far as was looked

    def how_it_ended(self) -> str:
        """Say it in words: "exit code 3", "signal SIGKILL"; what it wrote last to stderr."""
        if self.code is None:
            return "it runs"
        ending = f"exit code {self.code}" if self.code >= 0 else f"signal {signal.Signals(-self.code).name}"
        last_lines = self.stderr.text().strip().splitlines()[-1:]
        return f"({ending})." + "".join(f" Its last words: {line.strip()}" for line in last_lines)


class Group:
    """Members, started by `fork` and `spawn`. `close` ends all that still run and removes the group's folder."""

    def __init__(self, parent: str | None = None) -> None:
        """Make the group's `folder` below folder `parent`, say a fork server's, which removes it if we are killed."""
        self.members: list[Member] = []
        self.folder = tempfile.mkdtemp(prefix="across-", dir=parent)
        self.close = weakref.finalize(self, _end, self.members, self.folder, os.getpid())
        """End every member, reap it, remove the folder. Again is nothing."""

    def fork(self, name: str, server: str, message: Mapping[str, Any]) -> Member:
        """Have the fork server at socket `server` fork a member. It gets `message`, its stdout and stderr.

        Raises warm.ServerError.
        """
        return self._start(name, lambda *streams: warm.request(server, message, streams))

    def spawn(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> Member:
        """Start a member by a command; a command that is not there is a member that fails.

        On Linux it ends with the thread that calls this, however that ends.
        """
        return self._start(name, lambda *streams: _Spawned(command, env, *streams))

    def _start(self, name: str, start: Callable[[int, int], warm.Child | _Spawned]) -> Member:
        number = len(self.members)
        logs = [Log(Path(self.folder, f"{number}.{stream}")) for stream in ("stdout", "stderr")]
        with uninterrupted(), contextlib.ExitStack() as opened:
            descriptors = [log.open() for log in logs]
            for descriptor in descriptors:
                opened.callback(os.close, descriptor)
            member = Member(name, start(*descriptors), *logs)
            self.members.append(member)
        return member

    def look(self) -> list[Member]:
        """Return the members that have ended since the last look; cut the files of all that have grown too long."""
        ended = []
        for member in self.members:
            if member.code is None:
                member.code = member.process.poll()
                if member.code is not None:
                    ended.append(member)
            member.stdout.cut()
            member.stderr.cut()
        return ended

    def wait(
        self,
        seconds: float,
        failed: Callable[[Member], bool] = lambda ended: ended.code != 0,
        on_look: Callable[[], None] = lambda: None,
    ) -> Member | None:
        """Wait until one has `failed`, and return it, or until all have ended well: None.

        `on_look` is called now and then, and a last time before this returns. Raises TimeoutError, which names who still
        runs, after `seconds`.
        """
        until = time.monotonic() + seconds
        first = None
        with selectors.DefaultSelector() as selector:
            ends: dict[Member, int] = {}
            for member in self.running():
                if (descriptor := member.process.fileno()) is not None:
                    ends[member] = descriptor
                    selector.register(descriptor, selectors.EVENT_READ)
            pause = LOOK if len(ends) == len(self.running()) else LOOK / 5
            while first is None and (running := self.running()):
                remaining = until - time.monotonic()
                if remaining <= 0:
                    on_look()
                    raise TimeoutError(", ".join(member.name for member in running))
                if ends:
                    selector.select(min(pause, remaining))
                else:  # Windows selects nothing for no time
                    time.sleep(min(pause, remaining))
                for member in self.look():
                    if member in ends:
                        selector.unregister(ends.pop(member))
                    if first is None and failed(member):
                        first = member
                on_look()
        return first

    def running(self) -> list[Member]:
        """The members that had not ended at the last look."""
        return [member for member in self.members if member.code is None]

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(members: list[Member], folder: str, owner: int) -> None:
    if os.getpid() != owner:  # in a process that the owner has forked
        return
    with uninterrupted():
        for member in members:
            member.process.kill()  # all at once, and then each is waited for
        for member in members:
            member.process.close()
            if member.code is None:
                member.code = member.process.poll()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold SIGINT back until the block is done, in the main thread; other threads never get it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if handler is None else handler)  # None: not set from Python
        if interrupts:
            signal.raise_signal(signal.SIGINT)


_BIND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""


def _bound() -> list[str]:
    """What to write before a command, so that it ends with the thread that starts it: in 20 ms, Linux only."""
    if not _system.linux():
        return []
    return [sys.executable, "-I", "-S", "-c", _BIND, str(os.getpid())]


class _Spawned:
    """A new program, in a process group of its own: to a group what a `warm.Child` is."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], stdout: int, stderr: int) -> None:
        self.process = subprocess.Popen(
            [*_bound(), *command],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=dict(env),
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.pidfd = os.pidfd_open(self.pid) if warm.available() else None

    def poll(self) -> int | None:
        if self.process.returncode is not None or not hasattr(os, "waitid"):
            return self.process.poll()
        # unreaped, its process group keeps its number, so that `kill` cannot hit another's
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def fileno(self) -> int | None:
        return self.pidfd

    def kill(self) -> None:
        if self.process.returncode is None:
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)  # what it started goes with it
            self.process.kill()

    def close(self) -> None:
        self.kill()
        self.process.wait()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
