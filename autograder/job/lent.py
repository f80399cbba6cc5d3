"""Warm servers that a keeper has launched and lends to the command that it forked: asked for, used, never ended by it.

The command decides by itself, each time, whether what it was lent is made of what is on the disk now, and runs: a process is
known by a descriptor of its own (pidfd_open(2)), which no number given again can confuse. Where it is not, it asks anew, and
the keeper launches what does not run. What the command has asked these servers for ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from across._process import warm
from autograder.job import forkserver, messages
from autograder.job.forkserver import InfrastructureError, Servers
from autograder.model.course import Course

MESSAGE = 1 << 18  # bytes of what keeper and command say to each other
ANSWER = 60.0  # seconds for a keeper to launch servers


class Keeper:
    """The keeper, as the command knows it that it forked: a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.lock = threading.Lock()
        connection.settimeout(ANSWER)

    def lend(self, which: list[str]) -> tuple[dict[str, Any], list[int]]:
        """The servers `which` (course, chapter, made of what), launched if need be, and a descriptor of each process.

        Raises warm.ServerError.
        """
        with self.lock:
            try:
                self.connection.send(json.dumps({"lend": which}).encode())
                data, descriptors, _flags, _address = socket.recv_fds(self.connection, MESSAGE, 8)
                answer = json.loads(data or b'{"error": "it has ended"}')
            except (OSError, ValueError) as error:
                raise warm.ServerError(f"the process that keeps things warm does not answer: {error!r}") from None
        if "error" in answer:
            raise warm.ServerError(f"the process that keeps things warm could start no servers: {answer['error']}")
        return answer, descriptors

    def note(self, which: list[str], **what: Any) -> None:
        """Have it remember something of the servers `which`."""
        with self.lock, contextlib.suppress(OSError):
            self.connection.send(json.dumps({"note": which, **what}).encode())


class LentServer(warm.ForkServer):
    """A fork server that somebody else has started."""

    def __init__(self) -> None:
        super().__init__("")
        self._process = (0, -1)  # number, descriptor

    @property
    def pid(self) -> int:
        """The server's process; 0 where there is none."""
        return self._process[0]

    def take(self, folder: str, pid: int, descriptor: int) -> None:
        """Be the server whose socket lies in `folder`."""
        if (folder, pid) == (self.folder, self.pid):
            os.close(descriptor)
            return
        self.close()
        self.folder, self._process = folder, (pid, descriptor)
        warm.leave(self.path, left=False)

    def alive(self) -> bool:
        """Whether the server's process runs."""
        descriptor = self._process[1]
        if descriptor < 0:
            return False
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return not poll.poll(0)

    def start(self, deadline: float = 120.0) -> LentServer:
        """See that it answers: it is not ours to start. Raises ServerError."""
        return self.ready(deadline)

    def launch(self) -> LentServer:
        """Refused: whoever lends it launches it."""
        raise warm.ServerError("a server that was lent is launched by who lends it")

    def ready(self, deadline: float = 120.0) -> LentServer:
        """Wait until it answers, at most `deadline` seconds. Raises ServerError with its output."""
        until = time.monotonic() + deadline
        while not os.path.exists(self.path) or not self.alive():
            if not self.alive() or time.monotonic() > until:
                raise warm.ServerError(f"a fork server that is kept warm does not run:\n{self.printed()}")
            time.sleep(0.005)
        return self

    def close(self) -> None:
        """Have done with it: what we asked it for is killed."""
        _, descriptor = self._process
        if descriptor < 0:
            return
        warm.leave(self.path)
        self._process = (0, -1)
        os.close(descriptor)


@dataclass
class LentServers(Servers):
    """The servers that grade one chapter, kept by another process."""

    keeper: Keeper = field(kw_only=True)
    says: Any = field(kw_only=True, default=lambda _text: None)  # called with a line where something was started anew

    @property
    def which(self) -> list[str]:
        """What they are to be, as the keeper knows it."""
        return [self.course.dumps(), self.chapter, self.made_of]

    def launch(self) -> None:
        """See that all run and are made of what is on the disk now: else the keeper launches them. Raises warm.ServerError."""
        now = forkserver.made_of(self.course, self.chapter)
        if now == self.made_of and all(server.alive() for server in self.every):
            return
        if now != self.made_of:
            self.close()
        self.made_of = now
        answer, descriptors = self.keeper.lend(self.which)
        for server, (folder, pid), descriptor in zip(self.every, answer["servers"], descriptors, strict=True):
            assert isinstance(server, LentServer)
            server.take(folder, pid, descriptor)
        self.plan = messages.received(answer["plan"], messages.Plan) if answer["plan"] else None
        self.passed = set(answer["passed"])
        if answer["why"]:
            self.says(answer["why"])

    def ready(self) -> None:
        """Wait until all stand, and see that they are made of what they say. Raises warm.ServerError."""
        try:
            for server in self.every:
                server.ready()
        except warm.ServerError:  # killed while it imported, for one; what cannot start says so again
            self.launch()
            for server in self.every:
                server.ready()
        if self.plan is not None:
            return
        plan = forkserver.plan_of(self.checker)
        if forkserver.made_of(self.course, self.chapter) != self.made_of:
            self.close()
            raise InfrastructureError(f"{self.chapter} was changed while its servers were started; run this again")
        self.plan = plan
        self._note(plan=messages.sent(plan))

    def note_passed(self, reference: str) -> None:
        """Remember that a reference's job, by its digest, got every point on these servers; the keeper does, too."""
        super().note_passed(reference)
        self._note(passed=[reference])

    def _note(self, **what: Any) -> None:
        self.keeper.note(self.which, by=[server.pid for server in self.every], **what)


def made(course: Course, chapter: str, keeper: Keeper, says: Any) -> LentServers:
    """The servers of `chapter`, of which none is lent yet."""
    return LentServers(course, chapter, LentServer(), LentServer(), LentServer(), keeper=keeper, says=says)
