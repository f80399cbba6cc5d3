"""The server's side of `warm`: it imports a module once and forks a child for every request.

A module that is served has ``child(message, fds, connection)``, called in each forked child, and perhaps
``before(message)``, called before the fork: it returns what undoes it. Nothing may run an op before the fork. It may
also have ``prepare(*arguments)``, called once it is imported: what to import further, for one.

The server ends, and its children with it, when its owner closes its standard input or is gone. Both are needed: a process
that the owner forked without exec holds that input open; a pid tells nothing to an owner that lives on. Children end with
their server however it ended. Linux only.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

MESSAGE = 1 << 17  # bytes; what does not fit goes through a file descriptor
FDS = 16
PR_SET_PDEATHSIG = 1
FOLDER = "across-"  # how the name of a server's folder begins
LONGEST = 80  # bytes of the path in which it is made: a socket's may have 107
_serves = False


def new_folder() -> str:
    """A new folder for a server's socket: where temporary files are (TMPDIR), in /tmp if that path is long. Raises OSError."""
    place = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix=FOLDER, dir=place if len(os.fsencode(place)) <= LONGEST else "/tmp")


def serves() -> bool:
    """Whether this process is a fork server, whose children begin with what it did."""
    return _serves


class ServerError(RuntimeError):
    """The fork server did not start or does not answer."""


def values(data: bytes) -> dict[str, Any]:
    """What was sent: a JSON object. Raises ValueError for anything else, also for what is nested deeper than our stack."""
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("a message that is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("a message that is no object")
    return found


class Server:
    """The loop of a fork server. Whoever sees `path` can connect, also before `loop` runs."""

    def __init__(self, path: str, module: Any) -> None:
        """Listen at `path` for requests for children of `module`. Raises OSError."""
        self.child = module.child
        self.before = getattr(module, "before", lambda _message: lambda: None)
        self.folder = os.path.dirname(path)
        self.running: dict[int, socket.socket] = {}
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path + ".new")
        os.chmod(path + ".new", 0o600)
        self.listener.listen(64)
        os.rename(path + ".new", path)

    def loop(self, owner: int, stdin: bool = True) -> NoReturn:
        """Serve until process `owner`, our parent, has ended or, with `stdin`, closed our standard input."""
        self.pid = os.getpid()
        self.selector = selectors.DefaultSelector()
        try:
            owner_ended = os.pidfd_open(owner)
        except ProcessLookupError:
            self.end()
        if os.getppid() != owner:  # the number may be another process's by now
            self.end()
        self.selector.register(self.listener, selectors.EVENT_READ, (self.accept, None))
        self.selector.register(owner_ended, selectors.EVENT_READ, (lambda *_: self.end(), None))
        if stdin:
            self.selector.register(0, selectors.EVENT_READ, (self.stdin_closed, None))
        while True:
            for key, _ in self.selector.select():
                # what an earlier event of this batch closed is not ours any more: its number may be another's by now
                if self.selector.get_map().get(key.fd) is key:
                    action, data = key.data
                    action(key.fileobj, data)

    def accept(self, listener: socket.socket, _: None) -> None:
        """Await the request of who has connected."""
        with contextlib.suppress(OSError):  # gone again
            connection, _address = listener.accept()
            self.selector.register(connection, selectors.EVENT_READ, (self.fork, None))

    def fork(self, connection: socket.socket, _: None) -> None:
        """Fork the child that is asked for over `connection`."""
        self.selector.unregister(connection)
        fds: list[int] = []
        pid, undo = -1, None
        try:
            message = self.read(connection, fds)
            undo = self.before(message)
            pid = os.fork()
            if pid == 0:
                self.become_child(message, fds, connection)
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
        ):  # no request, no process left for us, the child's place gone
            pass
        if undo is not None:
            undo()
        for fd in fds:
            os.close(fd)
        if pid < 0:
            connection.close()
            return
        pidfd = os.pidfd_open(pid)
        self.running[pid] = connection
        self.selector.register(pidfd, selectors.EVENT_READ, (self.ended, pid))
        self.selector.register(connection, selectors.EVENT_READ, (self.client_gone, pid))

    def read(self, connection: socket.socket, fds: list[int]) -> Any:
        """Return the request, adding the file descriptors that came with it to `fds`. Raises OSError, ValueError."""
        data, ancillary, _flags, _address = connection.recvmsg(MESSAGE, socket.CMSG_LEN(4 * FDS))
        received = array.array("i")
        for _level, _kind, payload in ancillary:
            received.frombytes(payload[: len(payload) - len(payload) % 4])
        fds += received
        return values(data)

    def become_child(self, message: Any, fds: list[int], connection: socket.socket) -> NoReturn:
        """Be the child, in the process that was just forked."""
        global _serves
        _serves, code = False, 1
        try:
            die_with_parent()
            if os.getppid() not in (self.pid, 0):  # it died before that; 0: it is in another namespace
                os._exit(1)
            for key in list(self.selector.get_map().values()):  # the sockets and pidfds of every other job
                if key.fd != 0:
                    os.close(key.fd)
            self.selector.close()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.setsid()
            number = int(os.readlink("/proc/self"))  # our own may be another namespace's
            connection.send(json.dumps({"pid": number}).encode())  # from here: nothing it says can overtake this
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            _reseed()
            result = self.child(message, fds, connection)
            code = result if isinstance(result, int) else 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            with contextlib.suppress(Exception):
                traceback.print_exc(file=sys.__stderr__)
        finally:
            for stream in (sys.__stdout__, sys.__stderr__):
                with contextlib.suppress(Exception):
                    stream.flush()  # pyright: ignore[reportOptionalMemberAccess]
            os._exit(code)

    def client_gone(self, connection: socket.socket, pid: int) -> None:
        """End the child of a client that has closed its connection."""
        self.selector.unregister(connection)
        _kill(pid)

    def ended(self, pidfd: int, pid: int) -> None:
        """Reap a child and tell its client how it ended."""
        self.selector.unregister(pidfd)
        os.close(pidfd)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # what it left behind in its group, while its number is still its own
        _, status = os.waitpid(pid, 0)
        connection = self.running.pop(pid)
        with contextlib.suppress(KeyError):
            self.selector.unregister(connection)
        with contextlib.suppress(OSError):
            connection.send(json.dumps({"exit": os.waitstatus_to_exitcode(status)}).encode())
        connection.close()

    def stdin_closed(self, _fd: int, _: None) -> None:
        """End when the standard input has; what is written to it means nothing."""
        if not os.read(0, 1):
            self.end()

    def end(self) -> NoReturn:
        """End every child and this process; remove the folder that its owner can no longer remove."""
        for pid in self.running:
            _kill(pid)
        if os.path.basename(self.folder).startswith(FOLDER):
            shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)


