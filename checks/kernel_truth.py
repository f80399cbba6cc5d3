"""What checks on kernels are made of: TensorFlow's own lookup of a kernel, and ops that really land somewhere.

Truth is never written down here: the executor's lookup says whether there is a kernel (`found`), and eager ops that are
run in this process, on two GPUs and a CPU, say where they land (`lands`). Where TensorFlow is built without CUDA, what its
lookup would say of GPUs is read from the recorded list of `across.kernels`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry  # pyright: ignore[reportAttributeAccessIssue]
from tensorflow.python.util import _pywrap_kernel_registry  # pyright: ignore[reportAttributeAccessIssue]

from across import kernels, placement

v1 = tf.compat.v1
DTYPES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128
string""".split()
ASKED = [dtype for dtype in DTYPES if dtype != "bfloat16"]  # of which NumPy has arrays
KINDS = ("there", "elsewhere", "missing", "within", "default", "any", "inferred", "kept")
NUMPYS = {
    "int32": "int64",
    "float32": "float64",
}  # what NumPy makes of a Python number, where TensorFlow makes the first
AS_A_LIST = {  # what TensorFlow infers from the numbers of an array without their dtype
    **dict.fromkeys(["int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64"], "int32"),
    **dict.fromkeys(["float16", "float64"], "float32"),
    "complex64": "complex128",
}


def machine() -> list[str]:
    """The devices of this process, best first. Starts TensorFlow."""
    names = [placement.short_device(each.name) for each in tf.config.list_logical_devices()]
    if not {"GPU:0", "GPU:1", "CPU:0"} <= set(names):
        raise RuntimeError(f"these checks want two GPUs and a CPU, TensorFlow has started with {names}")
    return sorted(names, key=lambda name: "GPU" not in name)


Case = tuple[str, str]  # op, dtype of its one input, or of both

ANYWHERE: list[Case] = [("MatMul", "float32"), ("MatMul", "float64"), ("Sqrt", "float32"), ("Exp", "float64")]
CPU_ONLY: list[Case] = [
    ("MatMul", "int32"),
    ("MatMul", "int64"),
    ("MatrixSquareRoot", "float32"),
    ("RandomShuffle", "float32"),
    ("AsString", "float32"),
]
NOWHERE: list[Case] = [("MatMul", "uint8"), ("MatMul", "int8"), ("MatMul", "uint32")]
INPUTS = {"MatMul": ("a", "b"), "MatrixSquareRoot": ("input",), "RandomShuffle": ("value",), "AsString": ("input",)}


def types(case: Case) -> list[str]:
    """The device types that have a kernel for an op and a dtype."""
    return [device for device in ("CPU", "GPU") if found(*case, device)]


def lands(case: Case, wish: str | None, soft: bool) -> str | None:
    """Run an op eagerly under a pin: the device it ran on, None where TensorFlow raises."""
    op, dtype = case
    with tf.device("/CPU:0"):
        given = tf.constant(np.eye(2, dtype=dtype))
    tf.config.set_soft_device_placement(soft)
    try:
        with tf.device(wish and f"/{wish}"):
            made = getattr(tf.raw_ops, op)(**dict.fromkeys(INPUTS.get(op, ("x",)), given))
            return placement.short_device(made.backing_device)
    except tf.errors.OpError:
        return None
    finally:
        tf.config.set_soft_device_placement(True)


def refused(steps: Sequence[tuple[str, str, str]]) -> tuple[str, str] | None:
    """What hard placement says of products, (dtype, pin, name) each: whose pin, and of which op; None: all of them run."""
    tf.config.set_soft_device_placement(False)
    try:
        for dtype, pin, name in steps:
            with tf.device("/CPU:0"):
                given = tf.constant(np.eye(2, dtype=dtype))
            try:
                with tf.device(pin):
                    tf.raw_ops.MatMul(a=given, b=given, name=name)
            except tf.errors.OpError as error:
                return error.message.partition(". enable_soft")[0].splitlines()[0], name
        return None
    finally:
        tf.config.set_soft_device_placement(True)


