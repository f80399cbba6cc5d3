"""Who owns which memory: readings of a process and its GPU, where tensors lie, settings for GPUs that are not here.

- `now` reads what tensors use and what was taken for them, `places` where they lie.
- `paper` lets TensorFlow's own configuration code talk about GPUs that exist on paper: what it would ask a driver for.

Several programs on one GPU are in `across.programs`.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from across import hands, pictures, smi
from across._gpu import loading
from across._language import pictured
from across._language.catalogue import given, marked, said
from across.pictures import Stepper

if TYPE_CHECKING:
    from across.pictures import Picture

__all__ = [
    "CPU_LIMIT",
    "CPU_POOL",
    "MIB",
    "POOL",
    "Reading",
    "by_rule",
    "draw",
    "draw_filled",
    "draw_rule",
    "now",
    "paper",
    "places",
    "seen",
    "taken",
    "walk_places",
]

MIB = 1 << 20
CPU_POOL = "TF_CPU_ALLOCATOR_USE_BFC"  # environment: manage main memory by the allocator that manages a GPU's
CPU_LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
POOL = {CPU_POOL: "true", CPU_LIMIT: "256", "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class Reading:
    """Memory at one moment, in MiB; NaN where this system does not tell."""

    used: float  # by this process's tensors
    taken: float  # in regions, whether tensors fill them or not: of a GPU by all programs, of main memory by this one


def now(device: str = "GPU:0") -> Reading:
    """Read what tensors use of a device, and what is taken of it. Starts TensorFlow, if it has not run an op yet."""
    import tensorflow as tf

    used = tf.config.experimental.get_memory_info(device)["current"] / MIB
    return Reading(used, taken() if "GPU" in device else _mapped())


def taken() -> float:
    """MiB of the first GPU that programs have taken: by its own count if it is simulated, else by nvidia-smi."""
    if loading.loaded():
        return (loading.now()[1] - loading.free(0)) / MIB
    used = [row[0] for row in smi.query("memory.used")[:1]]
    return float(used[0]) if used and used[0].isdigit() else math.nan


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


class _Placed(ctypes.Structure):
    """The head of DLPack's DLTensor."""

    _fields_ = [("data", ctypes.c_void_p)]


def places(tensors: Sequence[Any]) -> list[tuple[float, float]]:
    """Where each tensor begins in its device's memory, and how large it is, in MiB."""
    import tensorflow as tf

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = []
    for tensor in tensors:
        capsule = tf.experimental.dlpack.to_dlpack(tensor)
        address = _Placed.from_address(pointer(capsule, b"dltensor")).data
        found.append((address / MIB, math.prod(tensor.shape) * tensor.dtype.size / MIB))
    return found


def walk_places(maps: Mapping[str, Sequence[tuple[float, float]]], *, title: str) -> Stepper:
    """Step through one process's memory: its tensors by `places`, what is new marked; what they leave is free.

    `maps` has them by words. The memory that is shown reaches as far as one of them ever did. Raises ValueError where none is.
    """
    every = list(itertools.chain(*maps.values()))
    if not every:
        raise ValueError("walk_places: no tensors")
    first, end = min(start for start, _ in every), max(start + size for start, size in every)
    steps, before = {}, frozenset()
    for words, row in maps.items():
        figure, axes = pictures.plot(8.0, 1.25, title=title, x=marked("MiB (orange: new; empty: free)"), y="")
        edges = [(first, 0.0), *sorted(row), (end, 0.0)]
        free = [(start + size, after - start - size) for (start, size), (after, _) in itertools.pairwise(edges)]
        free = [(start, size) for start, size in free if size > 0]
        fills = [pictures.PALETTE[place not in before] for place in row]
        style = {"edgecolor": pictures.INK, "linewidth": 0.8}
        axes.broken_barh([(start - first, size) for start, size in row], (0, 1), facecolors=fills, **style)
        axes.broken_barh(
            [(start - first, size) for start, size in free], (0, 1), facecolors="none", linestyle=":", **style
        )
        inks = [pictures.INK] * len(free) + [pictures.readable_on(fill) for fill in fills]
        for (start, size), ink in zip([*free, *row], inks, strict=True):
            middle = start - first + size / 2
            axes.text(middle, 0.5, f"{size:g}", ha="center", va="center", color=ink, fontsize=pictures.FONT - 1)
        axes.set_xlim(-1, end - first + 1)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        sizes = sorted(Counter(size for _, size in free).items())
        counts = said(", ").join(said("{0} of {1:g}", number, size) for size, number in sizes) or said("none")
        says = said("{0} tensors, {1:g} MiB. Free: {2}", len(row), sum(size for _, size in row), counts)
        alt = said("{0}, {1}. {2}.", given(title), given(words), says)
        steps[words], before = pictures.render(figure, alt), frozenset(row)
    return Stepper(steps, title)


