"""What checks on order are made of: a student's code builds a graph there; its ways are asked for and it is run here.

That something came first in one run proves nothing: a queue gets much right by luck. So each check asks for a way in the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across import graphs
from across.expecting import anything, list_of, row, text, whole
from autograder.probe.asking import probe
from placing import imported, ran, session

Pair = tuple[str, str]
TRACED = row(anything, list_of(text), list_of(text)).named("a graph that can be run")
BROKEN = "The graph that your code built does not hold together."
WIDTH = 64  # of the model's wide layer
WRITES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


def a(kind: str) -> str:
    """A type's name in a sentence."""
    return (
        kind
        if kind == "None" or kind.startswith("a ")
        else f"{'an' if kind[:1] in tuple('aeiouAEIOU') else 'a'} {kind}"
    )


def ran_on(graph: tf.Graph, fetches: Sequence[str], feed: Mapping[str, Any], first: Collection[str] = ()) -> list[Any]:
    """Run `fetches` of a student's graph, after the ops `first`, all by name. AssertionError if it cannot be run."""
    try:
        tensors = [graph.get_tensor_by_name(name) for name in fetches]
        given: dict[Any, Any] = {graph.get_tensor_by_name(name): value for name, value in feed.items()}
        begin = [graph.get_operation_by_name(name) for name in first]
    except (KeyError, ValueError, TypeError):
        raise AssertionError(BROKEN) from None
    with session(graph) as running:
        if begin:
            ran(running, begin)
        return ran(running, tensors, given)[1]


# Which control edges are needed


def telling_edges(rng: np.random.Generator, nodes: Sequence[str]) -> tuple[list[Pair], list[Pair]]:
    """Edges of tensors and of control on which each rule that misses something keeps other edges than are needed."""
    while True:
        data, control = [], []
        for j in range(len(nodes)):
            for i in range(j):
                kind = rng.random()
                data += [(nodes[i], nodes[j])] if kind < 0.25 else []
                control += [(nodes[i], nodes[j])] if 0.2 < kind < 0.6 else []
        right = without_a_rule(data, control, "")
        if right and all(without_a_rule(data, control, rule) != right for rule in RULES):
            control.append(sorted(right)[rng.integers(len(right))])  # one that is needed is given twice
            return [data[i] for i in rng.permutation(len(data))], [control[i] for i in rng.permutation(len(control))]


def telling_cases(rng: np.random.Generator, sizes: Sequence[Sequence[str]]) -> list[tuple[list[Pair], list[Pair]]]:
    """Edges between the names of each of `sizes`, on which no two rules that miss something keep the same edges in all."""
    while True:
        cases = [telling_edges(rng, nodes) for nodes in sizes]
        kept = [[without_a_rule(*case, rule) for case in cases] for rule in RULES]
        kept.append([set(control) for _, control in cases])  # who keeps all
        if all(one != other for i, one in enumerate(kept) for other in kept[:i]):
            return cases


RULES = (
    "ways_of_two_edges",
    "control_edges_only",
    "tensors_only",
    "joined_by_a_tensor_only",
    "end_has_another",
    "start_has_another",
)


def without_a_rule(data: Collection[Pair], control: Collection[Pair], missed: str) -> set[Pair]:
    """The control edges that somebody keeps who knows the rule but for what is `missed`; "" if nothing is."""
    pairs = [tuple(each) for each in data], [tuple(each) for each in control]
    tensors, waits = ({(str(a), str(b)) for a, b in each} for each in pairs)

    def needless(edge: Pair) -> bool:
        start, end = edge
        others = tensors | (waits - {edge})
        if missed == "joined_by_a_tensor_only":
            return edge in tensors
        if missed == "end_has_another":
            return any(b == end for _, b in others)
        if missed == "start_has_another":
            return any(a == start for a, _ in others)
        if missed == "ways_of_two_edges":
            return edge in tensors or any((start, b) in others and (b, end) in others for _, b in others)
        if missed == "ways_of_three_edges":
            return edge in tensors or within(start, end, others, 3)
        if missed == "control_edges_only":
            return end in reached(start, waits - {edge})
        if missed == "tensors_only":
            return end in reached(start, tensors)
        return end in reached(start, others)

    return {edge for edge in waits if not needless(edge)}


def within(start: str, end: str, edges: Collection[Pair], most: int) -> bool:
    """Whether a way of at most so many edges leads from `start` to `end`."""
    here = {start}
    for _ in range(most):
        here = {b for a, b in edges if a in here}
        if end in here:
            return True
    return False