def rule(wish: str | None, types: Sequence[str], here: Sequence[str], soft: bool) -> str | None:
    """Where an op with kernels for these types lands among the devices that are `here`, best first."""
    able = [name for name in here if name.split(":")[0] in types]
    if wish in able:
        return wish
    return able[0] if able and (soft or wish is None) else None


def elsewhere(rng: np.random.Generator, soft: bool) -> list[list[Any]]:
    """Questions about other machines, whose best device is not GPU:0."""
    cpus = [f"CPU:{k}" for k in range(int(rng.integers(1, 3)))]
    gpus = [f"GPU:{k}" for k in range(1, 3)][:: int(rng.choice([1, -1]))]
    both, cpu, gpu = ["CPU", "GPU"], ["CPU"], ["GPU"]
    asked: list[list[Any]] = [
        [None, both, cpus, soft],
        [None, gpu, cpus, soft],
        [None, both, [*gpus, "GPU:0", *cpus], soft],
        [None, both, ["CPU:0", "GPU:0"], soft],
        ["GPU:7", both, ["CPU:0", "GPU:0"], soft],
    ]
    asked += [
        ["GPU:7", each, where, soft] for each, where in ((both, cpus), (both, [*gpus, *cpus]), (cpu, [*gpus, *cpus]))
    ]
    return [asked[i] for i in rng.permutation(len(asked))]


@cache
def strays(how: str, layers: int, home: str, pin: str) -> list[str]:
    """Call a Keras model under a pin: the types of the ops that ran elsewhere. Its variables are on `home`."""
    with tf.device("/CPU:0"):
        images = tf.ones([1, 4, 4, 1])
    with tf.device(home):
        first = [tf.keras.layers.Resizing(2, 2, how), tf.keras.layers.Flatten()]
        model = tf.keras.Sequential([*first, *(tf.keras.layers.Dense(2) for _ in range(layers))])
        model(images)
    with tf.device(f"/{pin}"):
        seen = placement.trace(model, images)
    return [op.type for op in seen if op.device != pin]


def chain(x: Any) -> Any:
    """What the student's route is to compute."""
    return tf.square(tf.linalg.sqrtm(tf.square(tf.linalg.sqrtm(tf.square(x)))))


def traced(graph_def: Any, fetch: str, x: np.ndarray) -> tuple[np.ndarray, placement.Trace]:
    """Run a graph, "fed" from CPU:0, up to `fetch`: the value, and where its ops ran. AssertionError if it cannot."""

    def imported(x: Any) -> Any:
        return tf.import_graph_def(graph_def, {"fed": x}, [fetch], name="")[0]

    try:
        graph_def = v1.graph_util.extract_sub_graph(graph_def, [fetch.partition(":")[0]])  # what leads to the answer
    except Exception:
        raise AssertionError("The graph that your code built does not hold together.") from None
    if "fed" not in {node.name for node in graph_def.node}:
        raise AssertionError("What your code returned does not depend on its `x`.")
    try:
        with tf.device("/CPU:0"):
            given = tf.constant(x)
        run = v1.wrap_function(imported, [tf.TensorSpec(x.shape, x.dtype)])
        return np.asarray(run(given), np.float64), placement.trace(run, given)
    except Exception:  # ValueError, TypeError, tf.errors.OpError, and whatever else a student's graph provokes
        raise AssertionError("The graph that your code built cannot be run on a matrix.") from None


# The registry, by the executor's own lookup


@cache
def _listed() -> dict[str, list[Any]]:
    """Op -> its kernels, as TensorFlow was built: XLA adds those of its own devices when the first op is run."""
    by_op: dict[str, list[Any]] = {}
    for kernel in kernels.registered():
        if not kernel.label and kernel.device_type in ("CPU", "GPU", "DEFAULT"):
            by_op.setdefault(kernel.op, []).append(kernel)
    return by_op


@cache
def found(op: str, dtype: str, device: str) -> bool:
    """Whether TensorFlow's executor finds a kernel of `op` for `dtype` on a device type, in a build with CUDA."""
    if device == "GPU" and not tf.test.is_built_with_cuda():
        return _reads(op, dtype, device)
    node: Any = v1.NodeDef(name="n", op=op, device=f"/device:{device}:0")
    node.attr[_attribute(op)].type = tf.as_dtype(dtype).as_datatype_enum
    return bool(_pywrap_kernel_registry.TryFindKernelClass(node.SerializeToString()))


