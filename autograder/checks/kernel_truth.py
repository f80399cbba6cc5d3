"""What checks on kernels are made of: TensorFlow's own lookup of a kernel, and ops that really land somewhere.

Truth is never written down here: the executor's lookup says whether there is a kernel (`found`), and eager ops that are
run in this process say where they land (`lands`, `complaints`). The second kind of device is XLA's posing as one.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry  # pyright: ignore[reportAttributeAccessIssue]
from tensorflow.python.util import _pywrap_kernel_registry  # pyright: ignore[reportAttributeAccessIssue]

v1 = tf.compat.v1
FLAG = "--tf_xla_enable_xla_devices"
ADDRESS = "/job:localhost/replica:0/task:0/device:"
DTYPES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128
string""".split()


def machine() -> list[str]:
    """Start TensorFlow with three CPUs (unless it has its devices already) and XLA's device: their names, best first."""
    before = os.environ.get("TF_XLA_FLAGS")
    os.environ["TF_XLA_FLAGS"] = FLAG  # read when TensorFlow starts; not for processes that are started from here
    try:
        cpu = tf.config.list_physical_devices("CPU")[0]
        if not tf.config.get_logical_device_configuration(cpu):
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
        names = [device.name.split("device:")[-1] for device in tf.config.list_logical_devices()]
    finally:
        os.environ.pop("TF_XLA_FLAGS") if before is None else os.environ.update(TF_XLA_FLAGS=before)
    if "XLA_CPU:0" not in names or "GPU:0" in names:
        raise RuntimeError(f"these checks want CPUs and XLA_CPU:0, TensorFlow has started with {names}")
    return names


def _segments(op: str) -> Callable[[Any], Any]:
    return lambda x: getattr(tf.raw_ops, op)(
        data=x, segment_ids=tf.constant([0, 1, 2]), num_segments=tf.constant(3), name=None
    )


def _plain(op: str) -> Callable[[Any], Any]:
    return lambda x: getattr(tf.raw_ops, op)(x=x)


ANYWHERE = ["Sqrt", "Exp", "Erf", "Lgamma", "Sinh", "Digamma", "Log1p", "Rsqrt"]
CPU_ONLY = ["FresnelCos", "FresnelSin", "Spence", "Dawsn", "Expint", "BesselJ0", "BesselK1"]
XLA_ONLY = ["SegmentSumV2", "SegmentMaxV2", "SegmentMinV2", "SegmentProdV2"]
NOWHERE: dict[str, Callable[[Any], Any]] = {
    "FFTND": lambda x: tf.raw_ops.FFTND(input=tf.complex(x, x), fft_length=[3], axes=[0]),
    "RFFTND": lambda x: tf.raw_ops.RFFTND(input=x, fft_length=[3], axes=[0]),
    "NcclAllReduce": lambda x: tf.raw_ops.NcclAllReduce(input=x, reduction="sum", num_devices=1, shared_name="x"),
}
RUN: dict[str, Callable[[Any], Any]] = {
    **{op: _plain(op) for op in ANYWHERE + CPU_ONLY},
    **{op: _segments(op) for op in XLA_ONLY},
    **NOWHERE,
}


@cache
def types(op: str) -> tuple[str, ...]:
    """The device types that an op of RUN has kernels on."""
    machine()
    shown = {kernel.device_type for kernel in kernels.get_registered_kernels_for_op(op).kernel}
    return tuple(sorted(shown & {"CPU", "GPU", "XLA_CPU", "DEFAULT"}))


def lands(op: str, x: Any, wish: str | None, soft: bool) -> tuple[str | None, Any]:
    """Run an op eagerly on `x` under a pin: the device it ran on and its value; None where TensorFlow raises."""
    tf.config.set_soft_device_placement(soft)
    try:
        with tf.device(wish and f"/device:{wish}"):
            y = RUN[op](x)
        return y.backing_device.split("device:")[-1], y
    except tf.errors.OpError:
        return None, None
    finally:
        tf.config.set_soft_device_placement(True)


def complaint(op: str, wish: str, way: str) -> str:
    """What TensorFlow says of an op under a pin that it cannot obey: way "eager", "function" or "session"."""
    tf.config.set_soft_device_placement(False)

    def pinned() -> Any:
        with tf.device(f"/device:{wish}"):
            return RUN[op]([1.0, 2.0, 3.0])

    try:
        if way == "session":
            with tf.Graph().as_default():
                y = pinned()
                with v1.Session(config=v1.ConfigProto(device_count={"CPU": 3})) as session:
                    session.run(y)
        else:
            (pinned if way == "eager" else tf.function(pinned, autograph=False))()
    except tf.errors.OpError as error:
        message = error.message.partition("\nOriginal stack trace")[0]
        traced = ("    File", "Detected at node", "  File")  # this file's own lines: not for the student
        return "\n".join(line for line in message.splitlines() if not line.startswith(traced))
    finally:
        tf.config.set_soft_device_placement(True)
    raise RuntimeError(f"{op} on {wish} was to fail, {way}")


