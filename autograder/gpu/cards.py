"""What NVML says of this machine's cards: which there are, whether they are well, and who uses them.

A card is a whole GPU. Reading is all that happens here: `leases` decides who gets what. Every call goes to an object with
the functions of the module `pynvml` (PyPI: nvidia-ml-py), so that tests bring their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm")  # what every process that computes opens, besides its card
MIB = 1 << 20
IDLE = 256 * MIB  # what the driver may hold on a card that nobody uses


@dataclass(frozen=True)
class Card:
    """A whole GPU."""

    uuid: str  # "GPU-...": what CUDA_VISIBLE_DEVICES takes
    nodes: tuple[str, ...]  # the device files that computing on it needs


class Cards:
    """This machine's cards, asked anew at every call. Safe to share between threads, as NVML is."""

    def __init__(self, nvml: Any = None, exists: Callable[[str], bool] = os.path.exists) -> None:
        """`nvml`: an object with pynvml's functions; by default pynvml itself, imported at the first call.

        `exists` says whether there is a device file.
        """
        self._nvml: Any = nvml
        self._ready = False
        self._exists = exists

    def found(self) -> tuple[list[Card], list[str]]:
        """Every card that could be lent, in NVML's order, and why there are no others: each reason with its mend."""
        if why := self._start():
            return [], [why]
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            return [], [f"NVML does not count the cards: {error}; does `nvidia-smi` work?"]
        cards, missing = [], []
        for number in range(count):
            try:
                cards.append(self._card(number))
            except self._nvml.NVMLError as error:
                missing.append(f"card {number}: {_lost(error)}")
            except ValueError as error:
                missing.append(f"card {number}: {error}")
        return cards, missing if count else ["NVML finds no card; does `nvidia-smi -L` list one?"]

    def fault(self, card: Card) -> str:
        """Why `card`, which was found, must not be used, with the mend; empty: it is well."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(card.uuid)
            which = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
            if errors := self._known(nvml.nvmlDeviceGetTotalEccErrors, handle, *which):
                return f"{errors} uncorrected memory errors since the driver was loaded; see `nvidia-smi -q -d ECC`"
            _, _, pending, failed = self._known(nvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
        except nvml.NVMLError as error:
            return _lost(error)
        if failed:
            return "a memory row could not be remapped; replace the card"
        return "a memory row waits to be remapped; reset the card or reboot" if pending else ""

    def use(self, card: Card) -> str:
        """Who uses `card`, which was found, or what keeps its memory; empty: it is free."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(card.uuid)
            for ask in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
                if running := self._known(ask, handle):
                    pid = running[0].pid
                    there = (
                        ""
                        if os.path.exists(f"/proc/{pid}")
                        else ", and is not seen from here; give a container --pid=host"
                    )
                    return f"process {pid} uses it{there}"
            # the second version leaves out what the driver reserves for itself
            used = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used
        except nvml.NVMLError as error:
            return _lost(error)
        return f"{used / MIB:,.0f} MiB of its memory are in use, by no process that NVML names" if used > IDLE else ""

    def _start(self) -> str:
        """Why NVML does not answer, with the mend; empty: it does."""
        if self._ready:
            return ""
        if self._nvml is None:
            try:
                import pynvml  # pyright: ignore[reportMissingImports]  # of the extra `gpu`
            except ImportError:
                return "nvidia-ml-py, which asks NVML, is not installed: `uv sync --extra gpu`"
            self._nvml = pynvml
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            mend = "install NVIDIA's driver, reboot after its update, or give a container its cards, as by docker's --gpus all"
            return f"NVML does not start: {error}; {mend}; `nvidia-smi` as root loads it, or says why not"
        self._ready = True
        return ""

    def _card(self, index: int) -> Card:
        """The card of that number. Raises ValueError, with the mend, where no box could open it whole."""
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        minor = nvml.nvmlDeviceGetMinorNumber(handle)
        nodes = (f"/dev/nvidia{minor}", *COMMON)
        if missing := [node for node in nodes if not self._exists(node)]:
            raise ValueError(
                f"{', '.join(missing)} missing, which `nvidia-modprobe -u -c {minor}` makes; give a container its "
                f"devices, as by docker's --gpus all or --device {missing[0]}"
            )
        if (self._known(nvml.nvmlDeviceGetMigMode, handle) or (0,))[0] == 1:
            first = f"`nvidia-smi mig -i {index} -dci` and `nvidia-smi mig -i {index} -dgi` remove its slices, if it has any"
            raise ValueError(
                f"in MIG mode, and cards are lent whole: {first}; `nvidia-smi -i {index} -mig 0` switches it off"
            )
        return Card(nvml.nvmlDeviceGetUUID(handle), nodes)

    def _known(self, ask: Callable[..., Any], *about: Any) -> Any:
        """What NVML answers; None where this kind of card has no such thing."""
        try:
            return ask(*about)
        except self._nvml.NVMLError_NotSupported:
            return None


def _lost(error: Exception) -> str:
    return f"NVML: {error}; `dmesg | grep Xid` says more, and a reboot may bring it back"
