"""Which devices and dtypes an op has kernels for: TensorFlow's own kernel registry, as values, a table and a picture.

    kernels.of("MatMul")                # a table; iterate over it for the kernels
    kernels.of("MatMul").draw()         # devices against dtypes

The registry is the list that the placer looks into. It is filled while TensorFlow's libraries load and is the same with
and without a GPU, so that GPU kernels can be looked up on any machine. Some device types (XLA's) add theirs when
TensorFlow starts. Follows tensorflow/core/framework/op_kernel.h, KernelDef.

TensorFlow built without CUDA (tensorflow-cpu, the wheels for macOS and Windows) has almost no GPU kernels on its list.
There the kernels for CPU, GPU and DEFAULT are those of a list recorded from the Linux wheel with CUDA, of the version in
RECORDED; XLA's are read on the machine. `source()` says which list is shown. A new recording, where there is CUDA:

    python -c "from across import kernels; kernels.record()"
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from across._gpu.loading import PRIORITY
from across._language import pictured
from across._language.catalogue import given, marked, said
from across.pictures import FONT, INK, PALETTE, Picture, Tabled, plot, render

__all__ = ["DTYPES", "RECORDED", "TYPES", "of", "record", "recording", "registered", "source"]

TYPES = ("CPU", "GPU", "DEFAULT")  # device types that are shown, and recorded; the rest serves compilers and TPUs
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "string"),
)
RECORDED = "2.21.0"  # the TensorFlow version, built with CUDA, whose list was recorded
_RECORDING = Path(__file__).with_name("kernels_recorded.pb.xz")  # a KernelList, compressed


@dataclass(frozen=True)
class Kernel:
    """One entry of the registry: code for an op, on one device type, for some dtypes."""

    op: str
    device: str  # "CPU"; "DEFAULT" stands in where a device type has no fitting kernel of its own
    dtypes: dict[str, tuple[str, ...]]  # which dtypes each of the op's type attributes may have; none named: any
    host: tuple[str, ...] = ()  # inputs and outputs that stay in the CPU's memory, wherever the kernel is

    def description(self) -> str:
        """Its dtypes in words: "T: float32"."""
        return "; ".join(f"{name}: {', '.join(allowed)}" for name, allowed in self.dtypes.items()) or "any"


@dataclass(frozen=True, repr=False)
class Kernels(Tabled):
    """The kernels of one op."""

    columns = ("op", marked("device"), "dtypes", marked("in the CPU's memory"))

    op: str
    found: tuple[Kernel, ...]

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def rows(self) -> list[list[str]]:
        """One row for each device type and what it keeps on the host; its kernels' dtypes side by side."""
        grouped: dict[tuple[str, str], list[str]] = {}
        for kernel in self.found:
            grouped.setdefault((kernel.device, ", ".join(kernel.host)), []).append(
                ", ".join(next(iter(kernel.dtypes.values()), ("any",)))
                if len(kernel.dtypes) < 2
                else kernel.description()
            )
        order = sorted(grouped, key=lambda key: (TYPES.index(key[0]), key[1]))
        return [[self.op, key[0], ", ".join(dict.fromkeys(grouped[key])), key[1]] for key in order]

    def draw(self, *, title: str = "", devices: Sequence[str] = ()) -> Picture:
        """Draw device types against DTYPES: a filled circle where there is a kernel, a ring where its data stay on the host.

        Rows are `devices`, so that pictures can be compared; by default those with a kernel. With several type attributes
        the first one of each kernel is drawn. Raises ValueError for an op without kernels.
        """
        if not self.found:
            raise ValueError(f"draw: {self.op} has no kernels")
        rows = devices or [device for device in TYPES if any(kernel.device == device for kernel in self.found)]
        return _drawn(
            title or pictured.said("Kernels of {0}", self.op), {device: self._marks(device) for device in rows}
        )

    def _marks(self, device: str) -> dict[str, bool]:
        """dtype -> whether its data stay on the host."""
        marks: dict[str, bool] = {}
        for kernel in self.found:
            if kernel.device == device:
                attribute, allowed = next(iter(kernel.dtypes.items()), ("", DTYPES))
                data = _of_type(self.op, attribute)
                on_host = bool(data) and data <= set(kernel.host)
                marks.update({dtype: on_host for dtype in allowed if dtype in DTYPES})
        return marks


def of(op: str) -> Kernels:
    """The kernels of `op` on the device types in TYPES, by device. An unknown op, or one without kernels, has none.

    Kernels with a label, which only run when asked for by name, are left out.
    """
    listed = [kernel for kernel in registered(op) if not kernel.label]
    distinct = {repr(k): k for k in (_read(kernel) for kernel in listed) if k.device in TYPES}
    return Kernels(op, tuple(sorted(distinct.values(), key=lambda k: (TYPES.index(k.device), k.description()))))


