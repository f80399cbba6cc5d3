"""Pages are made one by one by processes that can be ended: what takes too long, or too much, costs its student that page.

Each is forked with its record and ends with its page. The kernel ends it once it has taken its processor time, wherever it
is then, in a regular expression for one; so do Ctrl-C and SIGTERM, by way of `made`.
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
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
    waiting, busy = iter(records), list[_Page]()
    try:
        while True:
            while len(busy) < workers and (record := next(waiting, None)) is not None:
                busy.append(_Page(record, work))
            if not busy:
                return
            patience = min(page.until for page in busy) - time.monotonic()
            ready, now = connection.wait([page.channel for page in busy], max(0.0, patience)), time.monotonic()
            for page in [each for each in busy if each.channel in ready or each.until <= now]:
                why = page.why()
                busy.remove(page)
                page.end()
                if why is None and page.tries < TRIES:
                    busy.append(_Page(page.record, work, page.tries + 1))
                else:
                    yield page.record, f"the process that makes it was killed {TRIES} times" if why is None else why
    finally:
        for page in busy:
            page.end()


class _Page:
    """A process that makes a page."""

    def __init__(self, record: Record, work: Work, tries: int = 1) -> None:
        self.record, self.tries = record, tries
        self.until = time.monotonic() + PATIENCE
        self.channel, theirs = FORK.Pipe(duplex=False)
        self._process = FORK.Process(target=_make, args=(theirs, work, record), daemon=True)
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until the child has left our handlers
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
            theirs.close()

    def why(self) -> str | None:
        """Why it was not made, now that its process has spoken, or has died, or its time is up; "" where it was.

        None: it was killed, and not by its limit. Raises OSError where `work` did.
        """
        if not self.channel.poll():
            return f"it took more than {PATIENCE:g} seconds"
        try:
            said = self.channel.recv()
        except EOFError:
            self._process.join()
            late = self._process.exitcode == -signal.SIGPROF
            return f"it took more than {SECONDS:g} seconds" if late else None
        if isinstance(said, OSError):
            raise said
        return said

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.join()
        self.channel.close()


def _make(channel: Connection, work: Work, record: Record) -> None:
    """Make a page, unless our parent ends before. Whatever goes wrong with it is told."""
    warm.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    most, hard = _mapped() + MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    said: str | OSError = ""
    try:
        work(record)
    except OSError as error:
        said = OSError(error.errno, error.strerror, error.filename)
    except Exception as error:
        said = f"{type(error).__name__}: {harmless.line(str(error), 200)}"
    channel.send(said)


def _mapped() -> int:
    """Bytes of private memory that this process may write to."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:"))
