"""A kernel in a box, seen from the process that drives it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import time
from collections.abc import Mapping
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from zmq.utils.monitor import recv_monitor_message

from across._process import warm
from autograder.model.course import Limits
from autograder.sandbox import boxes

MESSAGE = 64 << 20  # bytes of one frame on a kernel's channels; for more, ours cuts the channel without a word
WELCOME = 0.25  # seconds to the first word, then twice as many: one in hundreds of kernels missed our subscription


class StartError(RuntimeError):
    """The kernel did not come up: nobody's answer is to blame."""


class Client(AsyncKernelClient):
    """A client whose kernel we know to be alive or not."""

    kernel: Kernel

    async def is_alive(self) -> bool:
        """Whether the kernel's process runs."""
        return self.kernel.alive()

    _async_is_alive = is_alive


class _Watched:
    """What libzmq tells of a channel. Cut by us it stays cut; closed by the kernel, libzmq tries at once to connect anew."""

    def __init__(self, channel: zmq.asyncio.Socket, context: zmq.asyncio.Context) -> None:
        self._channel = zmq.Socket.shadow(channel.underlying)
        place = f"inproc://watched-{secrets.token_hex(8)}"
        self._channel.monitor(place, zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED)
        self._told = zmq.Context.shadow(context.underlying).socket(zmq.PAIR)
        self._told.connect(place)
        self._last = self._seen = 0

    def cut(self) -> bool:
        """Whether the channel was cut already when this was asked the last time."""
        self._seen = self._last
        while self._told.poll(0):
            self._last = recv_monitor_message(self._told)["event"]
        return self._seen == self._last == zmq.EVENT_DISCONNECTED

    def close(self) -> None:
        """Stop watching."""
        self._channel.monitor(None, 0)  # type: ignore[arg-type]
        self._told.close(0)


class Kernel:
    """Forked, in its box, asked over a socketpair. `ready` waits for it; `close` leaves nothing behind."""

    def __init__(
        self, server: str, name: str, limits: Limits, walls: bool = True, cards: Mapping[str, Any] | None = None
    ) -> None:
        """Ask the warm server at `server` for a kernel in box `name`. Raises SandboxError, warm.ServerError.

        `cards`: of a lease, the "environment" for the kernel and the "nodes" for its box.
        """
        cards = cards or {}
        self.limits = limits
        self.client: Client | None = None
        self.child: warm.Child | None = None
        self._watched: list[_Watched] = []
        self.questions, theirs = socket.socketpair()
        self.box = boxes.Box(name, boxes.caps(limits), walls, cards.get("nodes", ()))
        try:
            self.connection = self._write_connection()
            log = os.open(self.box.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            request = {**self.box.request(), "cards": cards.get("environment", {})}
            self.child = warm.request(server, request, [log, theirs.fileno()])
            os.close(log)
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()

    def _write_connection(self) -> dict[str, object]:
        ports = {f"{name}_port": n for n, name in enumerate(("shell", "iopub", "stdin", "control", "hb"), 1)}
        shared = {"transport": "ipc", "key": secrets.token_hex(16), "signature_scheme": "hmac-sha256", **ports}
        file = self.box.folder / "connection.json"
        file.write_text(json.dumps({**shared, "ip": f"{self.box.inside}/k", "kernel_name": ""}))
        if boxes.root() and self.box.walls:
            os.chown(file, self.box.user, self.box.user)
        return {**shared, "ip": f"{self.box.folder}/k", "kernel_name": ""}

    def alive(self) -> bool:
        """Whether the kernel's process runs."""
        return self.child is not None and self.child.alive()

    def ready(self, context: zmq.asyncio.Context, deadline: float = 30.0) -> Client:
        """Wait until the kernel listens and our client hears it. Raises StartError."""
        self.questions.settimeout(deadline)
        try:
            said = self.questions.recv(1)
        except OSError:
            said = b""
        if said != b"R":
            with contextlib.suppress(OSError):
                raise StartError(f"the kernel did not start: {(self.box.folder / 'log').read_text()[-1000:]}")
            raise StartError("the kernel did not start")
        until = time.monotonic() + deadline
        patience = WELCOME
        while not self._listening(context, min(until, time.monotonic() + patience)):
            self.mute()
            patience *= 2
            if time.monotonic() > until or not self.alive():
                raise StartError("the kernel does not publish")
        assert self.client is not None
        return self.client

    def _listening(self, context: zmq.asyncio.Context, until: float) -> bool:
        """Connect a client; whether the kernel's first word came before `until`."""
        client = self.client = Client(context=context)
        client.kernel = self
        client.load_connection_info(self.connection)  # type: ignore[arg-type]
        client.start_channels(shell=True, iopub=True, stdin=False, hb=False, control=False)
        client.allow_stdin = False
        self._watched = [_Watched(channel.socket, context) for channel in (client.shell_channel, client.iopub_channel)]  # type: ignore[union-attr]
        # awaited, this first message was sometimes lost until the timeout: the edge of an edge-triggered descriptor
        iopub = zmq.Socket.shadow(client.iopub_channel.socket.underlying)  # type: ignore[union-attr]
        while iopub.poll(max(0, int(1000 * (until - time.monotonic())))):
            if b"iopub_welcome" in b"".join(iopub.recv_multipart()):
                return True
        return False

    def cut(self) -> bool:
        """Whether a channel is cut because a message on it was over MESSAGE bytes. Ask twice, with a moment between."""
        return any([watched.cut() for watched in self._watched])

    def mute(self) -> None:
        """Stop listening: what the kernel publishes from now on goes nowhere."""
        while self._watched:
            self._watched.pop().close()
        if self.client is not None:
            self.client.stop_channels()
            self.client = None

    def out_of_memory(self) -> bool:
        """Whether something in the box was killed because its memory was used up."""
        return self.box.out_of_memory()

    def outside(self) -> str:
        """What, outside of the student's reach, ended the kernel; empty if it may have been the student."""
        if self.child is not None and self.child.lost:
            return "the warm server of the students' kernels ended"
        return "the box was ended from outside" if self.box.broken() else ""

    def killed(self) -> bool:
        """Whether SIGKILL ended the kernel, and not for its memory: its own doing, or that of somebody outside."""
        if self.child is None or self.out_of_memory():
            return False
        with contextlib.suppress(TimeoutError):
            return self.child.wait(1.0) in (-signal.SIGKILL, 128 + signal.SIGKILL)  # the latter: as the box tells it
        return False

    def close(self) -> None:
        """End the kernel and all it started; remove its box."""
        self.mute()
        self.questions.close()
        self.box.close()  # first: killed together with its group, the kernel would be nobody's zombie and hold the box
        if self.child is not None:
            self.child.close()