def _reseed() -> None:
    """Let what is drawn without a seed differ from child to child: NumPy's global state would be the server's.

    Python's own is seeded anew at every fork, TensorFlow's when it is first drawn from.
    """
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()


def _kill(pid: int) -> None:
    """Kill a child that is not reaped yet, and its group. It may not have come as far as making the group."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def die_with_parent() -> None:
    """Have the kernel kill this process as soon as its parent has ended, however that ended. Linux only.

    Its parent is the *thread* that forked it.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def serve(path: str, module: str, owner: int, arguments: Sequence[str] = ()) -> NoReturn:
    """Import `module` and serve at `path` until process `owner`, our parent, ends or closes our standard input.

    `arguments` are for its `prepare`, if it has one. Raises ServerError if TensorFlow has run an op by then.
    """
    global _serves
    _serves = True
    gc.disable()  # what is imported stays: to look through it for garbage takes a quarter of TensorFlow's import
    loaded = importlib.import_module(module)
    if hasattr(loaded, "prepare"):
        loaded.prepare(*arguments)
    context = sys.modules.get("tensorflow.python.eager.context")
    if context is not None and context.context()._initialized:
        raise ServerError(f"{module} runs an op when it is imported: a forked child would hang")
    server = Server(path, loaded)
    gc.freeze()  # the children share these pages
    gc.enable()
    server.loop(owner)
