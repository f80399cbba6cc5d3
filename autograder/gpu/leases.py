"""Leases on cards: a job gets cards for itself, clean, and gives them back clean.

    with leases.here(course.root).lease("j12-0.", count=1) as lease:
        lease.environment()     # {"CUDA_VISIBLE_DEVICES": "GPU-..."}: the only card that the job's box sees
        lease.nodes             # the only device files that its box gets

Before a card is handed out and after it was given back it is looked at: processes of boxes that have no lease on it are
killed; a card that somebody else uses, that is ill, or whose memory is not free is put in quarantine, with the reason,
and looked at again later. Never is a process killed that is not in a box of ours.

A share of a card's memory is no wall: see `Lease.overdrawn`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from autograder.gpu.cards import Card, Cards, CardsError
from autograder.gpu.ledger import Entry, LeaseError, Ledger, Page, Slot, Wish, turn
from autograder.gpu.slots import FILE, IDLE, declared
from autograder.sandbox import cgroups

__all__ = ["Lease", "LeaseError", "Leases", "box_of", "evict", "folder", "here"]

MIB = 1 << 20
CONTEXT = 768 * MIB  # of a share: for CUDA's context and its libraries' code, which TensorFlow's limit does not count
SETTLE = 10.0  # seconds for the memory of processes that ended to come back
POLL = 0.02


def box_of(pid: int) -> str:
    """The name of the box that process `pid` is in, by its control group; empty if it is in none, or gone."""
    try:
        said = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
    found = re.search(rf":/(?:[^\n]*/)?{cgroups.NAME}/([^/\n]+)", said)
    return found.group(1) if found else ""


def folder() -> Path:
    """Where the ledger is: $ACROSS_LEASES; else of root /run/across/cards, of others below $XDG_RUNTIME_DIR or /tmp."""
    if said := os.environ.get("ACROSS_LEASES"):
        return Path(said)
    if os.getuid() == 0:
        return Path("/run/across/cards")
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base, "across", "cards") if base else Path(f"/tmp/across-cards-{os.getuid()}")


class Leases:
    """The cards of this machine, for whoever grades on it."""

    def __init__(
        self,
        cards: Cards,
        ledger: Ledger,
        slots: Sequence[Slot],
        *,
        idle: int = IDLE,
        box_of: Callable[[int], str] = box_of,
    ) -> None:
        """Lend `slots`. `idle`: bytes in use on a free card; `box_of`: which box of ours a process is in, or ""."""
        self.slots = tuple(slots)
        self.idle = idle
        self._cards = cards
        self._ledger = ledger
        self._box_of = box_of
        self._found = {card.uuid: card for card in cards.found()}
        if strange := [slot.uuid for slot in slots if slot.uuid not in self._found]:
            raise LeaseError(f"NVML finds no card {', '.join(strange)}; it finds: {_list(self._found)}")

    @contextlib.contextmanager
    def lease(self, holder: str, count: int = 1, memory: int = 0, deadline: float = 600.0) -> Iterator[Lease]:
        """Lend `count` cards to the boxes whose names start with `holder` ("j12-0."), for the time of the `with`.

        With `memory` (bytes on each card, CUDA's own included) a share or a slice is enough. Waits in line for at most
        `deadline` seconds. Raises LeaseError.
        """
        wish = Wish(count, memory)
        self._possible(wish)
        until = time.monotonic() + deadline
        with self._ledger.open(until) as page:
            entry, file = page.add(holder, wish)
        lease = None
        try:
            entry = self._take(entry, until)
            lease = Lease(self, entry)
            yield lease
        finally:
            if lease is not None:
                lease.close()
            try:
                self._give_back(entry)
            finally:
                os.close(file)

    def _possible(self, wish: Wish) -> None:
        if wish.count < 1 or wish.memory < 0:
            raise ValueError(f"{wish}: ask for one card or more")
        if 0 < wish.memory <= CONTEXT:
            raise LeaseError(
                f"a share of {_mib(wish.memory)} has no room beside CUDA's own {_mib(CONTEXT)}; ask for more"
            )
        able = [s for s in self.slots if s.total >= wish.memory and not (s.slice and wish.count > 1)]
        if len(able) < wish.count:
            what = f" with {_mib(wish.memory)} each" if wish.memory else ""
            raise LeaseError(
                f"cards{what} asked for: {wish.count}; this machine has {len(able)}"
                + "".join(f"; {said}" for said in self._cards.unreadable)
                + "; grade on another one, or with --gpus 0"
            )

    def _take(self, entry: Entry, until: float) -> Entry:
        """Wait until it is this entry's turn and its cards are clean."""
        while True:
            with self._ledger.open(until + SETTLE) as page:
                entries, bad = page.entries(), page.quarantined()
                healthy = [slot for slot in self.slots if slot.uuid not in bad]
                got = turn(healthy, entries, entry.number)
                if got is not None:
                    entry = replace(entry, got=got)
                    page.write(entry)
            if got is not None:
                dirty = self._inspect(entry, got)
                if not dirty:
                    return entry
                with self._ledger.open(until + SETTLE) as page:
                    entry = replace(entry, got={})  # back to its place in the queue
                    self._judge(page, dirty, set(got) - dirty.keys())
                    page.write(entry)
            if time.monotonic() > until:
                raise LeaseError(self._late(entry))
            time.sleep(POLL)

    def _inspect(self, entry: Entry, uuids: Sequence[str] | dict[str, int]) -> dict[str, str]:
        """What is wrong with cards that `entry` has just been given; those found clean are cleared in the ledger."""
        dirty = {uuid: why for uuid in uuids if (why := self._dirt(uuid, entry.number))}
        if not dirty:
            with self._ledger.open(time.monotonic() + SETTLE) as page:
                self._judge(page, {}, set(uuids))
        return dirty

    @staticmethod
    def _judge(page: Page, dirty: dict[str, str], clean: set[str]) -> None:
        for uuid, why in dirty.items():
            page.quarantine(uuid, why)
        for uuid in clean:
            page.clear(uuid)

    def _give_back(self, entry: Entry) -> None:
        """Look at the cards once more, then let go of them; while it looks nobody else can have them."""
        dirty = {uuid: why for uuid in entry.got if (why := self._dirt(uuid, entry.number))}
        with self._ledger.open(time.monotonic() + SETTLE) as page:
            self._judge(page, dirty, set())
            page.remove(entry)

    def _dirt(self, uuid: str, number: int) -> str:
        """Why card `uuid` is not clean for entry `number`, after squatters were evicted; empty when it is."""
        card, until = self._found[uuid], time.monotonic() + SETTLE
        while True:
            why, final = self._look(card, number)
            if not why or final or time.monotonic() > until:
                return why
            time.sleep(POLL)

    def _look(self, card: Card, number: int) -> tuple[str, bool]:
        """Why a card is not clean now, and whether waiting is in vain. Evicts."""
        with self._ledger.open(time.monotonic() + SETTLE) as page:
            others = tuple(e.holder for e in page.entries() if card.uuid in e.got and e.number != number)
            state = self._cards.state(card)  # while nobody can begin a share
        if state.fault:
            return state.fault, True
        leased, unknown, left = 0, False, []
        for process in state.processes:
            box = self._box_of(process.pid)
            if box and others and box.startswith(others):
                leased, unknown = leased + (process.used or 0), unknown or process.used is None
            elif box and evict(process.pid, lambda name, is_now=box: name == is_now, self._box_of):
                left.append(f"process {process.pid} of box {box} does not end")
            elif not box and (name := _alive(process.pid)):
                return f"process {process.pid} ({name}) uses it and is in no box of ours", True
            else:
                left.append(f"process {process.pid} has memory on it, and no such process is seen from here")
        if left:
            return "; ".join(left), False
        over = state.used - leased - self.idle
        if over > 0 and not unknown:  # who else has how much cannot be told where the driver does not say
            return f"{_mib(state.used - leased)} of its memory are in use, by no process that NVML names", False
        return "", False

    def overdrawn(self, entry: Entry) -> list[str]:
        """Kill the processes of a lease that took more than its share; a line for each. See `Lease.overdrawn`."""
        said = []
        mine = lambda name: name.startswith(entry.holder)  # noqa: E731
        for uuid, share in entry.got.items():
            processes = [p for p in self._cards.state(self._found[uuid]).processes if mine(self._box_of(p.pid))]
            used = sum(process.used or 0 for process in processes)
            if used > share:
                said.append(f"{_mib(used)} of card {uuid} used, {_mib(share)} leased")
                for process in processes:
                    evict(process.pid, mine, self._box_of)
        return said

    def card(self, uuid: str) -> Card:
        """The card with this UUID."""
        return self._found[uuid]

    def total(self, uuid: str) -> int:
        """Bytes of memory of a card."""
        return self._found[uuid].total

    def _late(self, entry: Entry) -> str:
        with self._ledger.open(time.monotonic() + SETTLE) as page:
            entries, bad = page.entries(), page.quarantined()
        said = [f"{uuid} has {e.holder} (process {e.pid})" for e in entries for uuid in e.got]
        said += [f"{uuid} is in quarantine: {found.why}" for uuid, found in bad.items()]
        before = sum(1 for e in entries if not e.got and e.number < entry.number)
        said += [f"{before} wait before it"] if before else []
        what = f"{_mib(entry.wish.memory)} on {entry.wish.count}" if entry.wish.memory else f"{entry.wish.count}"
        return f"no card in time: {what} asked for; {'; '.join(said) or 'none was free'}"


@cache
def here(course: Path) -> Leases:
    """The slots that `gpus.toml` in the course's folder declares; without it every card that NVML finds, whole.

    Without cards there are simply no slots. Raises LeaseError where the declaration, NVML or the folder is at fault.
    """
    cards = Cards()
    try:
        slots, idle = declared(course / FILE, cards)
        return Leases(cards, Ledger(folder()), slots, idle=idle)
    except CardsError as error:
        raise LeaseError(str(error)) from None


class Lease:
    """Cards that are lent. What a box needs of it is `environment()` and `nodes`."""

    def __init__(self, leases: Leases, entry: Entry) -> None:
        self._leases = leases
        self._entry = entry
        self.cards = tuple(leases.card(uuid) for uuid in entry.got)
        self.overdrawn: tuple[str, ...] = ()
        """A line each time that processes were killed because they took more than the lease's share.

        Nothing keeps a process from taking more: TensorFlow keeps to `ACROSS_GPU_MEMORY` as long as the code lets it. A
        thread looks twice a second, and a neighbour may run out of memory before it does. For code that is not trusted
        lend whole cards or slices.
        """
        self._over = threading.Event()
        self._watch: threading.Thread | None = None
        if self.share:
            self._watch = threading.Thread(target=self._watched, name="share", daemon=True)
            self._watch.start()

    @property
    def share(self) -> int:
        """Bytes of each card; 0 where the cards are lent whole."""
        shares = [share for uuid, share in self._entry.got.items() if share < self._leases.total(uuid)]
        return min(shares, default=0)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The device files that a box with this lease gets, and no others."""
        return tuple(dict.fromkeys(node for card in self.cards for node in card.nodes))

    def environment(self) -> dict[str, str]:
        """What the job's process must find in its environment before TensorFlow looks for cards."""
        said = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(card.uuid for card in self.cards)}
        if self.share:
            limit = (self.share - CONTEXT) // MIB
            said |= {"ACROSS_GPU_MEMORY": str(limit), "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
        return said

    def close(self) -> None:
        """Stop watching; `Leases.lease` gives the cards back."""
        self._over.set()
        if self._watch is not None:
            self._watch.join()

    def _watched(self) -> None:
        while not self._over.wait(0.5):
            self.overdrawn += tuple(self._leases.overdrawn(self._entry))


def evict(pid: int, ours: Callable[[str], bool], box_of: Callable[[int], str] = box_of) -> bool:
    """Kill process `pid` if the box that it is in is `ours`; whether it was. Never another that got its number since."""
    try:
        file = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not ours(box_of(pid)):  # looked up again: now the number is held
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(file, signal.SIGKILL)
        return True
    finally:
        os.close(file)


def _list(uuids: Sequence[str] | dict[str, Card]) -> str:
    return ", ".join(uuids) or "none"


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"


def _alive(pid: int) -> str:
    """What a process is called and whose it is; empty for one that has ended, though its parent may not know yet."""
    try:
        said = Path(f"/proc/{pid}/status").read_text()
        values = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
        return "" if values["State"][0] in "ZX" else f"{values['Name']} of user {values['Uid'].split()[0]}"
    except (OSError, KeyError):
        return ""