def draw(readings: Sequence[Reading], *, title: str, each: str = "readings") -> Picture:
    """Readings of one process in their order: what was taken and what its tensors use, since the first one.

    `each` names the axis: what was done between two readings. Raises ValueError when there is nothing to draw.
    """
    if not readings:
        raise ValueError("draw: no readings")
    first = readings[0]
    lines = {
        marked("taken in regions"): [reading.taken - first.taken for reading in readings],
        marked("used by tensors"): [reading.used - first.used for reading in readings],
    }
    lines = {name: values for name, values in lines.items() if not math.isnan(values[0])}
    figure, axes = pictures.plot(7.5, 3.0, title=title, x=each, y=marked("MiB since the start"))
    axes.grid(axis="y", color=pictures.INK, alpha=0.3, linewidth=0.6)
    for (name, values), (colour, style) in zip(lines.items(), (("#E69F00", "-"), ("#56B4E9", "--")), strict=False):
        axes.plot(range(len(values)), values, style, color=colour, linewidth=2.2, drawstyle="steps-post", label=name)
    axes.set_ylim(bottom=min(0.0, *(min(values) for values in lines.values())))
    axes.legend(loc="upper left", frameon=False, fontsize=pictures.FONT - 1, labelcolor=pictures.INK)
    told = said("; ").join(
        said("{0} rises to {1:.0f} and ends at {2:.0f}", given(name), max(values), values[-1])
        for name, values in lines.items()
    )
    words = said("Memory over {0} {1}, {2}, in MiB: {3}.", len(readings) - 1, given(each), given(title), told)
    return pictures.render(figure, words)


def by_rule(extend: Callable[[int, int, int], tuple[int, int]], size: int, tensors: int, limit: int) -> list[int]:
    """MiB taken after each of so many tensors of `size`, where `extend(size, step, left)` says what a region is.

    The program has started: it took a region of 2 MiB, and its next step is 4.
    """
    rooms: list[int] = []
    step, taken, curve = 4, 0, []
    for _ in range(tensors):
        at = next((i for i, room in enumerate(rooms) if room >= size), None)
        if at is None:
            region, step = (int(each) for each in extend(size, step, limit - 2 - taken))
            rooms.append(region)
            taken, at = taken + region, -1
        rooms[at] -= size
        curve.append(taken)
    return curve


