"""Leases on cards: a job has whole cards for itself, and gives them back.

    with leases.here().lease(count=1) as cards:
        cards["environment"]    # {"CUDA_VISIBLE_DEVICES": "GPU-..."}: the only card that the job's box sees
        cards["nodes"]          # the only device files that its box gets

Who has a card keeps a file locked that is named after it (`flock`), so all graders of this user know of each other, and one
that is killed lets go. Several cards are had together or not at all: nobody waits in a circle. A card that is ill is none; one
that somebody else uses is waited for, and no process is ever killed.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from across._process.sharing import AS_ON_A_CPU
from autograder.gpu.cards import Card, Cards

POLL = 0.1  # seconds between two looks at what is free


class LeaseError(RuntimeError):
    """There is no card for this job, or not in time; the message says why, and the mend."""


class Leases:
    """The cards of this machine, for whoever grades on it."""

    def __init__(self, cards: Cards, folder: Path) -> None:
        """Keep locks in `folder`, made where it is missing. Raises LeaseError if it is another user's or open to others."""
        self._cards = cards
        self._folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.stat()
        except OSError as error:
            raise LeaseError(f"{folder}: {error.strerror}; it keeps the locks on cards") from None
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise LeaseError(f"{folder}: others may write there, and it keeps the locks on cards; remove it")

    @contextmanager
    def lease(self, count: int = 1, deadline: float = 600.0) -> Iterator[dict[str, Any]]:
        """Lend `count` cards for the time of the `with`, in the form in which `KernelProcess` takes them.

        Waits for those that are in use, at most `deadline` seconds. Raises LeaseError, at once where too few are well.
        """
        until = time.monotonic() + deadline
        with ExitStack() as held:
            while True:
                picked, busy = self._pick(count, held)
                if picked:
                    break
                if time.monotonic() > until:
                    raise LeaseError(f"no card in time: {count} asked for; {'; '.join(busy)}")
                time.sleep(POLL)
            visible = ",".join(card.uuid for card in picked)
            yield {
                "environment": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible, **AS_ON_A_CPU},
                "nodes": tuple(dict.fromkeys(node for card in picked for node in card.nodes)),
            }

    def _pick(self, count: int, held: ExitStack) -> tuple[list[Card], list[str]]:
        """Take `count` free cards, whose locks go to `held`, or none, and say what keeps the others. One picks at a time."""
        picked, busy = [], []
        with ExitStack() as picking, ExitStack() as taken:
            if who := self._lock("picking", picking):
                return [], [f"{who} is choosing one; is it stopped?"]
            for card in self._well(count):
                with ExitStack() as lock:
                    if why := self._lock(card.uuid, lock):
                        busy.append(f"{card.uuid}: {why} has it")
                    elif why := self._cards.use(card):
                        busy.append(f"{card.uuid}: {why}")
                    else:
                        taken.push(lock.pop_all())
                        picked.append(card)
                if len(picked) == count:
                    held.push(taken.pop_all())
                    return picked, []
        return [], busy

    def _well(self, count: int) -> list[Card]:
        """The cards that are well. Raises LeaseError where there are fewer than `count`, with the reason of each."""
        cards, missing = self._cards.found()
        faults = {card: self._cards.fault(card) for card in cards}
        well = [card for card, why in faults.items() if not why]
        if len(well) < count:
            reasons = [*missing, *(f"{card.uuid}: {why}" for card, why in faults.items() if why)]
            raise LeaseError(
                f"cards asked for: {count}; this machine has {len(well)}"
                + "".join(f"; {why}" for why in reasons)
                + "; grade on another one, or with --gpus 0"
            )
        return well

    def _lock(self, name: str, stack: ExitStack) -> str:
        """Lock a file until `stack` is closed; where another holds it, who."""
        file = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.read(file, 100).decode() or "another process"
        os.truncate(file, 0)
        os.write(file, f"process {os.getpid()}".encode())
        return ""


def cards() -> int:
    """How many whole cards this machine has, well or not."""
    return len(Cards().found()[0])


@cache
def here() -> Leases:
    """This machine's cards. Locks of root's graders lie in /run/across/cards, of others below $XDG_RUNTIME_DIR or /tmp."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base, "across", "cards") if base else Path(f"/tmp/across-cards-{os.getuid()}")
    return Leases(Cards(), Path("/run/across/cards") if os.getuid() == 0 else folder)
