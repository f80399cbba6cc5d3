"""A **model** of one GPU that several programs share: who takes what, who runs out of memory.

Its rules are those of TensorFlow 2.21's gpu_device.cc (default limit) and bfc_allocator.cc (regions, growth, smaller and
smaller requests, whole free regions given back); fragmentation is left out. A picture from it says MODEL.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from across import pictures
from across._language.catalogue import marked

if TYPE_CHECKING:
    from across.pictures import Picture

FIRST_REGION = 2  # MiB: what a growing program takes first
SMALLER = 0.9  # what is refused is asked for again, times this
CONTEXT = 450  # MiB: the model's CUDA context; real ones take a few hundred, by GPU and driver


class OutOfMemory(MemoryError):  # noqa: N818 - the GPU's own name for it
    """A model's GPU, or a program's limit on it, has no room for what was asked."""


def reserve(free: int, capability: int = 8) -> int:
    """MiB that a program with no settings leaves of `free`, by the GPU's compute capability: MinSystemMemory."""
    if free < 2048:
        return 225
    return 500 if capability <= 6 else 1050 if capability == 7 else 1536 if capability == 8 else 1800


def default_limit(free: int, capability: int = 8) -> int:
    """MiB that a program with no settings takes of a GPU with `free`: all but a reserve, or all where that is no more."""
    kept = reserve(free, capability)
    return free - kept if kept < free else free


class ModelGPU:
    """A **model** of one GPU of `total` MiB; every program on it also needs a CUDA `context`, in MiB."""

    def __init__(self, total: int, context: int = CONTEXT, capability: int = 8) -> None:
        self.total = total
        self.context = context
        self.capability = capability  # compute capability: the number before the dot
        self.programs: list[Program] = []
        self.history: list[tuple[str, list[tuple[str, int, int, int]]]] = []

    @property
    def free(self) -> int:
        """MiB that no program holds."""
        return self.total - sum(program.held for program in self.programs)

    def start(self, name: str, *, limit: int = 0, fraction: float = 0.0, growth: bool = False) -> Program:
        """Start a program. Without settings it takes all that is free but a reserve; `fraction` is of `total`.

        Raises ValueError for settings that TensorFlow would refuse, OutOfMemory when not even its context fits.
        """
        if limit and growth:
            raise ValueError("Cannot set memory growth on device when virtual devices configured")
        if self.free < self.context:
            raise OutOfMemory(f"{name}: {self.free} MiB are free, its CUDA context needs {self.context}")
        program = Program(self, name, growth)
        self.programs.append(program)
        program.limit = limit or int(self.total * fraction) or default_limit(self.free, self.capability)
        if not growth:
            program.next = program.limit
            with contextlib.suppress(OutOfMemory):  # what it cannot take now is missed when a tensor needs it
                program.extend(1)
        self.note(f"{name} starts")
        return program

    def note(self, event: str) -> None:
        """Remember how the GPU is shared after an event, for `draw`."""
        held = [(each.name, each.context, each.used, each.taken - each.used) for each in self.programs]
        self.history.append((event, held))

    def draw(self, title: str) -> Picture:
        """The GPU after each event: each program's context, what its tensors use, what it took and does not use."""
        return draw_gpu(self.history, self.total, title=f"MODEL: {title}")


