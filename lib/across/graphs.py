"""The order in a graph: which op waits for which, by tensors and by control edges, and what that allows.

    graph = graphs.of(step, x)                 # what a tf.function, or a Python function, becomes when it is traced
    graph.ordered("AssignVariableOp", "PrintV2")    # is there a way along the arrows?
    graph.draw(critical=True)
    graphs.peak(step, x)                       # bytes of tensors at once

A `Graph` is read from the traced graph and nothing is run for it. `peak` runs that graph in a session of TensorFlow 1 on the
CPU, whose statistics tell allocations; nothing is optimized, so that the ops are the program's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from across import tracing
from across._draw import lanes
from across._draw.partitions import INPUT, OP, VARIABLE, Op, in_order, output_of
from across._draw.placed import Edge, Placed
from across._draw.sessions import peak
from across._language.catalogue import given, said
from across.pictures import Picture
from across.timeline import longest_chain

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["Edge", "Graph", "Op", "from_edges", "of", "of_answer", "of_graph", "peak", "simplified"]

MOST_ORDERS = 100_000
MOST_SETS = 100_000


@dataclass(frozen=True, repr=False)
class Graph(Placed):
    """Ops, each after those it waits for; `control` has the pairs of names in which the second op waits for the first."""

    control: tuple[tuple[str, str], ...] = ()

    @property
    def data(self) -> tuple[tuple[str, str], ...]:
        """The pairs of names in which the second op reads a tensor of the first."""
        return tuple((source, op.name) for op in self.everything for source in dict.fromkeys(op.inputs))

    def edges(self) -> list[Edge]:
        """All edges, data first."""
        return [Edge(*pair, copied=False) for pair in self.data] + [
            Edge(*pair, copied=False, control=True) for pair in self.control
        ]

    @cached_property
    def _above(self) -> dict[str, frozenset[str]]:
        above: dict[str, frozenset[str]] = {}
        nearest = self._nearest
        for op in self.everything:
            above[op.name] = frozenset(nearest[op.name]).union(*(above[name] for name in nearest[op.name]))
        return above

    @cached_property
    def _nearest(self) -> dict[str, list[str]]:
        nearest: dict[str, list[str]] = {op.name: [] for op in self.everything}
        for source, target in (*self.data, *self.control):
            nearest[target].append(source)
        return nearest

    def before(self, name: str) -> frozenset[str]:
        """The names of all ops that have ended when op `name` starts, in every order that is allowed. Raises KeyError."""
        return self._above[self[name].name]

    def ordered(self, first: str, second: str) -> bool:
        """Whether `second` waits for `first`, directly or along a way of several edges. Raises KeyError."""
        return self[first].name in self.before(second)

    def orders(self) -> list[tuple[str, ...]]:
        """Every order in which one thread may run the ops. Raises ValueError where there are more than 100,000."""
        found = []
        names = [op.name for op in self.ops]
        known = frozenset(names)

        def extend(begun: tuple[str, ...], left: list[str]) -> None:
            if len(found) > MOST_ORDERS:
                raise ValueError(f"more than {MOST_ORDERS:,} orders are allowed; take a smaller graph")
            if not left:
                found.append(begun)
            for name in left:
                if self._above[name] & known <= set(begun):
                    extend((*begun, name), [other for other in left if other != name])

        extend((), names)
        return found

    def critical_path(self) -> list[str]:
        """The names along the longest way through the graph, in ops: however many threads there are, it takes that long."""
        return longest_chain(self._nearest, {op.name for op in self.ops})

    def in_a_row(self, *groups: Collection[str]) -> int:
        """How many of the `groups` of ops, at most, must end one after the other. Raises KeyError as `at_once` does."""
        place = {op.name: i for i, op in enumerate(self.everything)}
        ends = [max((self[name].name for name in group), key=place.__getitem__) for group in groups]
        ends.sort(key=place.__getitem__)
        rows: list[int] = []
        for i, end in enumerate(ends):
            rows.append(1 + max((rows[j] for j in range(i) if self.ordered(ends[j], end)), default=0))
        return max(rows, default=0)

    def at_once(self, *groups: Collection[str]) -> int:
        """In how many of the `groups` of ops a result can be waiting for a reader, in the worst order that is allowed.

        Raises KeyError for an op that there is not, ValueError where there is too much to try.
        """
        bit = {op.name: 1 << i for i, op in enumerate(self.everything)}
        readers = dict.fromkeys(bit, 0)
        for source, target in self.data:
            readers[source] |= bit[target]
        made = {name: own | sum(bit[each] for each in self.before(name)) for name, own in bit.items()}
        read = {op.name: set(op.inputs) for op in self.everything}
        inside = [{self[name].name for name in group} for group in groups]
        alive = [[(made[name], readers[name]) for name in group if readers[name]] for group in inside]
        # Who reads one of its own group need not be begun with: where it waits, it does, or one on the way to it.
        begun = [[made[name] for name in group if readers[name] and not read[name] & group] for group in inside]

        def waiting(done: int) -> int:
            return sum(any(made & ~done == 0 and by & ~done for made, by in group) for group in alive)

        # What an order has run at its worst moment holds all that some op of each group needs: those sets are enough.
        sets, most = {0}, 0
        for group in begun:
            sets |= {done | each for done in sets for each in group}
            most = max(most, max(map(waiting, sets)))
            if len(sets) > MOST_SETS:
                raise ValueError(f"more than {MOST_SETS:,} moments to try; take fewer or smaller groups")
        return most

    def uses(self, variable: str) -> dict[str, list[str]]:
        """For each op that joins the value of `variable` with something else: what is made of its result, itself included.

        That ends at single numbers, and at ops that read what is made of another use. Raises KeyError.
        """
        own: set[str] = {self[variable].name}  # of the variable's value alone
        found: dict[str, list[str]] = {}
        part_of: dict[str, str] = {}  # op -> the use of which it is made
        for op in self.everything:
            if op.inputs and own.issuperset(op.inputs):
                own.add(op.name)
                continue
            if is_use := not own.isdisjoint(op.inputs):
                found[op.name] = []
            made_of = {op.name} if is_use else {part_of[name] for name in op.inputs if name in part_of}
            if len(made_of) == 1 and _elements(op) > 1:
                part_of[op.name] = min(made_of)
                found[part_of[op.name]].append(op.name)
        return found

    def without(self, *types: str) -> Graph:
        """The same graph with ops of these types left out: who waited for one waits for what it waited for."""
        return _contracted(self, {op.name for op in self.everything if op.type in types})

    def draw(self, *, title: str = "", critical: bool = False) -> Picture:
        """Draw the ops as boxes, tensors as lines and control edges dotted; with `critical`, the critical path thick."""
        path = self.critical_path() if critical else []
        return lanes.draw(replace(self, available=("",)), title=title, path=path, alt=self._words(title, path))

    def _words(self, title: str, path: Sequence[str]) -> str:
        tensors, waits = (
            said(", ").join(said("{0} to {1}", a, b) for a, b in pairs) or said("nowhere")
            for pairs in (self.data, self.control)
        )
        sentences = [said("{0} ops: {1}", len(self.ops), ", ".join(f"{op.name} ({op.type})" for op in self.ops))]
        sentences += [said("Tensors go from {0}", tensors), said("Control edges go from {0}", waits)]
        sentences += [said("The critical path: {0}", ", ".join(path))] if path else []
        words = said(". ").join(sentences)
        return said("{0}: {1}.", given(title), words) if title else said("{0}.", words)

    def __repr__(self) -> str:
        return self._words("", [])


def from_edges(data: Collection[Sequence[str]] = (), control: Collection[Sequence[str]] = ()) -> Graph:
    """A graph of the ops that these pairs of names speak of. Raises ValueError where the edges close a circle."""
    names = dict.fromkeys(name for pair in (*data, *control) for name in pair)
    read = {name: tuple(dict.fromkeys(a for a, b in data if b == name)) for name in names}
    ops = tuple(_sorted({name: Op(name, name, "", "", None, read[name]) for name in names}, control))
    place = {op.name: number for number, op in enumerate(ops)}
    if any(place[a] >= place[b] for a, b in (*data, *control)):
        raise ValueError("the edges close a circle: no order is allowed")
    return Graph(ops, control=tuple(dict.fromkeys((a, b) for a, b in control)))


def of(function: Callable[..., Any], *args: Any) -> Graph:
    """The graph that `function(*args)` becomes when it is traced; a Python function as if it were a tf.function.

    Left out: constants that nobody named, and what TensorFlow adds to hand back results. Raises what `function` raises.
    """
    traced = tracing.concrete(function, *args).graph
    handles = {inside.op.name: _variable_name(outside) for outside, inside in traced.captures}
    return of_graph(traced, {name: label for name, label in handles.items() if label})


def of_answer(function: Callable[..., Any], *args: Any) -> Graph:
    """The same with functions inside written out, and without what only prints or asserts: as answers are marked."""
    import tensorflow as tf

    traced = tracing.concrete(function, *args)
    made = tracing.written_out(traced, {_variable_name(each.handle): (each, "") for each in traced.graph.variables})
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(made.graph_def, name="")
    return of_graph(graph, {name: label for label, name in made.weights}, made.outputs)


def of_graph(graph: tf.Graph, variables: Mapping[str, str] | None = None, outputs: Collection[str] = ()) -> Graph:
    """The graph of a tf.Graph; `variables` gives names to ops that stand for variables, `outputs` are tensors. See `of`."""
    variables = variables or {}
    returned = [graph.get_tensor_by_name(name) for name in outputs] or getattr(graph, "outputs", [])
    ends = {tensor.op.name for tensor in returned if tensor.op.type == "Identity"}
    operations = graph.get_operations()
    kinds = {"Placeholder": INPUT, **dict.fromkeys(["VarHandleOp", "VariableV2"], VARIABLE)}
    ops, control, hidden = {}, [], set()
    for each in operations:
        kind = VARIABLE if each.name in variables else kinds.get(each.type, OP)
        name = variables.get(each.name, each.name)
        inputs = tuple(variables.get(tensor.op.name, tensor.op.name) for tensor in each.inputs)
        type_name = {INPUT: "Input", VARIABLE: "Variable"}.get(kind, each.type)
        dtype, shape = output_of(each.outputs[0]) if each.outputs else ("", None)
        ops[name] = Op(name, type_name, "", dtype, shape, inputs, kind)
        control += [(variables.get(first.name, first.name), name) for first in each.control_inputs]
        if _is_plumbing(each, ends):
            hidden.add(name)
    found = Graph(tuple(_sorted(ops, control)), control=tuple(control))
    return _contracted(found, hidden)


def simplified(graph: Graph) -> Graph:
    """The same ops with the control edges that TensorFlow's own optimizer leaves: its dependency optimizer, of Grappler.

    Each op is a call of Python in a graph that is never run, so that nothing but edges can be optimized.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf.config_pb2 import ConfigProto
    from tensorflow.python.grappler import tf_optimizer  # pyright: ignore[reportAttributeAccessIssue]

    made: dict[str, Any] = {}
    with tf.Graph().as_default() as built:
        for op in graph.everything:
            inputs = [made[name].outputs[0] for name in op.inputs]
            with tf.control_dependencies([made[a] for a, b in graph.control if b == op.name]):
                made[op.name] = tf.numpy_function(_never, inputs, tf.float32, name=f"op{len(made)}").op
        program = tf.compat.v1.train.export_meta_graph(graph_def=built.as_graph_def(), graph=built)
    names = {operation.name: name for name, operation in made.items()}
    program.collection_def["train_op"].node_list.value.extend(names)
    config = ConfigProto()
    config.graph_options.rewrite_options.optimizers.append("dependency")
    config.graph_options.rewrite_options.min_graph_nodes = -1
    left: Any = tf_optimizer.OptimizeGraph(config, program)
    waits = {(names[each[1:]], names[node.name]) for node in left.node for each in node.input if each[0] == "^"}
    return replace(graph, control=tuple(pair for pair in graph.control if pair in waits))


