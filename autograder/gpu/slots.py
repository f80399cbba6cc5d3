"""What this machine lends: `gpus.toml` in the course's folder, or every card that NVML finds.

idle_mib = 256          # what the driver may hold on a card that nobody uses
[[slot]]                # none: every card there is, whole
uuid = "GPU-..."        # as `nvidia-smi -L` says it; of a MIG slice "MIG-..."
shared = true           # may be cut into shares of memory; needs control groups
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.gpu.cards import Card, Cards
from autograder.gpu.ledger import LeaseError, Slot
from autograder.sandbox import cgroups

MIB = 1 << 20
FILE = "gpus.toml"
IDLE = 256 * MIB  # bytes


def declared(path: Path, cards: Cards) -> tuple[list[Slot], int]:
    """The slots, and the bytes that a free card may have in use. Raises CardsError, and LeaseError for the file's fault."""
    found = cards.found()
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        said = {}
    except (OSError, ValueError) as error:
        raise LeaseError(f"{path.name}: cannot be read: {error}") from None
    if unknown := sorted(said.keys() - {"idle_mib", "slot"}):
        raise LeaseError(f"{path.name}: unknown key {unknown[0]!r}; it knows idle_mib and [[slot]]")
    idle = said.get("idle_mib", IDLE // MIB)
    if type(idle) is not int or idle < 0:
        raise LeaseError(f"{path.name}: idle_mib = {idle!r}; write a number of MiB")
    if "slot" not in said:
        return [Slot(card.uuid, card.total, slice=card.slice) for card in found], idle * MIB
    if not isinstance(said["slot"], list) or not all(isinstance(each, dict) for each in said["slot"]):
        raise LeaseError(f"{path.name}: slot = ...; write [[slot]], in two brackets, before each card's lines")
    slots = []
    for number, each in enumerate(said["slot"], 1):
        slots.append(_slot(f"{path.name}, slot {number}", each, found))
        if slots[-1].uuid in {slot.uuid for slot in slots[:-1]}:
            raise LeaseError(f"{path.name}, slot {number}: card {slots[-1].uuid} a second time; delete one of the two")
    return slots, idle * MIB


def _slot(where: str, said: dict[str, Any], found: Sequence[Card]) -> Slot:
    if unknown := sorted(said.keys() - {"uuid", "shared"}):
        raise LeaseError(f"{where}: unknown key {unknown[0]!r}; a slot knows uuid and shared")
    card = next((card for card in found if card.uuid == said.get("uuid")), None)
    if card is None:
        there = ", ".join(card.uuid for card in found) or "none"
        raise LeaseError(f"{where}: NVML finds no card {said.get('uuid')!r}; it finds: {there}")
    shared = said.get("shared", False)
    if not isinstance(shared, bool) or (shared and card.slice):
        raise LeaseError(f"{where}: shared = {shared!r}; write true or false, and of a slice false")
    if shared and not cgroups.available():
        raise LeaseError(f"{where}: a shared card needs control groups, by which boxes are told apart; drop shared")
    return Slot(card.uuid, card.total, shared, card.slice)
