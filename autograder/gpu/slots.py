"""What this machine lends: `gpus.toml` in the course's folder, or every card that NVML finds.

idle_mib = 256          # what the driver may hold on a card that nobody uses
[[slot]]                # none: every card there is, whole
uuid = "GPU-..."        # as `nvidia-smi -L` says it; of a MIG slice "MIG-..."
shared = true           # may be cut into shares of memory; needs control groups
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from autograder.gpu.cards import Card, Cards
from autograder.gpu.ledger import LeaseError, Slot
from autograder.sandbox import cgroups
from autograder.store import settings

MIB = 1 << 20
FILE = "gpus.toml"
IDLE = 256 * MIB  # bytes


class File(Struct, frozen=True, forbid_unknown_fields=True):
    """What the file may say."""

    idle_mib: Annotated[int, Meta(ge=0, description="a number of MiB")] = IDLE // MIB
    slot: Annotated[
        list[dict[str, Any]] | None, Meta(description="[[slot]], in two brackets, before each card's lines")
    ] = None


class Declared(Struct, frozen=True, forbid_unknown_fields=True):
    """What it may say of a card."""

    uuid: Annotated[str, Meta(description='as `nvidia-smi -L` says it: uuid = "GPU-..."')]
    shared: Annotated[bool, Meta(description="true or false, and of a slice false")] = False


def declared(path: Path, cards: Cards) -> tuple[list[Slot], int]:
    """The slots, and the bytes that a free card may have in use. Raises CardsError, and LeaseError for the file's fault."""
    found = cards.found()
    file = settings.read(path, File, LeaseError, path.name) if path.exists() else File()
    if file.slot is None:
        return [Slot(card.uuid, card.total, slice=card.slice) for card in found], file.idle_mib * MIB
    slots: list[Slot] = []
    for number, said in enumerate(file.slot, 1):
        where = f"{path.name}, slot {number}"
        slots.append(_slot(where, settings.convert(said, Declared, LeaseError, where), found, cards.unreadable))
        if slots[-1].uuid in {slot.uuid for slot in slots[:-1]}:
            raise LeaseError(f"{where}: card {slots[-1].uuid} a second time; delete one of the two")
    return slots, file.idle_mib * MIB


def _slot(where: str, said: Declared, found: Sequence[Card], unreadable: Sequence[str]) -> Slot:
    card = next((card for card in found if card.uuid == said.uuid), None)
    if card is None:
        there = "; ".join((", ".join(card.uuid for card in found) or "none", *unreadable))
        raise LeaseError(f"{where}: NVML finds no card {said.uuid!r}; it finds: {there}")
    if said.shared and card.slice:
        raise LeaseError(f"{where}: shared = true; write true or false, and of a slice false")
    if said.shared and not cgroups.available():
        raise LeaseError(f"{where}: a shared card needs control groups, by which boxes are told apart; drop shared")
    return Slot(card.uuid, card.total, said.shared, card.slice)
