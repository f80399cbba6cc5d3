"""A warm fork server: one process imports a module once, then forks a child for every request.

Importing TensorFlow costs seconds, forking a process that has imported it costs milliseconds. The server runs no op
(after one op, forked children hang), answers one request per connection and ends when the process that started it ends.

A request is one JSON message with file descriptors. The answer is ``{"pid": n}``, then whatever the child sends, then
``{"exit": code}``. Closing the connection kills the child's process group. Linux only: see `available`.

    python -m across._process.warm SOCKET MODULE      # MODULE has child(message, fds, connection), called in each forked child;
                                             # and perhaps before(message), called before the fork: it returns an undo
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
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MESSAGE = 1 << 17  # bytes; what does not fit goes through a file descriptor
FDS = 16
PR_SET_PDEATHSIG = 1
FOLDER = "across-"  # how the name of a server's folder begins


class ServerError(RuntimeError):
    """The fork server did not start or does not answer."""


def available() -> bool:
    """Whether this system can fork warm processes (Linux: fork, pidfd and SOCK_SEQPACKET)."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


class Child:
    """A forked child, seen from the process that asked for it."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection = connection
        self.pid = pid
        self.returncode: int | None = None
        self.lost = False  # the server was gone before the child's end: its return code is made up

    def receive(self, timeout: float | None) -> dict[str, Any] | None:
        """Return the child's next message, or None once it has ended (see `returncode`).

        Raises TimeoutError after `timeout` seconds; None waits for ever, 0 does not wait.
        """
        if self.returncode is not None:
            return None
        self.connection.settimeout(timeout)
        try:
            data = self.connection.recv(MESSAGE)
        except BlockingIOError:
            raise TimeoutError from None
        except ConnectionError:
            data = b""
        self.lost = not data
        message = json.loads(data) if data else {"exit": -signal.SIGKILL}
        if "exit" not in message:
            return message
        self.returncode = message["exit"]
        return None

    def wait(self, timeout: float | None) -> int:
        """Return the exit code (negative: the signal), dropping messages. Raises TimeoutError."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            self.receive(None if until is None else max(0.0, until - time.monotonic()))
        return self.returncode

    def alive(self) -> bool:
        """Whether the child has not ended. Messages that wait are dropped."""
        with contextlib.suppress(TimeoutError):
            while self.returncode is None:
                self.receive(0)
        return self.returncode is None

    def close(self, timeout: float = 5.0) -> None:
        """Kill the child's process group if it is alive, wait until it is reaped, and close the connection."""
        if self.returncode is None:
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)  # the server kills the group
            with contextlib.suppress(TimeoutError):
                self.wait(timeout)
        self.connection.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ForkServer:
    """A server process of one module. `start` or the first `request` starts it; `close` or our end ends it."""

    def __init__(
        self, module: str, *, env: Mapping[str, str] | None = None, bare: bool = False, log: Path | None = None
    ) -> None:
        """`env` adds to our environment or, if `bare`, is the server's whole environment; its output goes to `log`."""
        self.module = module
        self.env = {**({} if bare else os.environ), **(env or {})}
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.folder = ""

    @property
    def path(self) -> str:
        """The server's socket."""
        return f"{self.folder}/warm"

    def start(self, deadline: float = 120.0) -> ForkServer:
        """Start the server, wait until it answers, at most `deadline` seconds. Raises ServerError with its output."""
        if self.alive():
            return self
        self.launch()
        return self.ready(deadline)

    def alive(self) -> bool:
        """Whether the server's process runs."""
        return self.process is not None and self.process.poll() is None

    def launch(self) -> ForkServer:
        """Start the server process without waiting for it (see `ready`); what one before it left is removed."""
        self.close()
        self.folder = tempfile.mkdtemp(prefix=FOLDER, dir="/tmp")  # short: a socket's path has 107 bytes
        log = open(self.log or f"{self.folder}/log", "ab")  # noqa: SIM115
        with log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "across._process.warm", self.path, self.module],
                stdin=subprocess.PIPE,  # its end tells the server that we are gone
                stdout=log,
                stderr=log,
                env=self.env,
            )
        return self

    def ready(self, deadline: float = 120.0) -> ForkServer:
        """Wait until a launched server answers, at most `deadline` seconds. Raises ServerError with its output."""
        until = time.monotonic() + deadline
        while not os.path.exists(self.path):
            if self.process is None or self.process.poll() is not None or time.monotonic() > until:
                text = self.printed()
                self.close()
                raise ServerError(f"the fork server of {self.module} did not start:\n{text}")
            time.sleep(0.005)
        return self

    def request(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> Child:
        """Fork a child that gets `message` (JSON) and duplicates of `fds`. Raises ServerError."""
        self.start()
        return request(self.path, message, fds)

    def printed(self) -> str:
        """The end of what the server and its children have printed."""
        try:
            return Path(self.log or f"{self.folder}/log").read_text(errors="replace")[-3000:]
        except OSError:
            return ""

    def close(self) -> None:
        """End the server and every child it has."""
        if self.process is not None:
            assert self.process.stdin is not None
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> ForkServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def request(path: str, message: Mapping[str, Any], fds: Sequence[int] = (), timeout: float = 30.0) -> Child:
    """Ask the server at `path` for a child; see `ForkServer.request`."""
    data = json.dumps(message).encode()
    if len(data) >= MESSAGE:
        raise ValueError(f"a request of {len(data)} bytes; send more than {MESSAGE} through a file descriptor")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
        socket.send_fds(connection, [data], list(fds))
        answer = json.loads(connection.recv(MESSAGE) or b"{}")
        return Child(connection, answer["pid"])
    except (OSError, KeyError) as error:
        connection.close()
        raise ServerError(f"the fork server at {path} does not answer: {error!r}") from error


class _Server:
    def __init__(self, path: str, module: Any) -> None:
        self.child = module.child
        self.before = getattr(module, "before", lambda _message: lambda: None)
        self.folder = os.path.dirname(path)
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path + ".new")
        os.chmod(path + ".new", 0o600)
        self.listener.listen(64)
        self.selector.register(self.listener, selectors.EVENT_READ, (self.accept, None))
        self.selector.register(0, selectors.EVENT_READ, (self.owner_gone, None))
        self.running: dict[int, socket.socket] = {}
        os.rename(path + ".new", path)  # whoever sees the path can connect

    def loop(self) -> None:
        while True:
            for key, _ in self.selector.select():
                # what an earlier event of this batch closed is not ours any more: its number may be another's by now
                if self.selector.get_map().get(key.fd) is key:
                    action, data = key.data
                    action(key.fileobj, data)

    def accept(self, listener: socket.socket, _: None) -> None:
        connection, _address = listener.accept()
        self.selector.register(connection, selectors.EVENT_READ, (self.fork, None))

    def fork(self, connection: socket.socket, _: None) -> None:
        self.selector.unregister(connection)
        try:
            message, fds = self.read(connection)
        except (OSError, ValueError):
            connection.close()
            return
        pid, undo = -1, None
        try:
            undo = self.before(message)
            pid = os.fork()
        except OSError:  # no process left for us, or the child's place is gone: only this request is lost
            pass
        if pid == 0:
            self.become_child(message, fds, connection)
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

    def read(self, connection: socket.socket) -> tuple[Any, list[int]]:
        data, ancillary, _flags, _address = connection.recvmsg(MESSAGE, socket.CMSG_LEN(4 * FDS))
        fds = array.array("i")
        for _level, _kind, payload in ancillary:
            fds.frombytes(payload[: len(payload) - len(payload) % 4])
        return json.loads(data), list(fds)

    def become_child(self, message: Any, fds: list[int], connection: socket.socket) -> None:
        code = 1
        try:
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
        self.selector.unregister(connection)
        _kill(pid)

    def ended(self, pidfd: int, pid: int) -> None:
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

    def owner_gone(self, _fd: int, _: None) -> None:
        if os.read(0, 1):
            return
        for pid in self.running:
            _kill(pid)
        if os.path.basename(self.folder).startswith(FOLDER):  # one that a ForkServer made, and can no longer remove
            shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)


def _kill(pid: int) -> None:
    """Kill a child that is not reaped yet, and its group. It may not have come as far as making the group."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def die_with_parent() -> None:
    """Have the kernel kill this process as soon as its parent has ended, however that ended. Linux only."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def serve(path: str, module: str) -> None:
    """Import `module` and serve for ever at `path`. Raises ServerError if TensorFlow has run an op by then."""
    loaded = importlib.import_module(module)
    context = sys.modules.get("tensorflow.python.eager.context")
    if context is not None and context.context()._initialized:
        raise ServerError(f"{module} runs an op when it is imported: a forked child would hang")
    server = _Server(path, loaded)
    gc.collect()
    gc.freeze()  # the children share these pages
    server.loop()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of a terminal's processes: our owner decides
    serve(sys.argv[1], sys.argv[2])
