"""What checks on graphs are made of: a student's code builds a graph there, and it is run here on fresh inputs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from across import placement
from across.expecting import anything, list_of, row, text
from autograder.probe.asking import probe
from placing import device_of, imported, ran, session


@probe(graphs=1)
def traced(student, size, devices):
    from across import tracing

    spec = tf.TensorSpec([size, size], tf.float32)
    made = tracing.program(lambda a, b: student.split(a, b, devices), spec, spec)
    return made.graph_def, made.inputs, made.outputs


TRIPLES = [  # never what the notebook asks for (1, 2, 3), nor its first two swapped, nor the sum on the default device
    (i, j, k)
    for i, j, k in itertools.permutations(range(4), 3)
    if i != 1 and j != 2 and k not in (0, 3) and (i, j) != (2, 1)
]
PINNED = [each for each in TRIPLES if 0 not in each[:2]]  # a product that nobody pinned runs on CPU:0
PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")


TRACED = row(anything, list_of(text), list_of(text)).named("a graph that can be run")


class Halves:
    """The student's `split`, traced there and run here on fresh matrices."""

    def __init__(self, student: Any, rng: np.random.Generator, triples: list[tuple[int, ...]] = TRIPLES) -> None:
        size = int(rng.integers(3, 6))
        self.devices = [f"/cpu:{i}" for i in triples[rng.integers(len(triples))]]
        self.call = f"`placement.trace(split, tf.eye({size}), tf.ones([{size}, {size}]), {self.devices})`"
        self.a, self.b = rng.integers(-9, 10, size=(2, size, size)).astype("float32")
        self.b[0, 1] += 20.0 * np.array_equal(self.a @ self.b, self.b @ self.a)
        answer = student.ask(traced, size=size, devices=self.devices)
        graph_def, inputs, outputs = TRACED(answer, "Your code led to")
        graph = imported(graph_def)
        assert len(outputs) == 1, "`split` returned no single tensor; expected one: the sum."
        try:
            feed = {graph.get_tensor_by_name(name): x for name, x in zip(inputs, (self.a, self.b), strict=True)}
            out = graph.get_tensor_by_name(outputs[0])
            tensors = candidates(graph, [size, size])
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        with session(graph) as running:
            self.where, (self.total, *values) = ran(running, [out, *tensors], feed)
        while out.op.type == "Identity":
            out = out.op.inputs[0]
        self.last = self.where.get(out.op.name)
        self.values = dict(zip((tensor.ref() for tensor in tensors), values, strict=True))

    def computed(self, value: np.ndarray) -> set[str | None]:
        """Where ops computed `value`: their output is it, and none of their inputs was already."""
        holding = {tensor for tensor, got in self.values.items() if same(got, value)}
        first = [t.deref().op for t in holding if not any(each.ref() in holding for each in t.deref().op.inputs)]
        return {self.where.get(op.name) for op in first}


def candidates(graph: tf.Graph, shape: list[int]) -> list[Any]:
    """The tensors of that shape that can be looked at: in a loop, which has a value for every turn, none can."""
    ops = graph.get_operations()
    if any(op.type in ("Enter", "Switch", "Merge") for op in ops):
        ops = [op for op in ops if op.type in PRODUCTS]
    tensors = [tensor for op in ops if op.type != "Placeholder" for tensor in op.outputs]
    return [t for t in tensors if t.dtype == tf.float32 and t.shape.rank == 2 and t.shape.as_list() == shape]


def same(got: Any, wanted: np.ndarray) -> bool:
    numbers = np.asarray(got)
    return numbers.dtype.kind == "f" and numbers.shape == wanted.shape and np.allclose(numbers, wanted, atol=1e-3)


@probe(graphs=1)
def traced_forward(student, homes, size):
    """Trace `forward` of a model whose weights are on `homes`; in its graph each weight is a variable of its own.

    Every layer but the last has an activation, which `forward` must not forget.
    """
    from across import tracing

    activations = ["relu"] * (len(homes) - 1) + [None]
    model = tf.keras.Sequential([tf.keras.layers.Dense(size, activation=each) for each in activations])
    weights = {}
    for i, (layer, home) in enumerate(zip(model.layers, homes, strict=True)):
        with tf.device(home):
            layer.build([None, size])
        weights |= {f"{kind}_{i}": (getattr(layer, kind).value, home) for kind in ("kernel", "bias")}
    made = tracing.program(lambda x: student.forward(model, x), tf.TensorSpec([2, size], tf.float32), weights=weights)
    return made.graph_def, made.inputs, made.outputs


class Forward:
    """The student's `forward`, traced there and run here on fresh weights: is it right, and what was copied?"""

    def __init__(self, student: Any, rng: np.random.Generator, homes: list[str]) -> None:
        size = int(rng.integers(3, 6))
        x = rng.integers(-3, 4, size=(2, size)).astype("float32")
        self.homes = [device_of(home) for home in homes]
        self.budget = sum(one != two for one, two in itertools.pairwise(["CPU:0", *self.homes]))
        weights: dict[str, np.ndarray] = {}
        wanted = linear = x
        while same(linear, wanted):  # the activations must tell
            wanted = linear = x
            for i in range(len(homes)):
                weights[f"kernel_{i}"] = rng.integers(-3, 4, size=(size, size)).astype("float32")
                weights[f"bias_{i}"] = rng.integers(1, 9, size=size).astype("float32")
                wanted = wanted @ weights[f"kernel_{i}"] + weights[f"bias_{i}"]
                linear = linear @ weights[f"kernel_{i}"] + weights[f"bias_{i}"]
                if i < len(homes) - 1:
                    wanted = np.maximum(wanted, 0.0)
        answer = student.ask(traced_forward, homes=homes, size=size)
        graph_def, inputs, outputs = TRACED(answer, "Your code led to")
        graph = imported(graph_def)
        assert len(outputs) == len(inputs) == 1, (
            "`forward` returned no single tensor; expected the last layer's output."
        )
        try:
            feed: dict[Any, Any] = {}
            feed[graph.get_tensor_by_name(inputs[0])] = x
            out = graph.get_tensor_by_name(outputs[0])
            first = [assigned(op, weights, homes) for op in graph.get_operations() if op.type == "VarHandleOp"]
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        with session(graph) as running:
            if first:
                ran(running, first)
            _, (total,) = ran(running, [out], feed)
            seen = placement.trace_graph(graph, out, feed, session=running)
        self.right = same(total, wanted)
        self.right_without_activation = same(total, linear)
        depends: dict[str, set[str]] = {}
        for op in seen.everything:
            above = [depends.get(name, set()) for name in op.inputs]
            depends[op.name] = {op.type}.union(*above)
        self.copies = [
            (f"weight {name}" if "VarHandleOp" in depends[name] and "Input" not in depends[name] else name, to)
            for name, to in seen.copies()
        ]


def assigned(handle: Any, weights: dict[str, np.ndarray], homes: list[str]) -> Any:
    """The op that gives a weight of the student's graph its value, once it is on its own device. Raises KeyError."""
    name = handle.get_attr("shared_name").decode()
    if device_of(handle.device) != device_of(homes[int(name.rpartition("_")[2])]):
        raise KeyError(name)
    with handle.graph.as_default(), tf.device(handle.device):
        return tf.raw_ops.AssignVariableOp(resource=handle.outputs[0], value=weights[name])