def _elements(op: Op) -> int:
    """Of its result; 0 where that is not known."""
    return 0 if op.shape is None or None in op.shape else math.prod(size or 0 for size in op.shape)


def _variable_name(outside: Any) -> str:
    """Of the variable whose handle a function captured; "" if it is a tensor."""
    if getattr(outside, "dtype", None) is None or outside.dtype.name != "resource":
        return ""
    name = getattr(outside, "_name", None) or getattr(outside, "name", "") or ""
    return str(name).split(":")[0]


def _is_plumbing(operation: Any, ends: Collection[str]) -> bool:
    if operation.type == "Const":
        return "/" in operation.name or re.fullmatch(r"Const(_\d+)?", operation.name) is not None
    if operation.type == "NoOp":  # what automatic control dependencies hang on the results
        return re.fullmatch(r"NoOp(_\d+)?", operation.name) is not None
    return operation.name in ends and re.fullmatch(r"Identity(_\d+)?", operation.name) is not None


def _sorted(ops: Mapping[str, Op], control: Collection[Sequence[str]]) -> Iterator[Op]:
    """Each op after all that it waits for."""
    waits = {name: list(op.inputs) for name, op in ops.items()}
    for first, name in control:
        waits[name].append(first)
    for each in in_order({name: replace(op, inputs=tuple(waits[name])) for name, op in ops.items()}):
        yield ops[each.name]


def _contracted(graph: Graph, hidden: Collection[str]) -> Graph:
    """`graph` without the `hidden` ops; ways through them stay, as tensors where they were tensors all along."""
    read: dict[str, list[str]] = {}  # of each op: what it reads, seen through what is hidden
    waits: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {op.name: [] for op in graph.everything}
    for first, name in graph.control:
        before[name].append(first)
    for op in graph.everything:
        read[op.name], waits[op.name] = [], []
        for source in op.inputs:
            read[op.name] += read[source] if source in hidden else [source]
            waits[op.name] += waits[source] if source in hidden else []
        for first in before[op.name]:
            waits[op.name] += [*read[first], *waits[first]] if first in hidden else [first]
    kept = [op for op in graph.everything if op.name not in hidden]
    ops = tuple(replace(op, inputs=tuple(dict.fromkeys(read[op.name]))) for op in kept)
    control = [(a, op.name) for op in kept for a in dict.fromkeys(waits[op.name]) if a not in read[op.name]]
    return Graph(ops, graph.available, tuple(control))


def _never(*_: Any) -> Any:
    raise AssertionError("this graph is looked at, not run")