def long_way(rng: np.random.Generator, nodes: Sequence[str]) -> tuple[list[Pair], list[Pair]]:
    """A way over all but one of the nodes, by edges of both kinds, a control edge that spares it, and one that is needed."""
    *way, beside = nodes
    if way[1:-1] == sorted(way[1:-1]):  # names tell no order
        way[1:-1] = way[-2:0:-1]
    edges = list(itertools.pairwise(way))
    kinds = rng.permutation([k % 2 for k in range(len(edges))])
    data = [edge for edge, kind in zip(edges, kinds, strict=True) if kind]
    control = [edge for edge, kind in zip(edges, kinds, strict=True) if not kind]
    control += [(way[0], way[-1]), (beside, way[int(rng.integers(1, len(way)))])]
    return data[::-1], [control[i] for i in rng.permutation(len(control))]  # nor does who is named first


def reached(start: str, edges: Collection[Pair]) -> set[str]:
    """The names that a way of `edges` leads to from `start`."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        name = ahead.pop()
        new = {b for a, b in edges if a == name} - found
        found |= new
        ahead += new
    return found


# A look at a variable


@probe(graphs=1)
def published(student, by_chain):
    """Trace `publish`; in its graph `look` is an op with an effect, and the variables have an op each."""
    from across import tracing

    variables = {name: tf.Variable(tf.zeros([]), name=name) for name in ("other", "v")}
    looks, kinds = [], []

    def look():
        looks.append(1)
        return tf.raw_ops.Print(input=tf.zeros([]), data=[], name="look").op

    def program(x):
        variables["other"].assign(x)
        value = x
        for _ in range(6 if by_chain else 0):
            value = tf.abs(value)
        got = student.publish(variables["v"], tf.identity(value, name="value"), look)
        kinds.append("a tensor" if tf.is_tensor(got) else "None" if got is None else type(got).__name__)
        return got

    weights = {name: (variable, "") for name, variable in variables.items()}
    made = tracing.program(program, tf.TensorSpec([], tf.float32), weights=weights)
    held = [name for label in ("v", "other") for known, name in made.weights if known == label]
    return made.graph_def, made.inputs, made.outputs, held, len(looks), kinds[-1]


class Published:
    """The student's `publish`, traced there and run here: what is seen of `v` where `look` looks."""

    def __init__(self, student: Any, rng: np.random.Generator, by_chain: bool) -> None:
        names = list_of(text)
        kind = row(anything, names, names, names, whole, text).named("a graph that can be run")
        answer = kind(student.ask(published, by_chain=by_chain), "Your code led to")
        graph_def, inputs, outputs, held, self.looks, self.kind = answer
        found = graphs.of_graph(imported(graph_def))
        seeing = _that_print(graph_def)
        looks = [op.name for op in found if op.name in seeing]
        writes = {op.name: op.type for op in found if op.type in WRITES and held[:1] == list(op.inputs[:1])}
        assigns = [name for name, kind in writes.items() if kind == "AssignVariableOp"]
        self.assigns, self.writes, self.found = len(assigns), len(writes), len(looks) == 1
        self.old, self.value = (float(each) for each in 1 + rng.permutation(8)[:2])
        self.ordered = self.backwards = self.loose = False
        self.looked_at = self.returned = self.left = None
        if self.looks != 1 or not self.found or not assigns or self.kind != "a tensor":
            return
        self.ordered = any(found.ordered(assign, looks[0]) for assign in assigns)
        self.backwards = any(found.ordered(looks[0], assign) for assign in assigns)
        self.loose = not all(found.ordered(write, looks[0]) for write in writes)
        if not self.ordered or self.loose:
            return
        assert len(inputs) == len(outputs) == 1, "`publish` returned no single tensor; expected `value`."
        for node in graph_def.node:
            if node.name == looks[0]:  # who looks reads, and waits for all that it waited for
                waits = {f"^{each.removeprefix('^').split(':')[0]}" for each in node.input}
                node.op, node.input[:] = "ReadVariableOp", [held[0], *sorted(waits)]
                node.attr.clear()
                node.attr["dtype"].type = tf.float32.as_datatype_enum
        graph = imported(graph_def)
        begin = [given(graph, name, np.float32(self.old)) for name in held]
        try:
            with graph.as_default():
                handle = graph.get_tensor_by_name(f"{held[0]}:0")
                at_the_end = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            fetches = [graph.get_tensor_by_name(name) for name in (f"{looks[0]}:0", outputs[0])]
            value: Any = graph.get_tensor_by_name(inputs[0])
        except (KeyError, ValueError, TypeError):
            raise AssertionError(BROKEN) from None
        feed: dict[Any, Any] = {value: self.value}
        with session(graph) as running:
            ran(running, begin)
            _, (looked_at, returned) = ran(running, fetches, feed)
            _, (left,) = ran(running, [at_the_end])
        self.looked_at, self.returned, self.left = (_number(each) for each in (looked_at, returned, left))


