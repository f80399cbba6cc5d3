"""What is here: the devices of this machine, logical or simulated ones where there are too few, and the best n of them.

TensorFlow fixes its devices when it runs its first op. Until then `simulate` can split the CPU into logical CPUs, and `gpus`
can add GPUs that are made of host memory. Either is a device like any other to the placer, with its own name and its own lane
in every picture; it is no faster. A real GPU always wins: where there is one, none is simulated, and where there are fewer than
are asked for, they are cut into pieces, TensorFlow's logical GPUs.

ACROSS_GPUS=2 in the environment (`across lab --gpus 2`) asks for two GPUs in this sense: they are there once this module was
asked for anything, in a warm kernel, in `across.fresh` and in the tasks of a cluster from the start.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from across import _system, kernels, memory, smi
from across._gpu import building, loading, unaware
from across._gpu.building import GPUS, NoGpu
from across._language.catalogue import marked, said
from across.pictures import Tabled

__all__ = [
    "Device",
    "Here",
    "NoGpu",
    "TooLate",
    "about",
    "from_environment",
    "gpus",
    "gpus_or_cpus",
    "here",
    "simulate",
    "simulated_gpus",
    "started",
]

MIB = 1 << 20
GIB = 1 << 30
MOST = 16  # simulated GPUs
LEAST = MIB  # bytes of one
PIECE = 256 * MIB  # bytes that a piece of a card has at least
PIECES = " pieces"  # after the number in ACROSS_GPUS: of cards alone, nothing is simulated where these are hidden
PROCESSES = 2  # of pieces have room on a card together: a notebook, and what it starts
MOST_BYTES = 1 << 40  # bytes of one
TABLE = 32  # BFC keeps 8 bytes for each 256 that it manages, and fills them: bfc_allocator.h, AllocationRegion
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 1 << 10, "MIB": MIB, "GIB": GIB, "TIB": 1 << 40}
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)")


class TooLate(RuntimeError):  # noqa: N818 - reads as the sentence it is
    """TensorFlow already runs, so its devices cannot be changed in this process."""


@dataclass(frozen=True)
class Device:
    """One device as TensorFlow names it."""

    name: str  # "/CPU:1": what `tf.device` takes
    type: str  # "CPU", "GPU"
    physical: str  # the physical device behind it: "CPU:0"
    model: str = ""  # "NVIDIA H200", "2 cores"
    memory: int | None = None  # bytes that it may use; None where TensorFlow sets no limit of its own
    compute_capability: tuple[int, int] | None = None  # GPUs only


@dataclass(frozen=True, repr=False)
class Here(Tabled):
    """The devices of this process. `settled` tells whether TensorFlow has started: then they cannot change any more."""

    columns = (
        marked("device"),
        marked("physical device"),
        marked("model"),
        marked("memory"),
        marked("compute capability"),
    )

    devices: tuple[Device, ...]
    settled: bool
    missing: str = ""  # why the GPUs that ACROSS_GPUS asks for are not here

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The GPUs, whole cards or pieces of one."""
        return tuple(device for device in self.devices if device.type == "GPU")

    def rows(self) -> list[list[str]]:
        """One row a device: name, physical device, model, memory, compute capability."""
        return [
            [
                device.name,
                device.physical,
                device.model,
                _size(device.memory or 0),
                ".".join(map(str, device.compute_capability or ())),
            ]
            for device in self.devices
        ]

    def note(self) -> str:
        """How many GPUs there are, and whether the devices can still be configured."""
        gpus = len({device.physical for device in self.gpus})
        if not gpus:
            cards = said("No GPU here.")
        elif loading.loaded():
            several = said("{0} simulated GPUs here: no card, this machine's memory.", gpus)
            cards = several if gpus > 1 else said("1 simulated GPU here: no card, this machine's memory.")
        else:
            cards = said("{0} GPUs here.", gpus) if gpus > 1 else said("1 GPU here.")
        cards += f" {self.missing}" * bool(self.missing)
        if self.settled:
            return f"{cards} {said('TensorFlow has started: these are fixed until the process ends.')}"
        return f"{cards} {said('TensorFlow has not run an op yet: the devices can still be configured.')}"


