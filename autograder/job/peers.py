"""What a check asks: the student's kernel, and processes beside it, each made when it is wanted, and ended with the kernel.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from across._process import warm
from autograder.model.course import Limits
from autograder.sandbox import boxes

PEER, LIFE = "peer", "life"
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)  # faults in machine code
MOST = 24  # of one checker, which asks twice about what failed


class Peers:
    """One kernel, by its end of `questions`, and what makes processes beside it; `close` ends these."""

    def __init__(
        self,
        questions: socket.socket,
        alive: Callable[[], bool],
        server: str,
        name: str,
        beside: boxes.Box,
        limits: Limits,
        code: Sequence[str],
        hidden: Sequence[str] = (),
        files: Sequence[tuple[str, bytes]] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`alive` says whether the kernel is. Of the warm `server`, for a kernel in the box `beside`; `name` begins names.

        `code` is what a life executes: the sources of the notebook's cells that were executed. `hidden`, `files`: as the
        kernel's own, see `KernelProcess`; `environment`: of simulated GPUs, which all of them have.
        """
        self.questions, self.alive = questions, alive
        self._server, self._name, self._beside, self._limits = server, name, beside, limits
        self._code, self._hidden, self._files = list(code), hidden, files
        self._environment = dict(environment)
        self._ends = contextlib.ExitStack()
        self._count = 0
        self._made: list[warm.Child] = []

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
        with theirs, _memory() as log, _memory(json.dumps(self._code).encode()) as code, packed(self._files) as files:
            request: Mapping[str, Any] = {**box.request(apart=kind == PEER), "as": kind, "cards": self._environment}
            sent = [log, theirs.fileno(), *([code] if kind == LIFE else []), *files]
            try:
                self._made.append(warm.request(self._server, request, sent))
                self._ends.callback(self._made[-1].close)
            except BaseException:
                ours.close()
                raise
        return ours

    def crashed(self) -> bool:
        """Whether a fault in its machine code ended one of them."""
        return any(crashed(child) for child in self._made)

    def close(self) -> None:
        """End all of them."""
        self._ends.close()


def crashed(child: warm.Child) -> bool:
    """Whether a process has ended by a signal of `CRASHES`."""
    with contextlib.suppress(TimeoutError):
        code = child.wait(1.0)
        return -code in CRASHES or code - 128 in CRASHES  # the latter: as the box tells it
    return False


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