@dataclass
class Program:
    """A program on a model's GPU. Sizes in MiB."""

    gpu: ModelGPU
    name: str
    growth: bool
    limit: int = 0
    next: int = FIRST_REGION  # the size of the next region
    regions: list[list[int]] = field(default_factory=list)  # [size, room left]
    tensors: list[tuple[int, list[int]]] = field(default_factory=list)  # size, its region
    alive: bool = True

    @property
    def context(self) -> int:
        """What the CUDA context takes."""
        return self.gpu.context * self.alive

    @property
    def taken(self) -> int:
        """What it took from the GPU for tensors."""
        return sum(size for size, _ in self.regions)

    @property
    def used(self) -> int:
        """What its tensors use of it."""
        return sum(size for size, _ in self.tensors)

    @property
    def held(self) -> int:
        """What nvidia-smi shows: context and regions."""
        return self.context + self.taken

    def allocate(self, size: int) -> None:
        """Make a tensor. Raises OutOfMemory."""
        fitting = [region for region in self.regions if region[1] >= size]
        region = min(fitting, key=lambda each: each[1]) if fitting else self.extend_or_collect(size)
        region[1] -= size
        self.tensors.append((size, region))
        self.gpu.note(f"{self.name} +{size}")

    def extend_or_collect(self, size: int) -> list[int]:
        """Take one more region; where there is no room, first give those back that no tensor is in. Raises OutOfMemory.

        This is DeallocateFreeRegions, on for GPUs unless TF_ENABLE_GPU_GARBAGE_COLLECTION=false.
        """
        try:
            return self.extend(size)
        except OutOfMemory:
            unused = sum(region[0] for region in self.regions if region[0] == region[1])
            if not unused or size > self.limit - self.taken + unused:
                raise
            self.regions = [region for region in self.regions if region[0] != region[1]]
            return self.extend(size)

    def extend(self, size: int) -> list[int]:
        """Take one more region, with room for a tensor of `size`. Raises OutOfMemory."""
        left = self.limit - self.taken
        if size > left:
            raise OutOfMemory(
                f"{self.name}: no room for a tensor of {size} MiB; it took {self.taken} of its limit of {self.limit}"
            )
        doubled = size > self.next
        while size > self.next:
            self.next *= 2
        request = min(self.next, left)
        while request > self.gpu.free:
            request = int(request * SMALLER)
            if request < size:
                raise OutOfMemory(
                    f"{self.name}: no room for a tensor of {size} MiB; {self.gpu.free} MiB are free on the GPU"
                )
        self.next *= 1 if doubled else 2
        self.regions.append([request, request])
        return self.regions[-1]

    def free(self) -> None:
        """Drop all its tensors. What it took stays taken, until it needs a region that it has no room for."""
        for size, region in self.tensors:
            region[1] += size
        self.tensors.clear()
        self.gpu.note(f"{self.name} frees all")

    def end(self) -> None:
        """End the process: only now the GPU has all its memory back."""
        self.alive = False
        self.tensors.clear()
        self.regions.clear()
        self.gpu.note(f"{self.name} ends")


def draw_gpu(history: Sequence[tuple[str, list[tuple[str, int, int, int]]]], total: int, *, title: str) -> Picture:
    """A GPU of `total` MiB after each event of `history`: (event, [(program, context, used, idle), ...]).

    Raises ValueError when there is nothing to draw.
    """
    if not history:
        raise ValueError("draw_gpu: nothing has happened on this GPU")
    figure, axes = pictures.plot(
        max(5.0, 1.6 + 0.85 * len(history)), 3.2, title=title, x="", y=marked("MiB of the GPU")
    )
    names = list(dict.fromkeys(name for _, held in history for name, *_ in held))
    shown: set[str] = set()
    for at, (_, held) in enumerate(history):
        height = 0
        for name, context, used, idle in held:
            fill = pictures.PALETTE[names.index(name) % len(pictures.PALETTE)]
            parts = (
                (context, "#999999", "", marked("CUDA context")),
                (used, fill, "", "in use"),
                (idle, fill, "////", "taken"),
            )
            for size, colour, hatch, what in parts:
                label = "" if not size else what if what == "CUDA context" else f"{name}, {what}"
                known = label in shown or not label
                shown.add(label)
                axes.bar(
                    at,
                    size,
                    bottom=height,
                    width=0.72,
                    color="none" if hatch else colour,
                    edgecolor=colour if hatch else pictures.INK,
                    hatch=hatch,
                    linewidth=0.8,
                    label="_" if known else label,
                )
                height += size
    axes.axhline(total, color=pictures.ALERT, linewidth=1.6)
    axes.annotate(
        f"the GPU: {total} MiB",
        (-0.45, total),
        (0, 3),
        textcoords="offset points",
        color=pictures.ALERT,
        fontsize=pictures.FONT - 1,
    )
    axes.set_ylim(0, total * 1.12)
    axes.set_xlim(-0.5, len(history) - 0.5)
    axes.set_xticks(range(len(history)), [event.replace(" ", "\n", 1) for event, _ in history])
    axes.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=pictures.FONT - 1, labelcolor=pictures.INK
    )
    sentences = [
        f"after {event}: " + (", ".join(f"{name} holds {sum(sizes)}" for name, *sizes in held if sum(sizes)) or "empty")
        for event, held in history
    ]
    return pictures.render(figure, f"{title}. A GPU of {total} MiB; {'; '.join(sentences)}.")
