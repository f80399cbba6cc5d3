"""What checks on graphs are made of: a student's code builds a graph there, and it is run here on fresh inputs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import anything, list_of, row, text
from autograder.checks.placing import imported, names, ran, session
from autograder.probe.asking import probe


@probe(graphs=1)
def traced(student, size, devices):
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    def program(a, b):
        return student.split(a, b, devices)

    spec = tf.TensorSpec([size, size], tf.float32)
    graph = tf.function(program, autograph=False).get_concrete_function(spec, spec)
    if graph.graph.as_graph_def().library.function:  # functions inside: write their bodies out
        graph = convert_variables_to_constants_v2(graph)
    graph_def = graph.graph.as_graph_def()
    printing = {node.name for node in graph_def.node if node.op in ("PrintV2", "StringFormat")}  # may not come in
    nodes = [node for node in graph_def.node if node.name not in printing]
    del graph_def.node[:]
    for node in nodes:
        inputs = [name for name in node.input if name.lstrip("^") not in printing]
        del node.input[:]
        node.input.extend(inputs)
        graph_def.node.append(node)
    return graph_def, [tensor.name for tensor in graph.inputs], [tensor.name for tensor in graph.outputs]


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
        size = int(rng.integers(2, 6))
        self.devices = [f"/cpu:{i}" for i in triples[rng.integers(len(triples))]]
        self.a, self.b = rng.integers(-9, 10, size=(2, size, size)).astype("float32")
        answer = student.ask(traced, size=size, devices=self.devices)
        graph_def, inputs, outputs = TRACED(answer, "Your code led to")
        graph = imported(graph_def)
        assert len(outputs) == 1, "`split` returned no single tensor; expected one: the sum."
        try:
            feed = {graph.get_tensor_by_name(name): x for name, x in zip(inputs, (self.a, self.b), strict=True)}
            out = graph.get_tensor_by_name(outputs[0])
            products = [op.outputs[0] for op in graph.get_operations() if op.type in PRODUCTS]
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        with session(graph) as running:
            self.where, (self.total, *values) = ran(running, [out, *products], feed)
        while out.op.type == "Identity":
            out = out.op.inputs[0]
        self.last = self.where.get(out.op.name)
        self.products = [
            (value, self.where.get(tensor.op.name)) for value, tensor in zip(values, products, strict=True)
        ]


def same(got: Any, wanted: np.ndarray) -> bool:
    numbers = np.asarray(got)
    return numbers.dtype.kind == "f" and numbers.shape == wanted.shape and np.allclose(numbers, wanted, atol=1e-3)


@probe(graphs=1)
def built(student, maker, arguments, steps):
    """Build `steps` ([kind, name, pin]; kinds: new and old variables, and products) under a device function."""
    graph = tf.Graph()
    function = getattr(student, maker)(*arguments)
    with graph.as_default(), tf.compat.v1.device(function):
        value = tf.compat.v1.placeholder(tf.float32, [], name="one")
        for kind, name, pin in steps:
            if kind == "new":
                tf.compat.v1.Variable(1.0, name=name, use_resource=True)
            elif kind == "old":
                tf.compat.v1.Variable(1.0, name=name, use_resource=False)
            elif pin is None:
                value = tf.multiply(value, value, name=name)
            else:
                with tf.device(pin):
                    value = tf.multiply(value, value, name=name)
    return graph.as_graph_def()


Step = list[Any]  # kind, name, pin


def went(graph_def: Any, steps: list[Step]) -> dict[str, str]:
    """Run a graph that was `built` and return where each of its steps ran."""
    graph = imported(graph_def)
    try:
        first = [graph.get_operation_by_name(f"{name}/Assign") for kind, name, _ in steps if kind != "product"]
        last = [graph.get_operation_by_name(name) for kind, name, _ in steps if kind == "product"]
        one: Any = graph.get_tensor_by_name("one:0")
    except (KeyError, ValueError):
        raise AssertionError("The graph that was built under your device function is not the one asked for.") from None
    with session(graph) as running:
        places = {**ran(running, first)[0], **ran(running, last, {one: 1.0})[0]}
    whole = all(name in places for _, name, _ in steps)
    assert whole, "The graph that was built under your device function is not the one asked for."
    return places


def shuffled(rng: np.random.Generator, kinds: list[str], pin: bool = False) -> list[Step]:
    """Steps of those kinds in any order, freshly named; `pin` gives the products a device block of their own."""
    order = [kinds[i] for i in rng.permutation(len(kinds))]
    return [
        [kind, name, f"/cpu:{rng.integers(4)}" if pin and kind == "product" else None]
        for kind, name in zip(order, names(rng, len(kinds)), strict=True)
    ]
