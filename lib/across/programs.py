"""Several real programs at the same time, each in a fresh process, in an order that they agree on through a folder.

together(fn, 3, 100)               # fn(meeting, 100) in three processes at once; meeting.number is 0, 1, 2
share([Ask("first", part=0.4), ...])  # programs on one GPU: real processes where there is one, else a model, labelled so
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from across import devices, fresh, gpu_model, memory
from across.pictures import Picture, table_html, table_text

T = TypeVar("T")
DEADLINE = 60.0  # seconds that one waits for the others
PIECE = 64  # MiB: the tensors that a program of `share` makes


@dataclass(frozen=True)
class Meeting:
    """Where processes that run at the same time wait for one another."""

    folder: str
    number: int  # of this process, from 0
    of: int

    def all(self, name: str) -> None:
        """Say that this process has come to point `name`; wait until every one has. Raises TimeoutError."""
        self.done(name)
        self._wait(name, range(self.of))

    def turn(self, name: str) -> None:
        """Wait until the process before this one is done with `name`. Raises TimeoutError."""
        if self.number:
            self._wait(name, [self.number - 1])

    def done(self, name: str) -> None:
        """Say that this process is done with `name`."""
        Path(self.folder, f"{name}.{self.number}").touch()

    def _wait(self, name: str, numbers: Iterable[int]) -> None:
        deadline = time.monotonic() + DEADLINE
        while missing := [number for number in numbers if not Path(self.folder, f"{name}.{number}").exists()]:
            if time.monotonic() > deadline:
                late = ", ".join(map(str, missing))
                raise TimeoutError(f"process {self.number} waited {DEADLINE:g} s at {name!r} for process {late}")
            time.sleep(0.005)


def together(
    fn: Callable[..., T], n: int, *args: Any, env: Mapping[str, str] | None = None, timeout: float = 2 * DEADLINE
) -> list[T]:
    """Run `fn(meeting, *args)` in `n` fresh processes at the same time; return their results in order.

    The first that fails ends all, and what it raised is raised here: see `fresh.side_by_side`. `timeout`: seconds.
    """
    with tempfile.TemporaryDirectory(prefix="across-") as folder:
        return fresh.side_by_side(fn, [(Meeting(folder, i, n), *args) for i in range(n)], env=env, timeout=timeout)


@dataclass(frozen=True)
class Ask:
    """A program that wants tensors of `needs` MiB, or a `part` of the GPU, under one setting at most."""

    name: str
    needs: int = 0
    part: float = 0.0  # of the GPU's memory; where it is given, it says what `needs` is
    limit: int = 0  # MiB; 0: none
    fraction: float = 0.0  # of the GPU; 0.0: none
    growth: bool = False


@dataclass(frozen=True)
class Got:
    """What became of it, in MiB."""

    name: str
    needs: int
    tensors: int  # what its tensors came to
    held: int  # of the GPU, CUDA context included
    error: str = ""
    context: int = 0  # its share of `held`, where it is known


@dataclass(frozen=True)
class Shared:
    """One GPU after several programs were started on it, one after the other, and stayed."""

    rows: tuple[Got, ...]
    total: int  # MiB
    where: str  # "MODEL of a GPU", or the GPU's name

    def __repr__(self) -> str:
        return table_text(_COLUMNS, self._cells()) + "\n" + self._note()

    def _repr_html_(self) -> str:
        return table_html(_COLUMNS, self._cells(), note=self._note())

    def draw(self, title: str) -> Picture:
        """The GPU after each program's turn."""
        held = [(row.name, row.context, row.tensors, max(0, row.held - row.context - row.tensors)) for row in self.rows]
        history = [(row.name, held[: i + 1]) for i, row in enumerate(self.rows)]
        return gpu_model.draw_gpu(history, self.total, title=f"{self.where}: {title}")

    def _note(self) -> str:
        return f"{self.where}, {self.total} MiB."

    def _cells(self) -> list[list[str]]:
        return [[row.name, str(row.needs), str(row.tensors), str(row.held), row.error or "runs"] for row in self.rows]


_COLUMNS = ["program", "needs (MiB)", "tensors (MiB)", "holds of the GPU (MiB)", "outcome"]


def share(asks: Sequence[Ask], *, total: int = 16384) -> Shared:
    """Start the programs on one GPU, one after the other, each staying until the last has had its turn.

    Real processes on the first GPU, where there is one; elsewhere a model of a GPU of `total` MiB plays its part.
    """
    gpus = devices.here().gpus
    return on_gpu(asks, gpus[0]) if gpus else on_model(asks, total)


def on_model(asks: Sequence[Ask], total: int) -> Shared:
    """The same by the model of `across.gpu_model`."""
    gpu, rows = gpu_model.ModelGPU(total), []
    for ask in _in_mib(asks, total):
        program, error, allocated = None, "", 0
        try:
            program = gpu.start(ask.name, limit=ask.limit, fraction=ask.fraction, growth=ask.growth)
            while allocated < ask.needs:
                size = min(PIECE, ask.needs - allocated)
                program.allocate(size)
                allocated += size
        except gpu_model.OutOfMemory:
            error = "out of memory"
        held, context = (program.held, program.context) if program else (0, 0)
        rows.append(Got(ask.name, ask.needs, allocated, held, error, context))
    return Shared(tuple(rows), total, "MODEL of a GPU")


def _in_mib(asks: Sequence[Ask], total: int) -> list[Ask]:
    """The same programs, each knowing what it needs in MiB of a GPU of `total`."""
    return [replace(ask, needs=int(ask.part * total)) if ask.part else ask for ask in asks]


def on_gpu(asks: Sequence[Ask], gpu: devices.Device) -> Shared:
    """The same by real processes on a real GPU."""
    total = (gpu.memory or 0) // memory.MIB
    rows = together(_program, len(asks), _in_mib(asks, total), total, "/GPU:0")
    return Shared(tuple(rows), total, gpu.model)


def _program(meeting: Meeting, asks: Sequence[Ask], total: int, device: str) -> Got:
    """One program: wait for its turn, set what it asks for, make tensors, stay until the last one is done."""
    import tensorflow as tf

    ask = asks[meeting.number]
    meeting.turn("start")
    before, error, kept = free_on_gpu(), "", []
    try:
        if device.startswith("/GPU"):
            card = tf.config.list_physical_devices("GPU")[0]
            if ask.growth:
                tf.config.experimental.set_memory_growth(card, True)
            elif limit := ask.limit or int(ask.fraction * total):
                piece = tf.config.LogicalDeviceConfiguration(memory_limit=limit)
                tf.config.set_logical_device_configuration(card, [piece])
        with tf.device(device):
            while (allocated := sum(kept_size(each) for each in kept)) < ask.needs:
                kept.append(tf.zeros([min(PIECE, ask.needs - allocated), memory.MIB // 4]))
    except Exception as failure:
        error = "out of memory" if isinstance(failure, tf.errors.ResourceExhaustedError) else str(failure)[:80]
    held = before - free_on_gpu()
    meeting.done("start")
    meeting.all("end")
    return Got(ask.name, ask.needs, sum(kept_size(each) for each in kept), held, error)


def kept_size(tensor: Any) -> int:
    """MiB of a tensor of `_program`: its first dimension."""
    return int(tensor.shape[0])


def free_on_gpu() -> int:
    """MiB that nobody holds on the first GPU, by nvidia-smi; 0 where there is none."""
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, IndexError):
        return int(subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.split()[0])
    return 0