def here() -> Here:
    """Say which devices TensorFlow has in this process, or will have once it starts. Does not start it."""
    import tensorflow as tf

    missing = from_environment()
    devices: list[Device] = []
    for kind in ("CPU", "GPU"):
        number = 0
        for physical in tf.config.list_physical_devices(kind):
            model, memory, capability = _facts(physical)
            for piece in tf.config.get_logical_device_configuration(physical) or [None]:
                limit = getattr(piece, "memory_limit", None)
                devices.append(
                    Device(
                        name=f"/{kind}:{number}",
                        type=kind,
                        physical=_short(physical.name),
                        model=model,
                        memory=limit * MIB if limit else memory,
                        compute_capability=capability,
                    )
                )
                number += 1
    return Here(tuple(devices), started(), missing)


def started() -> bool:
    """Whether TensorFlow has initialised its devices in this process."""
    from tensorflow.python.eager import context

    current: Any = context.context()
    return current._initialized


def simulate(n: int) -> list[str]:
    """Split the CPU into `n` logical CPUs and return their names, "/CPU:0" onwards.

    Call it before the first op; calling it again with the same `n` changes nothing. Raises TooLate when TensorFlow has
    started with another number. Follows tf.config.set_logical_device_configuration.
    """
    import tensorflow as tf

    from_environment()
    if n < 1:
        raise ValueError(f"simulate({n}): at least one CPU is needed")
    cpu = tf.config.list_physical_devices("CPU")[0]
    configured = len(tf.config.get_logical_device_configuration(cpu) or [None])
    if configured != n:
        if started():
            raise TooLate(
                f"TensorFlow has already started with {configured} logical CPU{'s' * (configured > 1)}: restart the kernel "
                f"and call simulate({n}) before the first op, or run your function in a process of its own by "
                f"fresh.run(fn, cpus={n})."
            )
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * n)
    return [f"/CPU:{i}" for i in range(n)]


def gpus(count: int, memory: str | int = "2 GiB") -> list[str]:
    """Have `count` GPUs and return their names, "/GPU:0" onwards: cards, pieces of one, or simulated ones where there is none.

    Call it before TensorFlow starts; calling it again with the same numbers changes nothing. `memory` is that of each: "8 GiB",
    "512 MiB", or bytes. Tensors take the host's memory as they need it, up to that limit; BFC keeps a table of 1/32 of it.
    CUDA_VISIBLE_DEVICES hides simulated GPUs as it hides real ones. Where TensorFlow has real GPUs these are returned, and
    nothing is simulated. Where there are fewer than `count`, they are cut into pieces (logical GPUs) of `memory`, or of less,
    so that two such processes fit; cards that are too small for that, that were configured before, or after TensorFlow has
    started, stay as they are: fewer than `count`.

    The first call on a machine builds the simulated GPU (about 20 s; `across prepare gpu` does it ahead). Raises ValueError for
    a count that is not from 1 to 16 or a memory that is not from 1 MiB to 1 TiB; TooLate when TensorFlow has started with
    others; NoGpu, with what to do, where none can be simulated: no Linux, no compiler, another TensorFlow, no room.
    """
    size = _bytes(memory)
    if type(count) is not int or not 1 <= count <= MOST:
        raise ValueError(f"gpus({count!r}): expected a whole number of GPUs, from 1 to {MOST}")
    real = 0 if loading.loaded() else _listed()
    if real:
        return [f"/GPU:{i}" for i in range(min(count, _cut(count, size)))]
    seen = _seen(count)
    if seen == 0:
        raise NoGpu(
            f"No simulated GPU: CUDA_VISIBLE_DEVICES is {os.environ['CUDA_VISIBLE_DEVICES']!r}, which hides every GPU; "
            "unset it before this process begins."
        )
    if loading.now() != (seen, size):
        if started():
            raise TooLate(
                f"TensorFlow has already started with {loading.now()[0] or 'no'} simulated GPUs of {loading.now()[1]:,} bytes: "
                f"restart the kernel and call gpus({count}) before the first op, or run your function in a process of its "
                f"own by fresh.run(fn, gpus={count})."
            )
        _load(seen, size)
    return [f"/GPU:{i}" for i in range(seen)]


