"""What is said with a student's kernel over its channels, by whoever executes a notebook: see `kernel_process`.

The kernel's sockets are files in its box, which the student may replace by links to other sockets. So each is looked up
once, is refused if it is no socket, and is held by a descriptor: whenever libzmq connects, it is to that very socket.
"""

from __future__ import annotations

import os
import secrets
import select
import stat
import time
from collections.abc import Callable, Mapping

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from zmq.utils.monitor import recv_monitor_message

MESSAGE = 64 << 20  # bytes of one frame on a kernel's channels; for more, ours cuts the channel without a word
WELCOME = 0.25  # seconds to the first word, then twice as many: one in hundreds of kernels missed our subscription
LISTENED = ("shell", "iopub")  # the channels that are connected to


class SilentError(RuntimeError):
    """The kernel cannot be heard: nobody's answer is to blame."""


class Client(AsyncKernelClient):
    """A client of sockets that are held, whose kernel we know to be alive or not."""

    addresses: Mapping[str, str]
    kernel_alive: Callable[[], bool]

    def _make_url(self, channel: str) -> str:
        return self.addresses[channel]

    async def is_alive(self) -> bool:
        """Whether the kernel's process runs."""
        return self.kernel_alive()

    _async_is_alive = is_alive

    def stop_channels(self) -> None:
        """Stop the channels that were started; jupyter_client's own would connect the others for that."""
        for channel in (self.shell_channel, self.iopub_channel):
            channel.stop()


class _Watched:
    """What libzmq tells of a channel. Cut by us it stays cut; closed by the kernel, libzmq tries at once to connect anew."""

    def __init__(self, channel: zmq.asyncio.Socket, context: zmq.asyncio.Context) -> None:
        self._channel = zmq.Socket.shadow(channel.underlying)
        place = f"inproc://watched-{secrets.token_hex(8)}"
        self._channel.monitor(place, zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED)
        self._events = zmq.Context.shadow(context.underlying).socket(zmq.PAIR)
        self._events.connect(place)
        self._last = self._seen = 0

    def cut(self) -> bool:
        """Whether the channel was cut already when this was asked the last time."""
        self._seen = self._last
        while self._events.poll(0):
            self._last = recv_monitor_message(self._events)["event"]
        return self._seen == self._last == zmq.EVENT_DISCONNECTED

    def close(self) -> None:
        """Stop watching."""
        self._channel.monitor(None, 0)  # type: ignore[arg-type]
        self._events.close(0)


class KernelClient:
    """A kernel's channels, which `ready` connects: until its driver's process ends."""

    def __init__(self, connection: Mapping[str, str | int], sockets: int, alive: Callable[[], bool]) -> None:
        """Speak with the kernel of `connection`, whose sockets lie in the folder of the descriptor `sockets`.

        The descriptor stays the caller's, until `ready` has returned. `alive` says whether the kernel's process runs.
        """
        self.alive = alive
        self.client: Client | None = None
        self._connection, self._folder = connection, sockets
        self._held: dict[str, int] = {}  # channel -> descriptor of its socket
        self._watched: list[_Watched] = []

    def ready(self, context: zmq.asyncio.Context, deadline: float = 30.0) -> Client:
        """Connect, until the kernel is heard, at most `deadline` seconds. Raises SilentError."""
        until = time.monotonic() + deadline
        patience = WELCOME
        self._hold()
        while not self._listening(context, min(until, time.monotonic() + patience)):
            self._hush()
            patience *= 2
            if time.monotonic() > until or not self.alive():
                raise SilentError("the kernel does not publish")
        assert self.client is not None
        return self.client

    def _hold(self) -> None:
        for channel in LISTENED:
            name = f"k-{self._connection[f'{channel}_port']}"
            try:
                self._held[channel] = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self._folder)
            except OSError as error:
                raise SilentError(f"the kernel's channel {channel} is not there: {error}") from error
            if not stat.S_ISSOCK(os.fstat(self._held[channel]).st_mode):
                raise SilentError(f"the kernel's channel {channel} is no socket")

    def _listening(self, context: zmq.asyncio.Context, until: float) -> bool:
        """Connect a client; whether the kernel's first word came before `until`."""
        client = self.client = Client(context=context)
        client.kernel_alive = self.alive
        client.addresses = {channel: f"ipc:///proc/self/fd/{held}" for channel, held in self._held.items()}
        client.load_connection_info(self._connection)  # type: ignore[arg-type]
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

    def _hush(self) -> None:
        while self._watched:
            self._watched.pop().close()
        if self.client is not None:
            self.client.stop_channels()
            self.client = None


def liveness(pidfd: int) -> Callable[[], bool]:
    """What says whether the process of a pidfd runs: for a client that did not start the kernel, in a box of its own."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return lambda: not poll.poll(0)
