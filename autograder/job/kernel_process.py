"""A student's kernel and its box: the half of whoever starts it, ends it, and says why it ended.

The other half, `kernel_client`, speaks with the kernel. It may be another process, that may neither see the box nor end it:
it needs `KernelProcess.connection`, the descriptor `KernelProcess.sockets` and something that says whether the kernel lives.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from across._process import warm
from autograder.gpu import simulated
from autograder.job.peers import KILLED, Peers, crashed, packed, printed
from autograder.model.course import Limits
from autograder.sandbox import boxes

SOCKETS = "run"  # the folder of the kernel's sockets in the box's work folder
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")


class StartError(RuntimeError):
    """The kernel did not come up: nobody's answer is to blame."""


class KernelProcess:
    """Forked, in its box, asked over a socketpair. `ready` waits for it; `close` leaves nothing behind."""

    def __init__(
        self,
        server: str,
        name: str,
        limits: Limits,
        walls: bool = True,
        cards: Mapping[str, Any] | None = None,
        hidden: Sequence[str] = (),
        files: Sequence[tuple[str, bytes]] = (),
        gpus: int = 0,
    ) -> None:
        """Ask the warm server at `server` for a kernel in box `name`. Raises SandboxError, warm.ServerError.

        `cards`: of a lease, the "environment" for the kernel and the "nodes" for its box; `hidden`: see `Box`; `files` will lie
        in its working folder, by their relative paths. What is made beside it has so many simulated `gpus`.
        """
        cards = cards or {}
        self.child: warm.Child | None = None
        self.sockets = -1  # descriptor of the folder of its sockets, once it is ready
        self.connection: dict[str, str | int] = {f"{name}_port": n for n, name in enumerate(CHANNELS, 1)}
        self.connection |= {"transport": "ipc", "key": secrets.token_hex(16), "signature_scheme": "hmac-sha256"}
        self._log = os.memfd_create("log")
        self.questions, theirs = socket.socketpair()
        of = (limits, simulated.environment(gpus), hidden, files)
        self.box = boxes.Box(name, boxes.caps(limits), walls, cards.get("nodes", ()), hidden)
        self.beside = Peers(server, f"{name}p", self.box, *of)
        try:
            request = {**self.box.request(), "cards": cards.get("environment", {})}
            request |= {"connection": self.connection, "sockets": SOCKETS}
            with packed(files) as more:
                self.child = warm.request(server, request, [self._log, theirs.fileno(), *more])
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()

    def ready(self, deadline: float = 30.0) -> None:
        """Wait until the kernel listens, at most `deadline` seconds. Raises StartError with what it printed."""
        self.questions.settimeout(deadline)
        try:
            word = self.questions.recv(1)
        except OSError:
            word = b""
        if word != b"R":
            raise StartError(f"the kernel did not start: {self.printed()}")
        try:
            self.sockets = self.box.open_inside(SOCKETS)
        except OSError as error:
            raise StartError(f"the kernel has no sockets: {error}") from error

    def printed(self) -> str:
        """The end of what the kernel's process wrote to its own standard output and error, past its channels."""
        return printed(self._log)

    def open_pid(self) -> int:
        """A pidfd by which another process can tell whether the kernel lives: see `kernel_client.liveness`.

        Raises StartError where it has ended.
        """
        with contextlib.suppress(ProcessLookupError):
            if self.child is not None:
                descriptor = os.pidfd_open(self.child.pid)
                if self.alive():  # asked after it was opened: now it is no other's
                    return descriptor
                os.close(descriptor)
        raise StartError(f"the kernel has ended: {self.printed()}")

    def alive(self) -> bool:
        """Whether the kernel's process runs."""
        return self.child is not None and self.child.alive()

    def out_of_memory(self) -> bool:
        """Whether something in the box, or in that of a life, was killed because the box's memory was used up."""
        return self.box.out_of_memory() or self.beside.out_of_memory()

    def outside(self) -> str:
        """What, outside of the student's reach, ended the kernel; empty if it may have been the student."""
        if self.child is not None and self.child.lost:
            return "the warm server of the students' kernels ended"
        return "the box was ended from outside" if self.box.broken() else ""

    def killed(self) -> bool:
        """Whether SIGKILL ended the kernel, or a process beside it, and not for its memory.

        That may be its own doing, or that of somebody outside.
        """
        if self.beside.killed():
            return True
        if self.child is None or self.box.out_of_memory():
            return False
        with contextlib.suppress(TimeoutError):
            return self.child.wait(1.0) in KILLED
        return False

    def crashed(self) -> bool:
        """Whether a fault in machine code ended the kernel, or a process beside it: the student's, or of what they use."""
        return (self.child is not None and crashed(self.child)) or self.beside.crashed()

    def close(self) -> None:
        """End the kernel, its peers and all it started; remove its box."""
        self.beside.close()
        self.questions.close()
        for descriptor in {self.sockets, self._log} - {-1}:
            os.close(descriptor)
        self.sockets = self._log = -1
        self.box.close()  # first: killed together with its group, the kernel would be nobody's zombie and hold the box
        if self.child is not None:
            self.child.close()