def from_environment() -> str:
    """Have the GPUs that ACROSS_GPUS asks for; return why they are not here, empty where they are, or nobody asked."""
    asked, _, pieces = os.environ.get(GPUS, "").partition(" ")
    real = 0 if loading.loaded() else _listed()
    if asked in ("", "0") or loading.loaded() or (real and started()) or (pieces and not real):
        return ""
    if not real and not _seen(MOST):
        return f"{GPUS} is {asked}, and CUDA_VISIBLE_DEVICES hides every GPU."
    if started():
        return f"{GPUS} is {asked}, but TensorFlow had started before it was looked at: restart the kernel."
    try:
        gpus(int(asked) if asked.isdecimal() else -1)
    except ValueError:
        return f"{GPUS} is {asked!r}: expected a whole number of GPUs, from 1 to {MOST}."
    except NoGpu as error:
        return str(error)
    return ""


def simulated_gpus() -> str:
    """Say in a sentence what is to be known of simulated GPUs here: whether there are any, could be, or why not."""
    count, size = loading.now()
    if count and loading.loaded():
        return f"{count} simulated GPU{'s' * (count > 1)} of {size / GIB:.3g} GiB each, made of this machine's memory; no card."
    if _listed():
        return "TensorFlow has a real GPU here: none is simulated."
    if problem := building.problem():
        return f"None can be simulated: {problem}."
    if building.kept() is None:
        return "Not built yet: `uv run across prepare gpu` builds it, or the first chapter that wants it."
    return "Built: `uv run across lab --gpus 2` opens the course with two."


def gpus_or_cpus(n: int, memory: str | int = "2 GiB") -> list[str]:
    """Return the names of `n` devices: cards, pieces of one, simulated GPUs, else logical CPUs; print which.

    What a chapter about GPUs calls first. Pieces and simulated GPUs have `memory` each, see `gpus`, and so have processes that
    are started from here, by `fresh` and in clusters: ACROSS_GPUS is set. Raises ValueError as `gpus` does; TooLate when
    TensorFlow has started with fewer devices.
    """
    missing = ""
    if loading.loaded() or _listed() < n:
        try:
            if not _listed() and _seen(n) and building.kept() is None and not building.problem():
                print("Building the simulated GPU, once, about 20 s ...", flush=True)
            gpus(n, memory)
            os.environ[GPUS] = f"{n}{PIECES * (not loading.loaded())}"  # for what is started from here
        except (NoGpu, TooLate) as error:
            missing = f" {error}"
    names, line = _best(n)
    print(line + missing * (not here().gpus))
    return names


def _best(n: int) -> tuple[list[str], str]:
    """`n` devices that are here, and one line saying which. Raises TooLate."""
    machine = here()
    if len(machine.gpus) >= n:
        taken = machine.gpus[:n]
        models = ", ".join(dict.fromkeys(device.model for device in taken))
        cards = len({device.physical for device in taken})
        pieces = f", pieces of {cards} card{'s' * (cards > 1)}" * (cards < n)
        return [device.name for device in taken], f"{n} GPU{'s' * (n > 1)}{pieces}: {models}."
    cpus = [device.name for device in machine.devices if device.type == "CPU"]
    names = cpus[:n] if machine.settled and len(cpus) >= n else simulate(n)
    reason = f"this machine has {len(machine.gpus) or 'no'} GPU{'s' * (len(machine.gpus) > 1)}"
    return names, f"{n} logical CPU{'s' * (n > 1)} stand in for {n} devices: {reason}."


def _listed() -> int:
    """How many GPUs TensorFlow's factories list, asked without fixing anything."""
    from tensorflow.python import pywrap_tfe

    return sum(b":GPU:" in name for name in pywrap_tfe.TF_ListPhysicalDevices())