def source() -> str:
    """Which list is shown here: "read from TensorFlow 2.21.0, built with CUDA"."""
    import tensorflow as tf

    if _with_cuda():
        return f"read from TensorFlow {tf.__version__}, built with CUDA"
    return f"recorded from TensorFlow {RECORDED} with CUDA; TensorFlow {tf.__version__} here is built without"


def registered(op: str | None = None) -> list[Any]:
    """The registry's own entries (KernelDef), of one op or of all: as TensorFlow has them, or as recorded."""
    from tensorflow.python.framework import kernels

    listed = kernels.get_registered_kernels_for_op(op) if op else kernels.get_all_registered_kernels()
    own = [kernel for kernel in listed.kernel if kernel.priority < PRIORITY]  # those of simulated GPUs say nothing new
    if _with_cuda():
        return own
    recorded = _recorded().get(op, []) if op else [kernel for each in _recorded().values() for kernel in each]
    return recorded + [kernel for kernel in own if kernel.device_type not in TYPES]


def record(path: Path = _RECORDING) -> Path:
    """Write this TensorFlow's kernels for CPU, GPU and DEFAULT to `path`, 35 KB. Raises RuntimeError without CUDA."""
    from tensorflow.core.framework import kernel_def_pb2

    if not _with_cuda():
        raise RuntimeError("record: TensorFlow here is built without CUDA")
    kept = sorted(
        (kernel for kernel in registered() if kernel.device_type in TYPES),
        key=lambda kernel: (kernel.op, kernel.SerializeToString(deterministic=True)),
    )
    listed = kernel_def_pb2.KernelList(kernel=kept)  # pyright: ignore[reportAttributeAccessIssue]
    recording = listed.SerializeToString(deterministic=True)
    path.write_bytes(lzma.compress(recording, preset=9 | lzma.PRESET_EXTREME))
    return path


def _with_cuda() -> bool:
    import tensorflow as tf

    return tf.test.is_built_with_cuda()


def recording() -> bytes:
    """The recorded list, a serialized KernelList."""
    return lzma.decompress(_RECORDING.read_bytes())


@cache
def _recorded() -> dict[str, list[Any]]:
    """Op -> its kernels in the recording."""
    from tensorflow.core.framework import kernel_def_pb2

    listed = kernel_def_pb2.KernelList.FromString(recording())  # pyright: ignore[reportAttributeAccessIssue]
    by_op: dict[str, list[Any]] = {}
    for kernel in listed.kernel:
        by_op.setdefault(kernel.op, []).append(kernel)
    return by_op


def _of_type(op: str, attribute: str) -> set[str]:
    """The inputs and outputs whose dtype an attribute says: not a variable's handle, nor a shape."""
    from tensorflow.python.framework import op_def_registry  # pyright: ignore[reportAttributeAccessIssue]

    definition = op_def_registry.get(op)
    if definition is None or not attribute:
        return set()
    return {each.name for each in (*definition.input_arg, *definition.output_arg) if each.type_attr == attribute}


def _read(kernel: Any) -> Kernel:
    import tensorflow as tf

    dtypes = {
        each.name: tuple(tf.as_dtype(number).name for number in each.allowed_values.list.type)
        for each in kernel.constraint
        if each.allowed_values.list.type
    }
    return Kernel(kernel.op, kernel.device_type, dtypes, tuple(kernel.host_memory_arg))


def _drawn(title: str, marks: dict[str, dict[str, bool]]) -> Picture:
    ringed = any(on_host for found in marks.values() for on_host in found.values())
    x = marked("dtype (ring: its numbers stay in the CPU's memory)") if ringed else "dtype"
    figure, axes = plot(7.4, 1.35 + 0.36 * len(marks), title=title, x=x, y=marked("device type"))
    for row, found in enumerate(marks.values()):
        for column, dtype in enumerate(DTYPES):
            if dtype in found:
                fill = "none" if found[dtype] else PALETTE[2]
                axes.plot(
                    column, row, "o", markersize=11, markerfacecolor=fill, markeredgecolor=PALETTE[2], markeredgewidth=2
                )
            else:
                axes.plot(column, row, "_", markersize=6, color=INK, alpha=0.5)
    axes.set_xticks(range(len(DTYPES)), DTYPES, rotation=40, ha="right", fontsize=FONT - 1)
    axes.set_yticks(range(len(marks)), list(marks))
    axes.set_xlim(-0.6, len(DTYPES) - 0.4)
    axes.set_ylim(len(marks) - 0.4, -0.6)
    told = []
    for device, found in marks.items():
        text = said(", ").join(dtype + (said(" (data in the CPU's memory)") if found[dtype] else "") for dtype in found)
        told.append(said("{0}: {1}", device, text or said("none of these")))
    return render(figure, said("{0}, device types against dtypes. {1}.", given(title), said("; ").join(told)))
