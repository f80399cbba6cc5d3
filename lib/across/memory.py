"""Who owns which memory: readings of a process, TensorFlow's settings for cards that are not here, and a model of a card.

Three instruments, told apart wherever they appear:

- `now` measures the process that calls it; `CPU_POOL` makes TensorFlow manage main memory as it manages a card's.
- `paper` lets TensorFlow's own configuration code talk about cards that exist on paper: what it would ask a driver for.
- `Card` is a **model** of one card that several programs share. Its rules are those of TensorFlow 2.21's gpu_device.cc
  (default limit) and bfc_allocator.cc (regions, growth, smaller and smaller requests); fragmentation is left out.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from across import pictures

if TYPE_CHECKING:
    from across.pictures import Picture

MIB = 1 << 20
CPU_POOL = "TF_CPU_ALLOCATOR_USE_BFC"  # environment: manage main memory by the allocator that manages a card's
CPU_LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
FIRST_REGION = 2  # MiB: what a growing program takes first
SMALLER = 0.9  # what is refused is asked for again, times this
CONTEXT = 450  # MiB: the model's CUDA context; real ones take a few hundred, by card and driver


@dataclass(frozen=True)
class Reading:
    """A process's memory at one moment, in MiB; NaN where this system does not tell."""

    at: float  # seconds, time.time()
    used: float  # by TensorFlow's tensors
    taken: float  # from the system in large pieces, whether touched or not
    rss: float  # resident: pages in RAM, shared ones counted in full
    pss: float  # resident, a page shared by n processes counted as 1/n


def now(device: str = "CPU:0") -> Reading:
    """Read this process's memory. Starts TensorFlow, if it has not run an op yet."""
    import tensorflow as tf

    used = tf.config.experimental.get_memory_info(device)["current"] / MIB
    rss, pss = _resident()
    return Reading(time.time(), used, _mapped(), rss, pss)


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def _mapped() -> float:
    """MiB that malloc has mapped in large blocks (glibc's mallinfo2: hblkhd)."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):  # not glibc, or older than 2.33
        return math.nan
    mallinfo2.restype = _Mallinfo
    return mallinfo2().hblkhd / MIB


def _resident() -> tuple[float, float]:
    """RSS and PSS in MiB (Linux: /proc/self/smaps_rollup)."""
    sizes = {"Rss:": math.nan, "Pss:": math.nan}
    with contextlib.suppress(OSError), open("/proc/self/smaps_rollup", encoding="ascii") as file:
        for line in file:
            name, *rest = line.split()
            if name in sizes:
                sizes[name] = int(rest[0]) / 1024
    return sizes["Rss:"], sizes["Pss:"]


def draw(readings: Sequence[Reading], *, title: str) -> Picture:
    """Readings of one process over time, from the first one on: what it took, what its tensors use, what it touched.

    Raises ValueError when there is nothing to draw.
    """
    if not readings:
        raise ValueError("draw: no readings")
    first = readings[0]
    seconds = [each.at - first.at for each in readings]
    lines = {
        "taken from the system": [each.taken - first.taken for each in readings],
        "touched (RSS)": [each.rss - first.rss for each in readings],
        "in use by tensors": [each.used - first.used for each in readings],
    }
    lines = {name: values for name, values in lines.items() if not math.isnan(values[0])}
    figure, axes = pictures.plot(7.5, 3.0, title=title, x="seconds", y="MiB since the start")
    axes.grid(axis="y", color=pictures.INK, alpha=0.3, linewidth=0.6)
    styles = zip(("#E69F00", "#CC79A7", "#56B4E9"), ("-", ":", "--"), strict=True)
    for (name, values), (colour, style) in zip(lines.items(), styles, strict=False):
        axes.plot(seconds, values, style, color=colour, linewidth=2.2, drawstyle="steps-post", label=name)
    axes.set_ylim(bottom=min(0.0, *(min(values) for values in lines.values())))
    axes.legend(loc="upper left", frameon=False, fontsize=pictures.FONT - 1, labelcolor=pictures.INK)
    sentences = [f"{name} rises to {max(values):.0f} and ends at {values[-1]:.0f}" for name, values in lines.items()]
    return pictures.render(figure, f"Memory over {seconds[-1]:.2g} seconds, {title}, in MiB: {'; '.join(sentences)}.")


class Paper:
    """What TensorFlow's settings would ask of cards that exist on paper only. Made by `paper`."""

    def __init__(self, context: Any) -> None:
        self._context = context

    @property
    def asked(self) -> Any:
        """The GPUOptions that TensorFlow would start its devices with. Raises ValueError where settings contradict."""
        return self._context._compute_gpu_options()


