"""Several real programs at the same time, each in a fresh process, in an order that they agree on through a folder.

together(fn, 3, 100)               # fn(meeting, 100) in three processes at once; meeting.number is 0, 1, 2
share([Ask("first", part=0.4), ...])  # programs on one GPU, a simulated one where there is no real one
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from across import devices, fresh, memory, pictures
from across._gpu import loading
from across._language import pictured
from across._language.catalogue import given, marked, said
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
    needs: int = 1
    part: float = 0.0  # of the GPU's memory; where it is given, it says what `needs` is
    fraction: float = 0.0  # of the GPU, as a limit; 0.0: none
    growth: bool = False
    drops: bool = False  # its tensors, once it has them all


@dataclass(frozen=True)
class Got:
    """What became of it, in MiB."""

    name: str
    needs: int
    made: int  # what its tensors came to
    kept: int  # what of them it has not dropped
    held: int  # of the GPU: its regions, and on a real one its CUDA context
    error: str  # TensorFlow's own; "" where nothing failed
    seconds: float  # that its tensors took


@dataclass(frozen=True)
class Shared:
    """One GPU after several programs were started on it, one after the other, and stayed."""

    rows: tuple[Got, ...]
    total: int  # MiB
    where: str  # the GPU's name, or why there is none

    def __repr__(self) -> str:
        return table_text(_COLUMNS, self._cells()) + "\n" + self._note() if self.rows else self.where

    def _repr_html_(self) -> str:
        return table_html(_COLUMNS, self._cells(), note=self._note()) if self.rows else self.where

    def errors(self) -> str:
        """What TensorFlow told each program that failed, and after how long; or that none did."""
        told = [f"{row.name}, after {row.seconds:.0f} s: {row.error}" for row in self.rows if row.error]
        return "\n".join(told) or (said("no program failed") if self.rows else self.where)

    def draw(self, title: str) -> Picture | None:
        """The GPU after each program's turn; None where there is no GPU."""
        return _drawn(self.rows, self.total, title, self.where) if self.rows else None

    def _note(self) -> str:
        return f"{self.where}, {self.total} MiB."

    def _cells(self) -> list[list[str]]:
        return [
            [
                row.name,
                str(row.needs),
                str(row.made),
                str(row.held),
                said("out of memory") if row.error else said("runs"),
            ]
            for row in self.rows
        ]


_COLUMNS = [
    marked("program"),
    marked("needs (MiB)"),
    marked("tensors (MiB)"),
    marked("holds of the GPU (MiB)"),
    marked("outcome"),
]


def share(asks: Sequence[Ask], simulated: str = "4 GiB") -> Shared:
    """Start the programs on one GPU, one after the other; then each makes its tensors, in that order; all stay until the end.

    They are real processes on the first GPU; where there is no real one, on a simulated one of so much memory, whose bytes
    they share. Where none can be simulated there are no rows, and `where` says why.
    """
    with tempfile.TemporaryDirectory(prefix="across-") as folder:
        cards = {loading.CARDS: str(Path(folder, "cards"))}
        try:
            rows, total, where = zip(*together(_program, len(asks), list(asks), simulated, env=cards), strict=True)
        except devices.NoGpu as error:
            return Shared((), 0, said("This needs a GPU, and here is none to see it on. {0}", str(error)))
    return Shared(rows, total[0], where[0])


def takes(names: Sequence[str], total: int) -> tuple[dict[str, int], str]:
    """MiB that programs without settings take, one after the other, of a simulated GPU of `total` MiB, and how that is known.

    Measured on one; where there is a real GPU or none can be simulated, by `left_to_take`.
    """
    shared = share([Ask(name) for name in names], f"{total} MiB")
    if shared.total == total:
        return {row.name: row.held for row in shared.rows}, said("measured")
    free, found = total, {}
    for name in names:
        found[name] = left_to_take(free)
        free -= found[name]
    return found, said("by the table")


def left_to_take(free: int) -> int:
    """MiB that a program with no settings takes of `free`: all but MinSystemMemory of a GPU of compute capability 8."""
    kept = 225 if free < 2048 else 1536
    return free - kept if kept < free else free