def _cut(count: int, size: int) -> int:
    """Cut the cards into `count` pieces of `size` bytes if they are fewer and can be; return how many GPUs there are."""
    import tensorflow as tf

    cards = tf.config.list_physical_devices("GPU")
    configured = [tf.config.get_logical_device_configuration(card) for card in cards]
    if 0 < len(cards) < count and not any(configured) and not started():
        each = -(-count // len(cards))
        rooms = [min(size, (_facts(card)[1] or 0) // (each * PROCESSES)) for card in cards]
        if min(rooms) >= PIECE:
            for card, room in zip(cards, rooms, strict=True):
                piece = tf.config.LogicalDeviceConfiguration(memory_limit=room // MIB)
                tf.config.set_logical_device_configuration(card, [piece] * each)
            return each * len(cards)
    return sum(len(pieces or [None]) for pieces in configured)


def _seen(count: int) -> int:
    """How many of so many simulated GPUs CUDA_VISIBLE_DEVICES shows."""
    return len(memory.seen(os.environ.get("CUDA_VISIBLE_DEVICES"), count))


def _load(count: int, size: int) -> None:
    """Load simulated GPUs, and have TensorFlow look for devices again. Raises NoGpu."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    table, ram = count * size // TABLE, _ram()
    if ram is not None and table > ram // 2:
        raise NoGpu(
            f"No simulated GPU: TensorFlow's allocator keeps a table of 1/{TABLE} of a GPU's memory, together "
            f"{table / GIB:.3g} GiB, and this machine has {ram / GIB:.3g} GiB; ask for less."
        )
    recorded = None
    if not tf.test.is_built_with_cuda():  # it has almost no kernels for GPUs on its list
        if not tf.__version__.startswith(kernels.RECORDED):
            raise NoGpu(
                f"No simulated GPU: TensorFlow {tf.__version__} is built without CUDA, and the list of a GPU's kernels was "
                f"recorded from {kernels.RECORDED}; install tensorflow=={kernels.RECORDED}."
            )
        recorded = kernels.recording()
    loading.load(count, size, recorded)
    unaware.without_cudnn()
    unaware.devices_by_name()
    current: Any = context.context()
    current.reinitialize_physical_devices()


def _bytes(memory: str | int) -> int:
    """The bytes that `memory` says. Raises ValueError."""
    found = -1.0
    if type(memory) is int:
        found = memory
    elif isinstance(memory, str) and (said := SIZE.fullmatch(memory.strip())):
        found = float(said[1]) * UNITS.get(said[2].upper(), -1)
    if not LEAST <= found <= MOST_BYTES:
        raise ValueError(
            f'gpus(memory={memory!r}): expected a size from 1 MiB to 1 TiB, such as "8 GiB", "512 MiB" or a number of bytes'
        )
    return int(found)


def about(gpu: Any) -> tuple[str, int]:
    """The name of a physical GPU, and its memory in MiB."""
    name, size, _ = _facts(gpu)
    return name, (size or 0) // MIB


def _size(memory: int) -> str:
    """So many bytes, for a reader; nothing for none."""
    if memory < GIB:
        return f"{memory // MIB} MiB" if memory else ""
    return f"{memory / GIB:.1f} GiB"


def _short(name: str) -> str:
    """The end of a device's name: "/physical_device:GPU:0" is "GPU:0"."""
    return ":".join(name.rsplit("/", 1)[-1].split(":")[-2:])


def _facts(physical: Any) -> tuple[str, int | None, tuple[int, int] | None]:
    """Model, memory in bytes and compute capability of a physical device."""
    import tensorflow as tf

    if physical.device_type == "CPU":
        cores = _system.cores()
        return f"{cores} core{'s' * (cores > 1)}", _ram(), None
    details = tf.config.experimental.get_device_details(physical)
    model = details.get("device_name", physical.device_type)
    limit = loading.now()[1] if loading.loaded() else _card_memory().get(model)
    return model, limit, details.get("compute_capability")


def _ram() -> int | None:
    """This machine's memory in bytes, or this container's where that is less."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return min(total, _system.limit("memory.max", "memory/memory.limit_in_bytes") or total)


def _card_memory() -> dict[str, int]:
    """Memory in bytes of each model of NVIDIA card here; TensorFlow itself tells only what it has used."""
    return {name: int(mib) * MIB for name, mib in smi.query("name", "memory.total") if mib.isdigit()}