@contextlib.contextmanager
def paper(cards: int) -> Iterator[Paper]:
    """In this block `tf.config` sees so many GPUs, on paper: settings work as they do before TensorFlow starts.

    They are TensorFlow's own code and answers; no driver hears of them and no op can run on such a card. Outside of the
    block nothing has changed. Run no op inside.
    """
    from tensorflow.python.eager import context as module

    eager: Any = module
    kept = eager.context()
    fresh = eager.Context()
    eager._set_context(fresh)
    try:
        fresh._initialize_physical_devices()
        others = [device for device in fresh._physical_devices if device.device_type != "GPU"]
        gpus = [eager.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(cards)]
        fresh._physical_devices = [*others, *gpus]
        fresh._physical_device_to_index = {device: i for i, device in enumerate(fresh._physical_devices)}
        fresh._visible_device_list = list(fresh._physical_devices)
        fresh._memory_growth_map = dict.fromkeys(gpus)
        yield Paper(fresh)
    finally:
        eager._set_context(kept)


class OutOfMemory(MemoryError):  # noqa: N818 - the card's own name for it
    """A model's card, or a program's limit on it, has no room for what was asked."""


def default_limit(free: int) -> int:
    """What a program with no settings takes of a card with `free` MiB: all but a reserve (compute capability 8)."""
    return free - (225 if free < 2048 else 1536) if free > 225 else free


class Card:
    """A **model** of one card of `total` MiB; every program on it also needs a CUDA `context`, in MiB."""

    def __init__(self, total: int, context: int = CONTEXT) -> None:
        self.total = total
        self.context = context
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
        program.limit = limit or int(self.total * fraction) or default_limit(self.free)
        if not growth:
            program.next = program.limit
            with contextlib.suppress(OutOfMemory):  # what it cannot take now is missed when a tensor needs it
                program.extend(1)
        self.note(f"{name} starts")
        return program

    def note(self, event: str) -> None:
        """Remember how the card is shared after an event, for `draw`."""
        held = [(each.name, each.context, each.used, each.taken - each.used) for each in self.programs]
        self.history.append((event, held))

    def draw(self, title: str) -> Picture:
        """The card after each event: each program's context, what its tensors use, what it took and does not use."""
        return draw_card(self.history, self.total, title=f"MODEL: {title}")


@dataclass
class Program:
    """A program on a model's card. Sizes in MiB."""

    card: Card
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
        return self.card.context * self.alive

    @property
    def taken(self) -> int:
        """What it took from the card for tensors."""
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
        region = min(fitting, key=lambda each: each[1]) if fitting else self.extend(size)
        region[1] -= size
        self.tensors.append((size, region))
        self.card.note(f"{self.name} +{size}")

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
        while request > self.card.free:
            request = int(request * SMALLER)
            if request < size:
                raise OutOfMemory(
                    f"{self.name}: no room for a tensor of {size} MiB; {self.card.free} MiB are free on the card"
                )
        self.next *= 1 if doubled else 2
        self.regions.append([request, request])
        return self.regions[-1]

    def free(self) -> None:
        """Drop all its tensors. What it took stays taken."""
        for size, region in self.tensors:
            region[1] += size
        self.tensors.clear()
        self.card.note(f"{self.name} frees all")

    def end(self) -> None:
        """End the process: only now the card has its memory back."""
        self.alive = False
        self.tensors.clear()
        self.regions.clear()
        self.card.note(f"{self.name} ends")


def draw_card(history: Sequence[tuple[str, list[tuple[str, int, int, int]]]], total: int, *, title: str) -> Picture:
    """A card of `total` MiB after each event of `history`: (event, [(program, context, used, idle), ...]).

    Raises ValueError when there is nothing to draw.
    """
    if not history:
        raise ValueError("draw_card: nothing has happened on this card")
    figure, axes = pictures.plot(max(5.0, 1.6 + 0.85 * len(history)), 3.2, title=title, x="", y="MiB of the card")
    names = list(dict.fromkeys(name for _, held in history for name, *_ in held))
    shown: set[str] = set()
    for at, (_, held) in enumerate(history):
        height = 0
        for name, context, used, idle in held:
            fill = pictures.PALETTE[names.index(name) % len(pictures.PALETTE)]
            parts = (
                (context, "#999999", "", "CUDA context"),
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
        f"the card: {total} MiB",
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
    return pictures.render(figure, f"{title}. A card of {total} MiB; {'; '.join(sentences)}.")