def _reads(op: str, dtype: str, device: str) -> bool:
    """What `found` says, read off the list: a thousand times faster, and without a word on stderr."""
    return bool(_own(op) & {(device, dtype), ("DEFAULT", dtype)})


@cache
def _attribute(op: str) -> str:
    """The op's one type attribute; "" if it has none, or several."""
    definition = op_def_registry.get(op)
    if definition is None or any(each.type == "list(type)" for each in definition.attr):
        return ""
    named = [each.name for each in definition.attr if each.type == "type"]
    return named[0] if len(named) == 1 else ""


@cache
def _own(op: str) -> frozenset[tuple[str, str]]:
    """(device type, dtype) of the op's kernels, as listed; a kernel without constraints has all dtypes."""
    pairs = set()
    for kernel in _listed().get(op, []):
        numbers = [list(each.allowed_values.list.type) for each in kernel.constraint]
        dtypes = [tf.as_dtype(number).name for number in numbers[0]] if numbers else DTYPES
        pairs |= {(kernel.device_type, dtype) for dtype in dtypes}
    return frozenset(pairs)


Question = tuple[str, str, str]  # op, dtype, device


@cache
def pools() -> dict[str, list[Question]]:
    """Questions by what must be understood to answer them, all about ops with one type attribute.

    "there": a kernel names the dtype. "elsewhere": only the other device has it. "missing": neither has. "within": no
    kernel, but its dtype's name is part of one that has. "default": only a DEFAULT kernel has it. "any": the kernel
    names no dtype. "inferred": of a Python number's dtype, where NumPy's for the same number has another answer. "kept": there
    is one for the array, and none for a list of its numbers.
    """
    drawn: dict[str, list[Question]] = {kind: [] for kind in KINDS}
    for op, listed in sorted(_listed().items()):
        attribute = _attribute(op)
        if op.startswith("_") or not attribute or any(c.name != attribute for k in listed for c in k.constraint):
            continue
        named, types = [bool(kernel.constraint) for kernel in listed], {kernel.device_type for kernel in listed}
        for dtype, device in itertools.product(ASKED, ("CPU", "GPU")):
            if not any(named) and "DEFAULT" not in types:
                kind = "any" if _reads(op, dtype, device) else "elsewhere"
            elif all(named) and types == {"CPU", "GPU"}:
                kind = _kind(op, dtype, device)
                if dtype in NUMPYS and _reads(op, dtype, device) != _reads(op, NUMPYS[dtype], device):
                    drawn["inferred"].append((op, dtype, device))
                if _reads(op, dtype, device) and not _reads(op, AS_A_LIST.get(dtype, dtype), device):
                    drawn["kept"].append((op, dtype, device))
            elif all(named) and ("DEFAULT", dtype) in _own(op) and (device, dtype) not in _own(op):
                kind = "default"
            else:
                continue
            drawn[kind].append((op, dtype, device))
    return drawn


def _kind(op: str, dtype: str, device: str) -> str:
    """What a question is about, of an op whose kernels all name their dtypes."""
    if _reads(op, dtype, device):
        return "there"
    if any(dtype in other and _reads(op, other, device) for other in DTYPES):
        return "within"
    return "elsewhere" if _reads(op, dtype, "CPU" if device == "GPU" else "GPU") else "missing"


def warm() -> None:
    """Look up what every check process would, before they are forked. No op is run."""
    pools()


def questions(rng: np.random.Generator, kinds: Sequence[str], count: int = 2) -> list[tuple[str, Question, bool]]:
    """Fresh questions, `count` of every kind, in any order: the kind, the question, and whether there is a kernel."""
    asked = []
    for kind in kinds:
        listed = pools()[kind]
        for i in rng.permutation(len(listed))[:count]:
            asked.append((kind, listed[i], found(*listed[i])))
    return [asked[i] for i in rng.permutation(len(asked))]