def draw_rule(curves: Mapping[int, tuple[Sequence[float], Sequence[float]]]) -> Picture:
    """Beside each other, by the size of the tensors in MiB: what a rule says was taken, and what was measured.

    All share their axes. Raises ValueError when there is nothing to draw.
    """
    if not curves:
        raise ValueError("draw_rule: no curves")
    figure = pictures.new_figure(8.0, 3.0)
    every = figure.subplots(1, len(curves), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (size, (rule, real)) in zip(every, curves.items(), strict=True):
        pictures.style(
            axes,
            title=pictured.said("Tensors of {0} MiB", size),
            x=marked("tensors"),
            y=marked("MiB taken") if axes is every[0] else "",
        )
        at = range(1, len(rule) + 1)
        axes.step(at, real, where="post", color="#E69F00", linewidth=6, label=marked("measured"))
        axes.step(at, rule, where="post", color="#0072B2", linestyle="--", linewidth=2, label=marked("your rule"))
    every[0].legend(frameon=False, labelcolor=pictures.INK, fontsize=pictures.FONT)
    figure.set_layout_engine("constrained")
    told = []
    for size, (rule, real) in curves.items():
        measured, ruled = ", ".join(f"{each:.0f}" for each in real), ", ".join(map(str, rule))
        told.append(said("{0} MiB tensors: measured {1}; your rule {2}", size, measured, ruled))
    return pictures.render(figure, said("MiB taken after each tensor. {0}.", said("; ").join(told)))


_FILLED = Path(__file__).with_name("filled_recorded.json")


def draw_filled(*, title: str) -> hands.Hands:
    """Sliders over what TensorFlow's allocator did, recorded by tools/record_filled.py: tensors until one was refused."""
    known = json.loads(_FILLED.read_text(encoding="utf-8"))

    def line(column: int) -> Callable[[int, int, str], float]:
        def at(tensors: int, limit: int, growth: str) -> float:
            found = known["filled"][f"{limit} {growth}"]
            return found[tensors - 1][column] if tensors <= len(found) else math.nan

        return at

    return hands.draw_lines(
        {marked("taken in regions"): line(0), marked("used by tensors"): line(1)},
        {
            pictured.said("tensors of {0} MiB", known["size"]): range(1, max(map(len, known["filled"].values())) + 2),
            marked("limit in MiB"): known["limits"],
            marked("growth"): ("no", "yes"),
        },
        title=title,
        y="MiB",
        start=(5, 64, "no"),
        none=marked("refused"),
    )


SETTINGS = (
    "set_memory_growth",
    "set_logical_device_configuration",
    "set_visible_devices",
)  # as TensorFlow's context has them


def _said(value: Any) -> Any:
    """What a setting was given, in plain values: a device is the end of its name, a piece its limit in MiB."""
    if hasattr(value, "device_type"):
        return value.name.rpartition("device:")[2]
    if hasattr(value, "memory_limit"):
        return None if value.memory_limit is None else float(value.memory_limit)
    return [_said(each) for each in value] if isinstance(value, (list, tuple)) else value


class Paper:
    """What TensorFlow's settings would ask of GPUs that exist on paper only. Made by `paper`."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.calls: list[list[Any]] = []  # [setting, GPU, value], in the order in which they were made
        for setting in SETTINGS:
            setattr(context, setting, self._noted(setting, getattr(context, setting)))

    def _noted(self, setting: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(devices: Any, value: Any = None) -> Any:
            self.calls.append([setting, _said(devices), _said(value)])
            return work(devices, value)

        return call

    def do(self, calls: Sequence[Sequence[Any]]) -> None:
        """Make `calls` that another paper noted. Raises what TensorFlow raises, ValueError for what is no such call."""
        import tensorflow as tf

        try:
            known = {_said(device): device for device in self._context.list_physical_devices()}
            for setting, devices, value in calls:
                if setting == "set_memory_growth":
                    self._context.set_memory_growth(known[devices], value)
                elif setting == "set_logical_device_configuration":
                    pieces = [tf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in value]
                    self._context.set_logical_device_configuration(known[devices], pieces)
                elif setting == "set_visible_devices":
                    wanted = devices if isinstance(devices, list) else [devices]
                    self._context.set_visible_devices([known[device] for device in wanted], value)
                else:
                    raise ValueError(f"{setting!r} is no setting")
        except (TypeError, KeyError) as error:
            raise ValueError(f"no calls that can be made: {error}") from None

    @property
    def asked(self) -> Any:
        """The GPUOptions that TensorFlow would start its devices with. Raises ValueError where settings contradict."""
        return self._context._compute_gpu_options()

    def settings(self) -> tuple[list[bool | None], list[int | None]]:
        """For each GPU whether growth was asked for, and its limit in MiB (None: no limit; a list where it is cut).

        Raises ValueError where settings contradict.
        """
        import tensorflow as tf

        found = tf.config.list_physical_devices("GPU")
        pieces = [[int(mib) for mib in each.memory_limit_mb] for each in self.asked.experimental.virtual_devices]
        limits: list[Any] = [each[0] if len(each) == 1 else each or None for each in pieces]
        growth = [tf.config.experimental.get_memory_growth(gpu) for gpu in found]
        return growth, limits or [None] * len(found)


@contextlib.contextmanager
def paper(gpus: int) -> Iterator[Paper]:
    """In this block `tf.config` sees so many GPUs, on paper: settings work as they do before TensorFlow starts.

    They are TensorFlow's own code and answers; no driver hears of them and no op can run on such a GPU. Outside of the
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
        made = [eager.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(gpus)]
        fresh._physical_devices = [*others, *made]
        fresh._physical_device_to_index = {device: i for i, device in enumerate(fresh._physical_devices)}
        fresh._visible_device_list = list(fresh._physical_devices)
        fresh._memory_growth_map = dict.fromkeys(made)
        yield Paper(fresh)
    finally:
        eager._set_context(kept)


def seen(value: str | None, gpus: int) -> list[int]:
    """The GPUs, of so many, that CUDA shows a program whose CUDA_VISIBLE_DEVICES is `value` (None: not set), in its order.

    CUDA reads from the left and stops at the first that is no number of a GPU. Names of GPUs (GPU-8932f937...) are left out.
    """
    if value is None:
        return list(range(gpus))
    numbers = [str(gpu) for gpu in range(gpus)]
    found = [each.strip() for each in value.split(",")]
    return [int(each) for each in itertools.takewhile(numbers.__contains__, found)]
