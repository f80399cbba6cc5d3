"""The simulated GPU in this process: loaded into TensorFlow, told how many there are, asked what was copied.

TensorFlow's registries know no way back: what is loaded stays. `simulated_gpu.cc` says what each function does.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from across._gpu import building
from across._gpu.building import NoGpu

CARDS = "ACROSS_CARDS"  # environment: the file of the GPUs that processes share; without it each process has GPUs of its own
PAIRS = 17 * 17  # of places between which something can be copied: 16 GPUs and the host
PRIORITY = 100  # the registry's kernels of this priority and above are ours (kKernelPriority)


class Row(ctypes.Structure):
    """AcrossGpuTraffic: what was copied from one place to another since the process began."""

    _fields_ = [
        ("source", ctypes.c_char * 16),
        ("target", ctypes.c_char * 16),
        ("copies", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
    ]


_opened: ctypes.CDLL | None = None  # open, and perhaps not registered yet
_registered = False
_now = (0, 0)  # how many GPUs, bytes of each


def loaded() -> bool:
    """Whether simulated GPUs were loaded into this process."""
    return _registered


def now() -> tuple[int, int]:
    """How many there are here, and the bytes of each."""
    return _now


def open_if_built() -> None:
    """Open the library if it was built before: then forks of this process need no file to load it. Import TensorFlow first."""
    path = building.kept() if not building.problem() else None
    if path is not None and _opened is None:
        _open(path)


def load(count: int, size: int, recorded: bytes | None) -> None:
    """Have so many GPUs of `size` bytes from now on; built first where it was not. `recorded`: see across_gpu_register.

    Raises NoGpu: it cannot be built or loaded here, or there is no room for `count` times `size`.
    """
    global _registered, _now
    library = _opened or _open(building.build())
    if not library.across_gpu_has_room(count * size):
        raise NoGpu(
            f"No simulated GPU: {count} of {size:,} bytes are more memory than can be mapped here; ask for less."
        )
    if not _registered:
        if library.across_gpu_register(recorded, len(recorded or b"")) < 0:
            raise NoGpu("No simulated GPU: the recorded list of kernels cannot be read; install the library again.")
        _registered = True
    cards = os.environ.get(CARDS)
    if cards and not library.across_gpu_share(os.fsencode(cards)):
        raise NoGpu(f"No simulated GPU: {CARDS} is {cards!r}, and it is no file that 64 processes at most can share.")
    library.across_gpu_set(count, size)
    _now = (count, size)


def traffic() -> list[Row]:
    """What was copied since the process began, by where from and where to; nothing where no GPU is loaded."""
    if _opened is None or not _registered:
        return []
    rows = (Row * PAIRS)()
    return list(rows[: _opened.across_gpu_traffic(rows, PAIRS)])


def free(gpu: int) -> int:
    """How many bytes of a GPU nobody has taken; 0 where none is loaded."""
    return _opened.across_gpu_free(gpu) if _opened is not None and _registered else 0


def slow(bytes_per_second: float, latency: float) -> None:
    """Slow each copy to latency + bytes / rate, in seconds; 0 bytes a second: as fast as it goes."""
    if _opened is not None and _registered:
        _opened.across_gpu_slow(bytes_per_second, latency)


def _open(path: Path) -> ctypes.CDLL:
    """Open a library that was built for this TensorFlow. Raises NoGpu."""
    global _opened
    import tensorflow as tf

    try:
        library = ctypes.CDLL(os.fspath(path))
        library.across_gpu_tensorflow.restype = ctypes.c_char_p
        built_for = library.across_gpu_tensorflow().decode()
    except (OSError, AttributeError) as error:
        raise NoGpu(f"No simulated GPU: {path} cannot be loaded ({error}); remove it, and it is built anew.") from error
    if built_for != tf.__version__:
        raise NoGpu(
            f"No simulated GPU: {path} was built for TensorFlow {built_for}, and this is {tf.__version__}; "
            "remove it, and it is built anew."
        )
    library.across_gpu_has_room.argtypes = [ctypes.c_int64]
    library.across_gpu_register.argtypes = [ctypes.c_char_p, ctypes.c_int64]
    library.across_gpu_set.argtypes = [ctypes.c_int, ctypes.c_int64]
    library.across_gpu_share.argtypes = [ctypes.c_char_p]
    library.across_gpu_free.argtypes = [ctypes.c_int]
    library.across_gpu_free.restype = ctypes.c_int64
    library.across_gpu_traffic.argtypes = [ctypes.POINTER(Row), ctypes.c_int]
    library.across_gpu_slow.argtypes = [ctypes.c_double, ctypes.c_double]
    library.across_gpu_set.restype = library.across_gpu_slow.restype = None
    _opened = library
    return library
