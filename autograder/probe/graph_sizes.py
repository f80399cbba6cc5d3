"""What a graph's results would take, by the shapes that TensorFlow itself infers when the graph is imported.

`tf.fill([28000, 28000])` is a graph of a hundred bytes and a tensor of 3 GB. What depends on values that are not in the
graph is not known here; the checker's own limits bound it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

STRING = 24  # bytes of an empty one
PLACEHOLDERS = frozenset({"Placeholder", "VarHandleOp"})  # take nothing until they are given something


@dataclass(frozen=True)
class Work:
    """What it comes to when each operation of a graph is run once, as far as the shapes are known."""

    largest: int  # bytes of the largest result
    largest_op: str  # "Fill, of shape (28000, 28000)"
    all_results: int  # bytes of all results
    products: int  # multiplications in products of matrices and in convolutions


def constant_bytes(tensor: Any) -> int:
    """The bytes that a TensorProto takes when it is read: it may write one number for all of its elements."""
    return math.prod(max(dim.size, 0) for dim in tensor.tensor_shape.dim) * _item_size(tensor.dtype)


def dtype_name(number: int) -> str:
    """The name of a types_pb2.DataType; "" if there is none."""
    import tensorflow as tf

    try:
        return tf.as_dtype(number).name
    except TypeError:
        return ""


def work(operations: Iterable[Any]) -> Work:
    """Add up what `operations` (tf.Operation) do when each is run once; where a shape is not known, nothing."""
    largest, largest_op, everything, products = 0, "", 0, 0
    for operation in operations:
        if operation.type in PLACEHOLDERS:
            continue
        for result in operation.outputs:
            shape = _known(result.shape)
            if shape is None:
                continue
            size = math.prod(shape) * _item_size(result.dtype.as_datatype_enum)
            everything += size
            if size > largest:
                largest, largest_op = size, f"{operation.type}, of shape {shape}"
        products += _products(operation)
    return Work(largest, largest_op, everything, products)


def _known(shape: Any) -> tuple[int, ...] | None:
    return tuple(shape.as_list()) if shape.is_fully_defined() else None


def _item_size(dtype: int) -> int:
    import tensorflow as tf

    name = dtype_name(dtype)
    return STRING if name in ("", "string") else tf.as_dtype(name).size


def _products(operation: Any) -> int:
    """The multiplications of a product of matrices, an einsum or a convolution; 0 for anything else."""
    shapes = [_known(tensor.shape) for tensor in operation.inputs]
    result = _known(operation.outputs[0].shape) if len(operation.outputs) else None
    if result is None or None in shapes:
        return 0
    known = [shape for shape in shapes if shape is not None]
    match operation.type:
        case "MatMul" | "BatchMatMulV2" | "BatchMatMulV3" if known[0]:
            turned = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
            return math.prod(result) * known[0][-2 if turned else -1]
        case "Einsum":
            inputs = operation.get_attr("equation").decode(errors="replace").replace(".", "").partition("->")[0]
            lengths: dict[str, int] = {}
            for labels, shape in zip(inputs.split(","), known, strict=False):
                lengths.update(zip(reversed(labels), reversed(shape), strict=False))
            return max(math.prod(lengths.values()), math.prod(result))
        case "Conv2D" | "Conv2DBackpropInput" | "Conv2DBackpropFilter" | "MaxPool" | "AvgPool" | "MaxPoolGrad":
            images = max(math.prod(shape) for shape in (result, *known))
            if "Conv2D" not in operation.type:
                return images * math.prod(operation.get_attr("ksize"))
            filters = known[1] if operation.type != "Conv2DBackpropFilter" else result
            return images * math.prod(filters[:2]) * max(filters[2:], default=1)
    return 0
