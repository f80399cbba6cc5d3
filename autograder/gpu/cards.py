"""What NVML says of this machine's cards: which there are, who uses them, how much, and whether they are well.

A card is a whole GPU or, where a GPU is cut by MIG, one of its slices. Reading is all that happens here: `leases` decides
who gets what. Every call goes to an object with the functions of the module `pynvml` (PyPI: nvidia-ml-py), so that tests
bring their own. Without that module, or without a driver, there are no cards.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm")  # what every process that computes opens, besides its card


class CardsError(RuntimeError):
    """There are cards, but NVML does not answer for them; the message says the mend."""


@dataclass(frozen=True)
class Card:
    """A GPU, or a MIG slice of one."""

    uuid: str  # "GPU-..." or "MIG-...": what CUDA_VISIBLE_DEVICES takes
    name: str
    total: int  # bytes of memory
    nodes: tuple[str, ...]  # the device files that computing on it needs

    @property
    def slice(self) -> bool:
        """Whether it is a slice. A process sees one slice at most, and never another card beside it."""
        return self.uuid.startswith("MIG-")


@dataclass(frozen=True)
class Process:
    """A process that has memory on a card."""

    pid: int
    used: int | None  # bytes; None: the driver does not say


@dataclass(frozen=True)
class State:
    """How a card is now."""

    used: int = 0  # bytes, without what the driver reserves for itself where it tells the two apart
    processes: tuple[Process, ...] = ()
    fault: str = ""  # why it must not be used; empty: it is well


class Cards:
    """This machine's cards, asked anew at every call. Safe to share between threads, as NVML is."""

    def __init__(
        self, nvml: Any = None, capabilities: Path = CAPABILITIES, exists: Callable[[str], bool] = os.path.exists
    ) -> None:
        """`nvml`: an object with pynvml's functions; by default pynvml itself, imported at the first call.

        `exists` says whether there is a device file.
        """
        self._nvml: Any = nvml
        self._ready = False
        self._capabilities = capabilities
        self._exists = exists
        self.unreadable: tuple[str, ...] = ()  # cards that `found` could not name, and why

    def found(self) -> tuple[Card, ...]:
        """Every card there is, in NVML's order; of a card in MIG mode its slices. Raises CardsError."""
        if not self._start():
            return ()
        unreadable, cards = [], []
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise CardsError(f"NVML does not count the cards: {error}; does `nvidia-smi` work?") from None
        for number in range(count):
            try:
                cards += self._cards(number)
            except (self._nvml.NVMLError, OSError, ValueError) as error:
                unreadable.append(f"card {number}: {error}")
        self.unreadable = tuple(unreadable)
        return tuple(cards)

    def state(self, card: Card) -> State:
        """How `card` is now. What NVML cannot answer is a fault of the card, named in the state."""
        if not self._start():
            return State(fault="NVML is gone: no library or no driver")
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(card.uuid)
            return State(self._used(handle), tuple(self._processes(handle)), "" if card.slice else self._ill(handle))
        except self._nvml.NVMLError as error:
            return State(fault=f"NVML: {error}")

    def _start(self) -> bool:
        """Whether NVML answers; False without its module, library or driver."""
        if self._ready:
            return True
        if self._nvml is None:
            try:
                import pynvml  # pyright: ignore[reportMissingImports]  # of the extra `gpu`
            except ImportError:
                return False
            self._nvml = pynvml
        try:
            self._nvml.nvmlInit()
        except (self._nvml.NVMLError_LibraryNotFound, self._nvml.NVMLError_DriverNotLoaded):
            return False
        except self._nvml.NVMLError as error:
            raise CardsError(f"NVML does not start: {error}; after an update of the driver, reboot") from None
        self._ready = True
        return True

    def _cards(self, index: int) -> Iterator[Card]:
        """The card of that number, or its slices. Raises ValueError, with the mend, where no box could open it."""
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        minor = self._nvml.nvmlDeviceGetMinorNumber(handle)
        nodes = (f"/dev/nvidia{minor}", *COMMON)
        if missing := [node for node in nodes if not self._exists(node)]:
            raise ValueError(
                f"{', '.join(missing)} missing, which `nvidia-modprobe -u -c {minor}` makes; give a container its "
                f"devices, as by docker's --gpus all or --device {missing[0]}"
            )
        if not self._has_slices(handle):
            yield self._card(handle, nodes)
            return
        slices = 0
        for number in range(self._nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                part = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            except self._nvml.NVMLError_NotFound:  # numbers that no slice has
                continue
            instance = f"gpu{minor}/mig/gi{self._nvml.nvmlDeviceGetGpuInstanceId(part)}"
            compute = f"{instance}/ci{self._nvml.nvmlDeviceGetComputeInstanceId(part)}"
            yield self._card(part, (*nodes, self._capability(instance), self._capability(compute)))
            slices += 1
        if not slices:
            raise ValueError(
                f"in MIG mode and has no slice: `nvidia-smi mig -i {index} -lgip` lists what `nvidia-smi mig -i {index} "
                f"-cgi ID -C` can make, `nvidia-smi -i {index} -mig 0` switches MIG off"
            )

    def _card(self, handle: Any, nodes: tuple[str, ...]) -> Card:
        nvml = self._nvml
        total = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
        return Card(nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle), total, nodes)

    def _has_slices(self, handle: Any) -> bool:
        try:
            return self._nvml.nvmlDeviceGetMigMode(handle)[0] == 1
        except self._nvml.NVMLError_NotSupported:
            return False

    def _capability(self, path: str) -> str:
        """The device file that opens an instance. Source: NVIDIA's MIG guide, "Device nodes and capabilities"."""
        said = (self._capabilities / path / "access").read_text()
        found = re.search(r"DeviceFileMinor:\s*(\d+)", said)
        if not found:
            raise ValueError(f"{self._capabilities / path / 'access'} names no DeviceFileMinor")
        return f"/dev/nvidia-caps/nvidia-cap{found.group(1)}"

    def _used(self, handle: Any) -> int:
        nvml = self._nvml
        try:
            return int(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):  # slices, drivers before 510
            return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)

    def _processes(self, handle: Any) -> Iterator[Process]:
        nvml = self._nvml
        seen: set[int] = set()
        for ask in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
            try:
                running = ask(handle)
            except nvml.NVMLError_NotSupported:
                continue
            for process in running:
                if process.pid not in seen:
                    seen.add(process.pid)
                    yield Process(process.pid, process.usedGpuMemory)

    def _ill(self, handle: Any) -> str:
        """What the card's own counters say against using it."""
        nvml = self._nvml
        try:
            errors = nvml.nvmlDeviceGetTotalEccErrors(
                handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            )
            if errors:
                return f"{errors} uncorrected memory errors since the driver was loaded; see `nvidia-smi -q -d ECC`"
        except nvml.NVMLError_NotSupported:  # cards without ECC
            pass
        try:
            _, _, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
        except nvml.NVMLError_NotSupported:
            return ""
        if failed:
            return "a memory row could not be remapped; replace the card"
        return "a memory row waits to be remapped; reset the card or reboot" if pending else ""
