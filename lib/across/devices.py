"""What is here: the devices of this machine, logical ones where there are too few, and the best n of them.

TensorFlow fixes its devices when it runs its first op; until then `simulate` can split the CPU into logical CPUs. A logical
CPU is a device like any other to the placer, with its own name and its own lane in every picture; it is no faster.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from across import _system
from across.pictures import table_html, table_text

MIB = 1 << 20
GIB = 1 << 30


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


@dataclass(frozen=True)
class Here:
    """The devices of this process. `settled` tells whether TensorFlow has started: then they cannot change any more."""

    devices: tuple[Device, ...]
    settled: bool

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
                f"{device.memory / GIB:.1f} GiB" if device.memory else "",
                ".".join(map(str, device.compute_capability or ())),
            ]
            for device in self.devices
        ]

    def __len__(self) -> int:
        return len(self.devices)

    def __repr__(self) -> str:
        return table_text(_COLUMNS, self.rows()) + "\n" + self._note()

    def _repr_html_(self) -> str:
        return table_html(_COLUMNS, self.rows(), note=self._note())

    def _note(self) -> str:
        gpus = len({device.physical for device in self.gpus})
        cards = f"{gpus} GPU{'s' * (gpus > 1)} here." if gpus else "No GPU here."
        if self.settled:
            return f"{cards} TensorFlow has started: these are fixed until the process ends."
        return f"{cards} TensorFlow has not run an op yet: the devices can still be configured."


_COLUMNS = ["device", "physical device", "model", "memory", "compute capability"]


def here() -> Here:
    """Say which devices TensorFlow has in this process, or will have once it starts. Does not start it."""
    import tensorflow as tf

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
    return Here(tuple(devices), started())


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


def best(n: int, *, quiet: bool = False) -> list[str]:
    """Return the names of `n` devices: GPUs if there are as many, else logical CPUs; print one line saying which.

    Pieces of a split card count as GPUs. Raises TooLate when logical CPUs are needed and TensorFlow has started with
    fewer than `n`.
    """
    machine = here()
    if len(machine.gpus) >= n:
        names = [device.name for device in machine.gpus[:n]]
        line = f"{n} GPU{'s' * (n > 1)}: {', '.join(dict.fromkeys(device.model for device in machine.gpus[:n]))}."
    else:
        cpus = [device.name for device in machine.devices if device.type == "CPU"]
        names = cpus[:n] if machine.settled and len(cpus) >= n else simulate(n)
        reason = f"this machine has {len(machine.gpus) or 'no'} GPU{'s' * (len(machine.gpus) > 1)}"
        line = f"{n} logical CPU{'s' * (n > 1)} stand in for {n} devices: {reason}."
    if not quiet:
        print(line)
    return names


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
    return model, _card_memory().get(model), details.get("compute_capability")


def _ram() -> int | None:
    """This machine's memory in bytes, or this container's where that is less."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(path).read_text()))
        except (OSError, ValueError):  # no such cgroup, or "max"
            continue
    return total


def _card_memory() -> dict[str, int]:
    """Memory in bytes of each model of NVIDIA card here; TensorFlow itself tells only what it has used."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()
        return {name.strip(): int(mib) * MIB for name, mib in (line.rsplit(",", 1) for line in lines)}
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
