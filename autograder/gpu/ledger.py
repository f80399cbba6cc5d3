"""Who has which card and who waits, kept in files, so that all graders of one machine keep one ledger.

Each lease is a file that its holder keeps locked (`flock`): a holder that is killed lets go, whatever it was doing. The
ledger itself is read and written under one more lock. Who came first is served first; several cards are had together or
not at all: so nobody starves and nobody waits in a circle.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

POLL = 0.02  # seconds between two looks at a lock
FIRST, LONGEST = 30.0, 600.0  # seconds that a card stays in quarantine: at first, and at most


class LeaseError(RuntimeError):
    """There is no card for this job, or not in time; the message says why, and the mend."""


@dataclass(frozen=True)
class Slot:
    """What can be leased: a card or a slice."""

    uuid: str
    total: int  # bytes
    shared: bool = False  # whether it may be cut into shares of memory
    slice: bool = False


@dataclass(frozen=True)
class Wish:
    """What is asked for: `count` cards; with `memory` (bytes on each), a share or a slice is enough."""

    count: int = 1
    memory: int = 0


@dataclass(frozen=True)
class Entry:
    """One lease, waiting (`got` is empty) or held."""

    number: int  # smaller: came earlier
    holder: str  # the names of the holder's boxes start with it
    pid: int
    wish: Wish
    got: Mapping[str, int] = field(default_factory=dict)  # a card's UUID: bytes of it


@dataclass(frozen=True)
class Quarantine:
    """Why a card is not handed out, and until when (seconds since 1970)."""

    why: str
    until: float
    times: int = 1  # in a row


def allot(slots: Sequence[Slot], taken: Mapping[str, int], wish: Wish) -> dict[str, int] | None:
    """The cards that fulfil `wish` where `taken` bytes of each are gone: UUID to bytes; None if there are not enough.

    A wish for memory gets, in this order: a slice that is large enough, a share, a whole card. One for a card gets a
    slice, the smallest that is free, one that may be shared. Slices are never part of two: no process sees two of them.
    """

    def bytes_of(slot: Slot) -> int:
        share = wish.memory if wish.memory and slot.shared else slot.total
        fits = taken.get(slot.uuid, 0) + share <= slot.total and wish.memory <= slot.total
        return share if fits and not (slot.slice and wish.count > 1) else 0

    def rank(slot: Slot) -> tuple[object, ...]:
        begun = -taken.get(slot.uuid, 0)  # a card that is cut already leaves the others whole
        return (not slot.slice, slot.shared != bool(wish.memory), begun, slot.total)

    possible = sorted((slot for slot in slots if bytes_of(slot)), key=rank)
    if len(possible) < wish.count:
        return None
    return {slot.uuid: bytes_of(slot) for slot in possible[: wish.count]}


def turn(slots: Sequence[Slot], entries: Sequence[Entry], number: int) -> dict[str, int] | None:
    """What entry `number` may take now; None while it must wait.

    An earlier entry that could be served once others let go keeps its place; one that no healthy card could serve does
    not hold up the rest.
    """
    taken = held(entries)
    for entry in sorted((e for e in entries if not e.got), key=lambda e: e.number):
        got = allot(slots, taken, entry.wish)
        if entry.number == number:
            return got
        if got is None:
            if allot(slots, {}, entry.wish) is not None:
                return None
            continue
        for uuid, share in got.items():
            taken[uuid] = taken.get(uuid, 0) + share
    return None


def held(entries: Sequence[Entry]) -> dict[str, int]:
    """How many bytes of each card are leased."""
    taken: dict[str, int] = {}
    for entry in entries:
        for uuid, share in entry.got.items():
            taken[uuid] = taken.get(uuid, 0) + share
    return taken


class Ledger:
    """The ledger in a folder. Its methods may be called from any thread and process of the folder's owner."""

    def __init__(self, folder: Path) -> None:
        """Make the folder where it is missing. Raises LeaseError if it is another user's or open to others."""
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.stat()
        except OSError as error:
            raise LeaseError(f"{folder}: {error.strerror}; set ACROSS_LEASES to a folder of yours") from None
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise LeaseError(f"{folder}: others may write there; set ACROSS_LEASES to a folder of your own")

    @contextlib.contextmanager
    def open(self, until: float) -> Iterator[Page]:
        """The ledger, ours alone within the `with`, at the latest at `until` (time.monotonic). Raises LeaseError."""
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _locked(lock):
                if time.monotonic() > until:
                    raise LeaseError(f"{self.folder}/lock: somebody holds it and does not let go; is a grader stopped?")
                time.sleep(POLL)
            yield Page(self.folder)
        finally:
            os.close(lock)


class Page:
    """The open ledger."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def entries(self) -> list[Entry]:
        """The leases whose holders live, in the order of their numbers; those of the dead are removed."""
        found = []
        for path in sorted(self._folder.glob("*.lease")):
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if _locked(file):  # nobody holds it any more
                    path.unlink()
                else:
                    said = json.loads(path.read_text())
                    found.append(Entry(**{**said, "wish": Wish(**said["wish"])}))
            finally:
                os.close(file)
        return found

    def add(self, holder: str, wish: Wish) -> tuple[Entry, int]:
        """Wait at the end of the queue; the entry, and the locked file descriptor that keeps it alive."""
        entry = Entry(1 + max((e.number for e in self.entries()), default=0), holder, os.getpid(), wish)
        file = os.open(self._path(entry.number), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        self.write(entry)
        return entry, file

    def write(self, entry: Entry) -> None:
        """Write an entry of ours anew."""
        self._path(entry.number).write_text(json.dumps(asdict(entry)))

    def remove(self, entry: Entry) -> None:
        """Leave the queue, or give back what was held."""
        self._path(entry.number).unlink(missing_ok=True)

    def quarantined(self) -> dict[str, Quarantine]:
        """The cards that are not handed out now."""
        now = time.time()
        known = {path.stem: _quarantine(path) for path in self._folder.glob("*.dirty")}
        return {uuid: found for uuid, found in known.items() if found and found.until > now}

    def quarantine(self, uuid: str, why: str) -> None:
        """Hand out card `uuid` no more for a while, twice as long each time in a row."""
        path = self._folder / f"{uuid}.dirty"
        before = _quarantine(path)
        times = before.times + 1 if before else 1
        until = time.time() + min(LONGEST, FIRST * 2 ** min(times - 1, 10))
        path.write_text(json.dumps(asdict(Quarantine(why, until, times))))

    def clear(self, uuid: str) -> None:
        """Card `uuid` was found clean."""
        (self._folder / f"{uuid}.dirty").unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012}.lease"


def _quarantine(path: Path) -> Quarantine | None:
    try:
        return Quarantine(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # or half written by somebody who was killed
        return None


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