# The registry, by the executor's own lookup


@cache
def _listed() -> dict[str, list[Any]]:
    """Op -> its kernels, as TensorFlow was built: XLA adds those of its own devices when the first op is run."""
    by_op: dict[str, list[Any]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        by_op.setdefault(kernel.op, []).append(kernel)
    return by_op


@cache
def found(op: str, dtype: str, device: str) -> bool:
    """Whether TensorFlow's executor would find a kernel of `op` for `dtype` on a device type."""
    node: Any = v1.NodeDef(name="n", op=op, device=f"/device:{device}:0")
    node.attr[_attribute(op)].type = tf.as_dtype(dtype).as_datatype_enum
    return bool(_pywrap_kernel_registry.TryFindKernelClass(node.SerializeToString()))


@cache
def _attribute(op: str) -> str:
    """The op's one type attribute; "" if it has none, or several."""
    definition = op_def_registry.get(op)
    if definition is None or any(each.type == "list(type)" for each in definition.attr):
        return ""
    named = [each.name for each in definition.attr if each.type == "type"]
    return named[0] if len(named) == 1 else ""


@cache
def pools() -> dict[str, list[str]]:
    """Ops with one type attribute: those with plain kernels, with a DEFAULT one, and with one that takes any dtype."""
    drawn: dict[str, list[str]] = {"plain": [], "default": [], "any": []}
    for op, every in sorted(_listed().items()):
        attribute = _attribute(op)
        listed = [k for k in every if not k.label and k.device_type in ("CPU", "GPU", "DEFAULT")]
        if not listed:
            continue
        if op.startswith("_") or not attribute or any(c.name != attribute for k in listed for c in k.constraint):
            continue
        if not unnamed(op, "GPU") and any(_stands_in(op, dtype) for dtype in DTYPES):
            drawn["default"].append(op)
        elif any(not kernel.constraint for kernel in listed):
            # what else decides has the other pools: an answer that overlooks it must not fail here on some draws only
            if all(not kernel.constraint and kernel.device_type != "DEFAULT" for kernel in listed):
                drawn["any"].append(op)
        elif {kernel.device_type for kernel in listed} == {"CPU", "GPU"}:
            drawn["plain"].append(op)
    return drawn


@cache
def _own(op: str) -> frozenset[tuple[str, str]]:
    """(device type, dtype) of the op's kernels, as the registry has them; a kernel without constraints has all dtypes."""
    pairs = set()
    for kernel in _listed().get(op, []):
        numbers = [list(each.allowed_values.list.type) for each in kernel.constraint]
        dtypes = [tf.as_dtype(number).name for number in numbers[0]] if numbers else DTYPES
        pairs |= {(kernel.device_type, dtype) for dtype in dtypes}
    return frozenset(pairs)


def _stands_in(op: str, dtype: str) -> bool:
    """Whether a DEFAULT kernel is all that a GPU has for a dtype."""
    return ("DEFAULT", dtype) in _own(op) and ("GPU", dtype) not in _own(op)


def unnamed(op: str, device: str) -> bool:
    """Whether an op has a kernel for a device type that names no dtype."""
    return any(k.device_type in (device, "DEFAULT") and not k.constraint for k in _listed().get(op, []))


def warm() -> None:
    """Look up what every check process would, before they are forked: 0.2 s. No op is run."""
    for op in pools()["any"]:
        for dtype, device in itertools.product(DTYPES, ("CPU", "GPU")):
            found(op, dtype, device)


Question = tuple[str, str, str]  # op, dtype, device


def questions(rng: np.random.Generator, pool: str, count: int) -> list[tuple[Question, bool]]:
    """Fresh questions with their answers, as many of each kind as the pool gives.

    Half of the plain ones whose answer is no have a kernel on the other device: what is misread is asked at every draw.
    """
    asked: dict[str, list[tuple[Question, bool]]] = {"yes": [], "no": [], "elsewhere": []}
    most = {"yes": count, "no": count - count // 2, "elsewhere": count // 2}
    listed = pools()[pool]
    for op in (listed[i] for i in rng.permutation(len(listed))):
        kinds: dict[str, list[Question]] = {kind: [] for kind in asked}
        for dtype in DTYPES:
            there = {device: found(op, dtype, device) for device in ("CPU", "GPU")}
            for device, yes in there.items():
                kind = "yes" if yes else "elsewhere" if any(there.values()) else "no"
                kinds[kind].append((op, dtype, device))
        for kind, each in kinds.items():
            if pool == "default" and kind == "yes":
                each = [question for question in each if question[2] == "GPU" and _stands_in(op, question[1])]
            if len(asked[kind]) < most[kind]:
                asked[kind] += [(each[i], kind == "yes") for i in rng.permutation(len(each))[:2]]
        if all(len(each) >= most[kind] for kind, each in asked.items() if pool == "plain" or kind != "elsewhere"):
            break
    every = [question for kind, each in asked.items() for question in each[: most[kind]]]
    return [every[i] for i in rng.permutation(len(every))]
