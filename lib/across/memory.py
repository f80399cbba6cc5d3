"""Who owns which memory: readings of a process, and TensorFlow's settings for GPUs that are not here.

- `now` measures the process that calls it; `CPU_POOL` makes TensorFlow manage main memory as it manages a GPU's.
- `paper` lets TensorFlow's own configuration code talk about GPUs that exist on paper: what it would ask a driver for.

The model of a GPU that several programs share is in `across.gpu_model`.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from across import pictures
from across._language.catalogue import marked

if TYPE_CHECKING:
    from across.pictures import Picture

MIB = 1 << 20
CPU_POOL = "TF_CPU_ALLOCATOR_USE_BFC"  # environment: manage main memory by the allocator that manages a GPU's
CPU_LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"


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


def draw(readings: Sequence[Reading], *, title: str, each: str = "readings") -> Picture:
    """Readings of one process in their order: what it took, what its tensors use, what it touched, since the first one.

    `each` names the axis: what was done between two readings. Raises ValueError when there is nothing to draw.
    """
    if not readings:
        raise ValueError("draw: no readings")
    first = readings[0]
    lines = {
        marked("taken from the system"): [reading.taken - first.taken for reading in readings],
        marked("touched (RSS)"): [reading.rss - first.rss for reading in readings],
        marked("in use by tensors"): [reading.used - first.used for reading in readings],
    }
    lines = {name: values for name, values in lines.items() if not math.isnan(values[0])}
    figure, axes = pictures.plot(7.5, 3.0, title=title, x=each, y=marked("MiB since the start"))
    axes.grid(axis="y", color=pictures.INK, alpha=0.3, linewidth=0.6)
    styles = zip(("#E69F00", "#CC79A7", "#56B4E9"), ("-", ":", "--"), strict=True)
    for (name, values), (colour, style) in zip(lines.items(), styles, strict=False):
        axes.plot(range(len(values)), values, style, color=colour, linewidth=2.2, drawstyle="steps-post", label=name)
    axes.set_ylim(bottom=min(0.0, *(min(values) for values in lines.values())))
    axes.legend(loc="upper left", frameon=False, fontsize=pictures.FONT - 1, labelcolor=pictures.INK)
    sentences = [f"{name} rises to {max(values):.0f} and ends at {values[-1]:.0f}" for name, values in lines.items()]
    return pictures.render(figure, f"Memory over {len(readings) - 1} {each}, {title}, in MiB: {'; '.join(sentences)}.")


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
            axes, title=f"Tensors of {size} MiB", x=marked("tensors"), y=marked("MiB taken") if axes is every[0] else ""
        )
        at = range(1, len(rule) + 1)
        axes.step(at, real, where="post", color="#E69F00", linewidth=6, label=marked("measured"))
        axes.step(at, rule, where="post", color="#0072B2", linestyle="--", linewidth=2, label=marked("your rule"))
    every[0].legend(frameon=False, labelcolor=pictures.INK, fontsize=pictures.FONT)
    figure.set_layout_engine("constrained")
    said = [
        f"{size} MiB tensors: measured {', '.join(f'{each:.0f}' for each in real)}; your rule {', '.join(map(str, rule))}"
        for size, (rule, real) in curves.items()
    ]
    return pictures.render(figure, f"MiB taken after each tensor. {'; '.join(said)}.")


class Paper:
    """What TensorFlow's settings would ask of GPUs that exist on paper only. Made by `paper`."""

    def __init__(self, context: Any) -> None:
        self._context = context

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