def _program(meeting: Meeting, asks: Sequence[Ask], simulated: str) -> tuple[Got, int, str]:
    """One program: start in its turn with what it asks for, make tensors in its turn, stay until the last one is done."""
    import tensorflow as tf

    devices.gpus(1, simulated)
    (gpu, *_) = tf.config.list_physical_devices("GPU")
    where, total = devices.about(gpu)
    ask = asks[meeting.number]
    needs = int(ask.part * total) if ask.part else ask.needs
    if ask.growth:
        tf.config.experimental.set_memory_growth(gpu, True)
    elif ask.fraction:
        piece = tf.config.LogicalDeviceConfiguration(memory_limit=int(ask.fraction * total))
        tf.config.set_logical_device_configuration(gpu, [piece])
    held, error, kept, dropped = 0.0, "", [], []

    def more(size: int) -> None:  # MiB, not filled, so that the host's memory is not either
        with tf.device("/GPU:0"):
            kept.append(tf.raw_ops.Empty(shape=[size, memory.MIB // 4], dtype=tf.float32))

    def take(point: str, needs: int) -> float:
        nonlocal error, held
        meeting.turn(point)
        before, began = memory.taken(), time.monotonic()
        try:
            while (made := sum(map(_size, kept))) < needs and not error:
                more(min(PIECE, needs - made))
        except (tf.errors.ResourceExhaustedError, tf.errors.InternalError) as failure:
            error = failure.message.split("}} ")[-1]
            # on a card that is full TensorFlow cannot so much as start: an InternalError
            if isinstance(failure, tf.errors.InternalError) and "memory" not in error:
                raise
        held += memory.taken() - before
        if ask.drops and point == "tensors":
            dropped.append(sum(map(_size, kept)))
            kept.clear()
        meeting.done(point)
        return time.monotonic() - began

    take("start", 1)
    meeting.all("started")
    seconds = take("tensors", needs)
    meeting.all("end")
    uses = sum(map(_size, kept))
    got = Got(ask.name, needs, uses + sum(dropped), uses, 0 if math.isnan(held) else round(held), error, seconds)
    return got, total, where


def _size(tensor: Any) -> int:
    """MiB of a tensor of `_program`: its first dimension."""
    return int(tensor.shape[0])


def _drawn(rows: Sequence[Got], total: int, title: str, where: str) -> Picture:
    """Two bars: what the programs need, and what each holds of the GPU, in and beside its tensors."""
    figure, axes = pictures.plot(8.0, 2.3, title=pictured.said("{0}: {1}", pictured.word(title), where), x="MiB", y="")
    ends = [0, 0]
    for number, row in enumerate(rows):
        fill = pictures.PALETTE[number % len(pictures.PALETTE)]
        parts: tuple[tuple[int, float, dict[str, Any], str], ...] = (
            (0, row.needs, {"color": fill}, pictured.said("{0}: tensors", row.name)),
            (1, row.kept, {"color": fill}, "_"),
            (
                1,
                row.held - row.kept,
                {"color": "none", "hatch": "////"},
                pictured.said("{0}: taken, not used", row.name),
            ),
        )
        for bar, size, looks, label in parts:
            edge = fill if "hatch" in looks else pictures.INK
            axes.barh(bar, max(0, size), left=ends[bar], height=0.6, edgecolor=edge, label=label, **looks)
            ends[bar] += max(0, size)
        if row.error:
            failed, end = pictured.said("{0}: out of memory", row.name), (ends[1], 0.69)
            axes.annotate(
                failed, end, (0, 3), textcoords="offset points", ha="right", color=pictures.INK, weight="bold"
            )
    axes.axvline(total, color=pictures.INK, linewidth=1.6, label=pictured.said("the GPU: {0:,} MiB", total))
    axes.set_xlim(0, max(total, *ends) * 1.12)
    axes.set_yticks((0, 1), (marked("needed"), marked("held")))
    axes.invert_yaxis()
    axes.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=pictures.FONT - 1, labelcolor=pictures.INK
    )
    told = [
        said("{0} needs {1}, holds {2}, uses {3}", given(row.name), row.needs, row.held, row.kept)
        + (said(", out of memory") if row.error else "")
        for row in rows
    ]
    words = said("{0}: {1}. A GPU of {2} MiB: {3}.", given(title), where, total, said("; ").join(told))
    return pictures.render(figure, words)
