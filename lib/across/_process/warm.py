"""A warm fork server: one process imports a module once, then forks a child for every request.

Importing TensorFlow costs seconds, forking a process that has imported it costs milliseconds. The server runs no op
(after one op, forked children hang), answers one request per connection and ends when the process that started it ends.

A request is one JSON message with file descriptors. The answer is ``{"pid": n}``, then whatever the child sends, then
``{"exit": code}``. Closing the connection kills the child's process group. Linux only: see `available`. This is the side
of those who ask; `forking` is the server's.

    python -m across._process.warm SOCKET MODULE OWNER [ARGUMENT ...]      # see `forking.serve`
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from across import _system
from across._process import forking
from across._process.forking import MESSAGE, ServerError, die_with_parent

__all__ = ["MESSAGE", "Child", "ForkServer", "ServerError", "answers", "available", "die_with_parent", "request"]


def available() -> bool:
    """Whether this system can fork warm processes (Linux: fork, pidfd and SOCK_SEQPACKET)."""
    return _system.forks()


class Child:
    """A forked child, seen from the process that asked for it, which may look after it as after a Popen."""

    stdin = stdout = stderr = None

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
        message = forking.values(data) if data else {"exit": -signal.SIGKILL}
        if "exit" not in message:
            return message
        self.returncode = message["exit"]
        return None

    def wait(self, timeout: float | None = None) -> int:
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

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the child runs. Messages that wait are dropped."""
        self.alive()
        return self.returncode

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the child sends or ends."""
        return self.connection.fileno()

    def send_signal(self, number: int) -> None:
        """Signal the child if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the child's process group if it is alive, without waiting."""
        if self.returncode is None:
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)  # the server does it

    def close(self, timeout: float = 5.0) -> None:
        """Kill the child's process group if it is alive, wait until it is reaped, and close the connection."""
        if self.returncode is None:
            self.kill()
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
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        bare: bool = False,
    ) -> None:
        """`env` adds to our environment. A `bare` server has `env` alone, works in / and imports nothing from our working
        folder, which may be one that somebody else has filled.

        `arguments` are the module's, see `forking.serve`; its children can read them in /proc.
        """
        self.module = module
        self.arguments = arguments
        self.env = {**({} if bare else os.environ), **(env or {})}
        self.bare = bare
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
        """Start the server process without waiting for it (see `ready`); what one before it left is removed. Raises OSError."""
        self.close()
        self.folder = forking.new_folder()
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, *(["-P"] if self.bare else []), "-m", "across._process.warm"),
                    *(self.path, self.module, str(os.getpid()), *self.arguments),
                ],
                stdin=subprocess.PIPE,  # closed, it ends the server
                stdout=log,
                stderr=log,
                env=self.env,
                cwd="/" if self.bare else None,
            )
        return self

    def ready(self, deadline: float = 120.0) -> ForkServer:
        """Wait until a launched server answers, at most `deadline` seconds. Raises ServerError with its output."""
        until = time.monotonic() + deadline
        while not os.path.exists(self.path):
            late = time.monotonic() > until
            if late or self.process is None or self.process.poll() is not None:
                text, how = self.printed(), f" within {deadline:g} s; is the machine busy?" if late else ":"
                self.close()
                raise ServerError(f"the fork server of {self.module} did not start{how}\n{text}")
            time.sleep(0.005)
        return self

    def request(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> Child:
        """Fork a child that gets `message` (JSON) and duplicates of `fds`. Raises ServerError."""
        self.start()
        return request(self.path, message, fds)

    def printed(self) -> str:
        """The end of what the server and its children have printed."""
        try:
            return Path(self.folder, "log").read_text(errors="replace")[-3000:]
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


def answers(path: str) -> bool:
    """Whether the fork server at `path` answers: one that was just killed can be connected to for a moment."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(10.0)
        try:
            connection.connect(path)
            connection.send(b"no request")
            return connection.recv(1) == b""  # it hangs up on that
        except OSError:
            return False


def request(path: str, message: Mapping[str, Any], fds: Sequence[int] = ()) -> Child:
    """Ask the server at `path` for a child; see `ForkServer.request`."""
    data = json.dumps(message).encode()
    if len(data) >= MESSAGE:
        raise ValueError(f"a request of {len(data)} bytes; send more than {MESSAGE} through a file descriptor")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(30.0)
        connection.connect(path)
        socket.send_fds(connection, [data], list(fds))
        answer = forking.values(connection.recv(MESSAGE) or b"{}")
        return Child(connection, answer["pid"])
    except (OSError, ValueError, KeyError) as error:
        connection.close()
        raise ServerError(f"the fork server at {path} does not answer: {error!r}") from error


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of a terminal's processes: our owner decides
    forking.serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
