"""A stand-in for pynvml: the functions of it that `autograder.gpu.cards` calls, over cards that a test describes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from autograder.gpu.cards import Cards

GIB = 1 << 30


def runs(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass
class Gpu:
    """A card. The memory of a process comes back when it ends, unless it is `stuck`."""

    uuid: str
    minor: int = 0
    processes: dict[int, int | None] = field(default_factory=dict)  # pid -> bytes
    stuck: int = 0  # bytes in use that no process has
    ecc: int | None = 0  # None: has no ECC
    remap: tuple[int, int, int, int] = (0, 0, 0, 0)
    mig: bool | None = None  # None: has no such mode
    lost: bool = False

    @property
    def running(self) -> dict[int, int | None]:
        return {pid: used for pid, used in self.processes.items() if pid > 1 << 22 or runs(pid)}


class NVMLError(Exception):
    pass


class NotSupportedError(NVMLError):
    pass


class GpuIsLostError(NVMLError):
    def __str__(self) -> str:
        return "GPU is lost"


class VersionMismatchError(NVMLError):
    def __str__(self) -> str:
        return "Driver/library version mismatch"


class FakeNvml:
    """pynvml, without a driver. `starts`, `counts`: what nvmlInit and nvmlDeviceGetCount raise."""

    NVMLError = NVMLError
    NVMLError_NotSupported = NotSupportedError
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    nvmlMemory_v2 = 0x02000028  # noqa: N815

    def __init__(self, *gpus: Gpu, starts: NVMLError | None = None, counts: NVMLError | None = None) -> None:
        self.gpus = gpus
        self.starts = starts
        self.counts = counts

    def nvmlInit(self) -> None:  # noqa: N802
        if self.starts is not None:
            raise self.starts

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        if self.counts is not None:
            raise self.counts
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:  # noqa: N802
        return self._well(self.gpus[index])

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Gpu:  # noqa: N802
        return self._well(next(gpu for gpu in self.gpus if gpu.uuid == uuid))

    def nvmlDeviceGetMinorNumber(self, gpu: Gpu) -> int:  # noqa: N802
        return self._well(gpu).minor

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> str:  # noqa: N802
        return gpu.uuid

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu, version: int) -> SimpleNamespace:  # noqa: N802
        assert version == self.nvmlMemory_v2
        return SimpleNamespace(used=self._well(gpu).stuck + sum(used or 0 for used in gpu.running.values()))

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: Gpu) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self._well(gpu).running.items()]

    def nvmlDeviceGetGraphicsRunningProcesses(self, gpu: Gpu) -> list[SimpleNamespace]:  # noqa: N802
        raise NotSupportedError

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:  # noqa: N802
        if gpu.mig is None:
            raise NotSupportedError
        return [int(gpu.mig)] * 2

    def nvmlDeviceGetTotalEccErrors(self, gpu: Gpu, kind: int, counter: int) -> int:  # noqa: N802
        assert (kind, counter) == (self.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, self.NVML_VOLATILE_ECC)
        if gpu.ecc is None:
            raise NotSupportedError
        return gpu.ecc

    def nvmlDeviceGetRemappedRows(self, gpu: Gpu) -> tuple[int, int, int, int]:  # noqa: N802
        return gpu.remap

    def _well(self, gpu: Gpu) -> Gpu:
        if gpu.lost:
            raise GpuIsLostError
        return gpu


def cards(*gpus: Gpu) -> Cards:
    """Invented cards, whose device files are all there."""
    return Cards(FakeNvml(*gpus), exists=lambda _node: True)
