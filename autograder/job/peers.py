"""What a check asks beside the student's kernel: processes, each made when it is wanted, and ended with the kernel.

A *peer* holds nothing of the student's: it is forked from the warm server, which has run no student's code, and shares the
box's network alone. It is the server that the student's program talks to, or who looks whether that program answers; what it
saw is evidence. A *life* has executed the notebook's cells in a box of its own: what an answer left in memory, or in a file
that no check handed on, is not in it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from across._process import warm
from autograder.model.course import Limits
from autograder.sandbox import boxes

PEER, LIFE = "peer", "life"
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)  # faults in machine code
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the latter: as a box tells it
MOST = 24  # of one checker, which asks twice about what failed


@dataclass
class _Beside:
    """A process beside the kernel."""

    child: warm.Child
    kind: str
    box: boxes.Box
    log: int  # descriptor of what it prints until it has begun
    began: bool = False  # stood in its box, with its GPUs: before that no student's code is in it


class Peers:
    """What makes processes beside one kernel; `close` ends them."""

    def __init__(
        self,
        server: str,
        name: str,
        beside: boxes.Box,
        limits: Limits,
        environment: Mapping[str, str],
        hidden: Sequence[str] = (),
        files: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Of the warm `server`, for a kernel in the box `beside`; `name` begins names.

        `environment`: of simulated GPUs, which all of them have; `hidden`, `files`: as the kernel's own, see `KernelProcess`.
        """
        self.code: list[str] = []  # what a life executes: the sources of the notebook's cells that were executed
        self._server, self._name, self._beside, self._limits = server, name, beside, limits
        self._hidden, self._files = hidden, files
        self._environment = dict(environment)
        self._ends = contextlib.ExitStack()
        self._count = 0
        self._made: list[_Beside] = []

    def start(self, kind: str) -> socket.socket:
        """A socket on which a new process of the kind answers, after an "R"; close it. Raises SandboxError, ServerError.

        ValueError for an unknown kind, or more than `MOST`.
        """
        self._count += 1
        if kind not in (PEER, LIFE) or self._count > MOST:
            raise ValueError(f"{kind!r}, process {self._count} of {MOST}")
        box = self._beside
        if kind == LIFE:
            box = boxes.Box(
                f"{self._name}{self._count}", boxes.caps(self._limits), self._beside.walls, hidden=self._hidden
            )
            self._ends.callback(box.close)
        ours, theirs = socket.socketpair()
        log = self._ends.enter_context(_memory())
        with theirs, _memory(json.dumps(self.code).encode()) as code, packed(self._files) as files:
            request: Mapping[str, Any] = {**box.request(apart=kind == PEER), "as": kind, "cards": self._environment}
            sent = [log, theirs.fileno(), *([code] if kind == LIFE else []), *files]
            try:
                self._made.append(_Beside(warm.request(self._server, request, sent), kind, box, log))
                self._ends.callback(self._made[-1].child.close)
            except BaseException:
                ours.close()
                raise
        return ours

    def crashed(self) -> bool:
        """Whether a fault in its machine code ended one of them."""
        return any(_by_crash(each.child.returncode) for each in self._seen())

    def killed(self) -> bool:
        """Whether SIGKILL ended one of them, and not for its memory: a life's own doing, or that of somebody outside."""
        return any(_by_kill(each) for each in self._seen())

    def robbed(self) -> bool:
        """Whether SIGKILL has ended a peer, and not for its memory: nothing in the box can do that."""
        return any(each.kind == PEER and _by_kill(each) for each in self._seen(0.0))

    def unready(self) -> str:
        """Why one of them ended before it had begun, though its box had memory and processes for it; empty where none did."""
        for each in self._seen():
            ended = each.child.returncode is not None and not each.began
            if ended and not (each.box.out_of_memory() or each.box.forks_refused()):
                return f"a {each.kind} ended with code {each.child.returncode} before it had begun: {printed(each.log)}"
        return ""

    def out_of_memory(self) -> bool:
        """Whether something was killed because the memory of its box was used up."""
        return any(each.box.out_of_memory() for each in self._made)

    def _seen(self, seconds: float = 1.0) -> list[_Beside]:
        """All of them, when what they have said is read; for an end that is being told there are `seconds` in all."""
        until = time.monotonic() + seconds
        for each in self._made:
            with contextlib.suppress(TimeoutError):
                while each.child.receive(max(0.0, until - time.monotonic())) is not None:
                    each.began = True
        return self._made

    def close(self) -> None:
        """End all of them."""
        self._ends.close()


def crashed(child: warm.Child) -> bool:
    """Whether a process has ended by a signal of `CRASHES`."""
    with contextlib.suppress(TimeoutError):
        return _by_crash(child.wait(1.0))
    return False


def _by_crash(code: int | None) -> bool:
    return code is not None and (-code in CRASHES or code - 128 in CRASHES)  # the latter: as the box tells it


def _by_kill(each: _Beside) -> bool:
    return each.child.returncode in KILLED and not each.box.out_of_memory()


def printed(log: int) -> str:
    """The end of what a process wrote to the descriptor `log`, its standard output and error."""
    size = os.fstat(log).st_size
    return os.pread(log, 1000, max(0, size - 1000)).decode(errors="replace")


@contextlib.contextmanager
def packed(files: Sequence[tuple[str, bytes]]) -> Iterator[list[int]]:
    """A descriptor of an archive of files that is in memory only; none where there are none."""
    if not files:
        yield []
        return
    with _memory() as descriptor:
        with open(descriptor, "wb", closefd=False) as file, tarfile.open(fileobj=file, mode="w") as archive:
            for name, content in files:
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), 0o644
                archive.addfile(entry, io.BytesIO(content))
        yield [descriptor]


@contextlib.contextmanager
def _memory(content: bytes = b"") -> Iterator[int]:
    """A descriptor of a file that is in memory only, with this content, at its beginning."""
    descriptor = os.memfd_create("peer")
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
