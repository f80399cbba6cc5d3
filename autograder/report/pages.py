"""Pages are made one by one by processes that can be ended: what takes too long, or too much, costs its student that page.

A worker is forked, gets a record, makes the page and waits for the next record. The kernel ends it once a page has taken
its processor time, wherever it is then, in a regular expression for one; so do Ctrl-C and SIGTERM, by way of `made`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path

from across._process import warm
from autograder.gradebook.record import Record
from autograder.model import harmless

SECONDS = 10.0  # of processor time, a page; an honest one takes a tenth of one
PATIENCE = 2 * SECONDS + 10  # seconds by the clock, for what waits instead of working
MEMORY = 1 << 30  # bytes that a page may take
TRIES = 3  # at a page whose process somebody killed
FORK = multiprocessing.get_context("fork")
STOPS = (signal.SIGINT, signal.SIGTERM)

Work = Callable[[Record], object]


def made(records: Iterable[Record], work: Work, workers: int) -> Generator[tuple[Record, str], None, None]:
    """Do `work` on each record, `workers` at once and each within its limits; yield it with why it failed, or "".

    Of the records only those are held that are worked on. Raises OSError where `work` did: the disk's fault, not a page's.
    Whatever ends the iteration, closing it too, ends the processes.
    """
    waiting, again = iter(records), deque[Record]()
    idle: list[_Worker] = []
    busy: list[_Worker] = []
    tries: dict[str, int] = {}
    try:
        while True:
            while len(busy) < workers and (record := again.popleft() if again else next(waiting, None)) is not None:
                busy.append(idle.pop() if idle else _Worker(work))
                busy[-1].begin(record)
            if not busy:
                return
            for worker in _ended(busy):
                busy.remove(worker)
                record, why, lives = worker.record, worker.why, worker.lives
                assert record is not None
                if lives:
                    idle.append(worker)
                else:
                    worker.end()
                if why is None:  # it was killed, and not by its limit
                    tries[record.student] = tries.get(record.student, 0) + 1
                    if tries[record.student] < TRIES:
                        again.append(record)
                        continue
                    why = f"the process that makes it was killed {TRIES} times"
                yield record, why
    finally:
        for worker in (*idle, *busy):
            worker.end()


def _ended(busy: list[_Worker]) -> list[_Worker]:
    """Wait until some have made their page, or have died, or their time is up; return these."""
    patience = min(worker.until for worker in busy) - time.monotonic()
    ready = connection.wait([worker.channel for worker in busy], max(0.0, patience))
    return [worker for worker in busy if worker.ended(worker.channel in ready)]


class _Worker:
    """A process that makes pages, one at a time."""

    def __init__(self, work: Work) -> None:
        self.record: Record | None = None
        self.why: str | None = ""  # the last page was not made; None: its process was killed
        self.until = 0.0  # time.monotonic
        self.lives = True
        self.channel, theirs = FORK.Pipe()
        self._process = FORK.Process(target=_serve, args=(theirs, work), daemon=True)
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until the child has left our handlers
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
            theirs.close()

    def begin(self, record: Record) -> None:
        """Give it a record."""
        self.record, self.until = record, time.monotonic() + PATIENCE
        with contextlib.suppress(BrokenPipeError):  # it was killed meanwhile: `ended` sees that
            self.channel.send(record)

    def ended(self, spoke: bool) -> bool:
        """Whether it is done with its record: `why` says how, and `lives` whether it can get another one."""
        if not spoke:
            self.lives = time.monotonic() < self.until
            self.why = "" if self.lives else f"it took more than {PATIENCE:g} seconds"
            return not self.lives
        try:
            said = self.channel.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            self.lives = False
            late = self._process.exitcode == -signal.SIGPROF
            self.why = f"it took more than {SECONDS:g} seconds" if late else None
            return True
        if isinstance(said, OSError):
            raise said
        self.why, self.lives = said, not said  # one that failed may have filled its memory
        return True

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.join()
        self.channel.close()


def _serve(channel: Connection, work: Work) -> None:
    """Make pages until the end of our parent, or of the channel. Whatever goes wrong with a page is told."""
    warm.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    most, hard = _mapped() + MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    while True:
        try:
            record = channel.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        said = _done(work, record)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        channel.send(said)


def _done(work: Work, record: Record) -> str | OSError:
    try:
        work(record)
    except OSError as error:
        return OSError(error.errno, error.strerror, error.filename)
    except Exception as error:
        return f"{type(error).__name__}: {harmless.line(str(error), 200)}"
    return ""


def _mapped() -> int:
    """Bytes of private memory that this process may write to."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:"))