def _that_print(graph_def: Any) -> set[str]:
    """The names of the operations that print, themselves or in a function that they call."""
    printing = {"Print"}
    functions = {each.signature.name: each.node_def for each in graph_def.library.function}

    def prints(node: Any) -> bool:
        return node.op in printing or any(each.func.name in printing for each in node.attr.values())

    for _ in functions:
        printing |= {name for name, body in functions.items() if any(map(prints, body))}
    return {node.name for node in graph_def.node if prints(node)}


def _number(value: Any) -> float:
    """The one number of a tensor's value; NaN where it is none."""
    numbers = np.asarray(value)
    return float(numbers.ravel()[0]) if numbers.size == 1 and numbers.dtype.kind in "fi" else float("nan")


def given(graph: tf.Graph, name: str, value: Any) -> Any:
    """The op that gives a variable its value. AssertionError where there is no such variable."""
    try:
        with graph.as_default():
            return tf.raw_ops.AssignVariableOp(resource=graph.get_tensor_by_name(f"{name}:0"), value=value)
    except (KeyError, ValueError, TypeError):
        raise AssertionError(BROKEN) from None


# A model's batches


@probe(graphs=1)
def totalled(student, count, at_most, width):
    """Trace `total` of a model with a wide layer; its weights have an op each, told in their order."""
    from across import tracing

    layers = [tf.keras.layers.Dense(width, activation="relu"), tf.keras.layers.Dense(2)]
    model = tf.keras.Sequential([tf.keras.layers.Input([3]), *layers])
    kinds = []

    def program(*batches):
        got = student.total(model, list(batches), at_most)
        kinds.append("a tensor" if tf.is_tensor(got) else "None" if got is None else type(got).__name__)
        return got

    specs = [tf.TensorSpec([4, 3], tf.float32, name=f"batch_{i}") for i in range(count)]
    weights = {str(i): (weight.value, "") for i, weight in enumerate(model.weights)}
    made = tracing.program(program, *specs, weights=weights)
    return made.graph_def, made.inputs, made.outputs, [[name, int(i)] for i, name in made.weights], kinds[-1]


class Totalled:
    """The student's `total`, traced there and run here on fresh weights: its sum, and how many batches it keeps at once."""

    def __init__(self, student: Any, rng: np.random.Generator, count: int, at_most: int) -> None:
        weight = row(text, anything)
        kind = row(anything, list_of(text), list_of(text), list_of(weight), text).named("a graph that can be run")
        answer = student.ask(totalled, count=count, at_most=at_most, width=WIDTH)
        graph_def, inputs, outputs, held, returned = kind(answer, "Your code led to")
        shapes = [[3, WIDTH], [WIDTH], [WIDTH, 2], [2]]
        weights = [rng.integers(-2, 3, size=shape).astype("float32") for shape in shapes]
        known = {name: number for name, number in held if number in range(4) and type(number) is int}
        graph = imported(graph_def)
        assert returned == "a tensor", f"`total` returned {a(returned)}; expected a tensor, the sum."
        assert len(outputs) == 1, "`total` returned no single tensor; expected the sum."
        assert len(inputs) == count, "`total` was not traced on the batches that it was given."
        begin = [given(graph, name, weights[number]) for name, number in known.items()]
        batches = [rng.integers(-2, 3, size=(4, 3)).astype("float32") for _ in range(count)]
        try:
            feed = {graph.get_tensor_by_name(name): each for name, each in zip(inputs, batches, strict=True)}
            out = graph.get_tensor_by_name(outputs[0])
        except (KeyError, ValueError, TypeError):
            raise AssertionError(BROKEN) from None
        with session(graph) as running:
            ran(running, begin)
            _, (value,) = ran(running, [out], feed)
        wide, narrow = weights[:2], weights[2:]
        results = [np.maximum(each @ wide[0] + wide[1], 0) @ narrow[0] + narrow[1] for each in batches]
        self.wanted = float(sum(each.mean() for each in results))
        self.value = _number(value)
        self.right = np.shape(value) == () and bool(np.isclose(self.value, self.wanted, rtol=1e-4, atol=1e-2))
        found = graphs.of_graph(graph)
        wide_layer = [name for name, number in known.items() if number == 0][:1]
        calls = [each for name in wide_layer for each in found.uses(name).values()]
        self.calls, self.seen = len(calls), all(calls)  # what ends in one number right away is not seen in progress
        self.at_once = found.at_once(*calls) if self.calls == count else 0
        self.in_a_row = found.in_a_row(*calls) if self.calls == count and self.seen else 0
