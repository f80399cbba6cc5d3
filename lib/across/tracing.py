"""One way to make a graph of an answer: the checks of a notebook and those that mark it see the same program.

    made = tracing.program(lambda x: walk(x, devices), tf.TensorSpec([2, 2]))
    made.graph_def, made.inputs, made.outputs

Traced as by `tf.function`, with AutoGraph. Functions inside are written out. What only says or guards something is taken out
(`tf.print`, an `assert`, `tf.debugging`), so that it costs no mark: who waited for it waits for what it waited for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef

SAYING = ("PrintV2", "Assert")  # never `Print`: an op that is looked for where nothing else has its effect
RESOURCE = 20  # DT_RESOURCE
PASSED = re.compile(r"Func/.+/(?:input|output)/_\d+$")  # how Grappler calls what goes into a function, or comes out
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
BOUND = "loc:@"  # before the name of an op with which another one shares its device
GIVEN = ("Placeholder", "Const", "VarHandleOp")  # there from the beginning: nobody waits for one


@dataclass(frozen=True)
class Program:
    """A traced function as a graph, with the names of the tensors that go in and come out."""

    graph_def: GraphDef
    inputs: list[str]
    outputs: list[str]
    weights: list[list[str]]  # of the variables that were told apart: label and name of the op that is its handle


def concrete(function: Any, *args: Any) -> Any:
    """The concrete function of a Python function, or of a tf.function, on these arguments. Raises what `function` raises.

    Nothing is run, and no function is left to be called again: TensorFlow does not warn of retracing.
    """
    import tensorflow as tf

    traced = function if hasattr(function, "get_concrete_function") else tf.function(function)
    try:
        return traced.get_concrete_function(*args)
    except Exception as error:
        raised = error.__context__
        if raised is not None and hasattr(raised, "ag_error_metadata"):  # AutoGraph puts its own words around it
            raise raised from None
        raise


def program(
    function: Callable[..., Any],
    *specs: Any,
    weights: Mapping[str, tuple[Any, str]] | None = None,
) -> Program:
    """Trace `function` on `specs`. Each of `weights`, label -> (variable, device), becomes a variable of the graph of its own.

    It is on that device and has the label as its shared name; without `weights`, variables become constants, of the values
    that they have. Raises what `function` raises.
    """
    return written_out(concrete(function, *specs), weights)


def written_out(traced: Any, weights: Mapping[str, tuple[Any, str]] | None = None) -> Program:
    """The `program` of a function that is `concrete`."""
    known = {id(variable.handle): label for label, (variable, _) in (weights or {}).items()}
    held = {inside.op.name: (outside, known.get(id(outside), "")) for outside, inside in traced.graph.captures}
    inputs = [tensor.name for tensor in traced.inputs if tensor.op.name not in held]
    if held and weights is None:
        from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

        traced = convert_variables_to_constants_v2(traced)
    outputs = [tensor.name for tensor in traced.outputs]
    graph_def = _inlined(traced)
    places = {_scope(variable): home for variable, home in (weights or {}).values()}
    found = []
    for node in graph_def.node:
        outside, label = held.get(node.name, (None, ""))
        if label and weights is not None:
            variable, home = weights[label]
            as_variable(node, label, variable, home)
            found.append([label, node.name])
        elif outside is not None and hasattr(outside, "numpy") and node.op == "Placeholder":
            _as_constant(node, outside)
        _placed(node, places)
    return Program(quiet(graph_def, outputs), inputs, outputs, found)


def quiet(graph: tf.Graph | GraphDef, outputs: Collection[str] = ()) -> GraphDef:
    """The GraphDef without what only says or guards something, and without what is computed for that alone.

    `outputs` are names of tensors that stay, whoever reads them.
    """
    written: Any = graph
    graph_def = written.as_graph_def() if hasattr(graph, "as_graph_def") else written
    _quieted(graph_def.node, {_source(name) for name in outputs})
    for function in graph_def.library.function:
        left = _quieted(function.node_def, {_source(name) for name in function.ret.values()})
        for key in [key for key, name in function.control_ret.items() if name not in left]:
            del function.control_ret[key]
            function.signature.control_output.remove(key)
    return graph_def


def _inlined(traced: Any) -> Any:
    written: Any = traced.graph.as_graph_def()
    if not written.library.function:
        return written
    from tensorflow.python.framework import convert_to_constants

    graph_def: Any = convert_to_constants._run_inline_graph_optimization(traced, False, True)
    known = {node.name: node for node in graph_def.node}
    copies = {node.name for node in graph_def.node if _passes(node)}
    for name in [name for name in copies if "/output/_" in name]:
        given, called = known.get(_source(known[name].input[0])), _called_on(written, name)
        if (
            given and given.op == "Identity" and given.device in ("", called)
        ):  # by which it returns, on no chosen device
            copies.add(given.name)

    def itself(name: str) -> str:
        """The thing that a function was given, or gave: the function's copy of it is on no device that anybody chose."""
        while (source := _source(name)) in copies:
            copied = known[source].input[0]
            name = f"^{_source(copied)}" if name.startswith("^") else copied
        return name

    def waits(name: str) -> Iterator[str]:
        """What the copies on the way to the thing wait for: a block around the call makes all that is called wait."""
        while (source := _source(name)) in copies:
            name, *others = known[source].input
            for each in others:
                yield itself(each)
                yield from waits(each)

    def inputs(node: Any) -> list[str]:
        given = [itself(name) for name in node.input]
        return [*given, *dict.fromkeys(each for name in node.input for each in waits(name) if each not in given)]

    read = {node.name: inputs(node) for node in graph_def.node}
    for node in graph_def.node:
        node.input[:] = read[node.name]
        if "_class" in node.attr:  # Grappler binds a thing to its copies, too: it would lose its own device for theirs
            bound = [_source(itself(place.decode().removeprefix(BOUND))) for place in node.attr["_class"].list.s]
            node.attr["_class"].list.s[:] = [f"{BOUND}{name}".encode() for name in bound if name != node.name]
    copies -= {tensor.op.name for tensor in traced.outputs}
    for at, node in reversed([*enumerate(graph_def.node)]):  # a copy that nobody reads would still count as a reader
        if node.name in copies:
            del graph_def.node[at]
    return graph_def


def _called_on(written: Any, output: str) -> str:
    """The device of the block around the call whose `output` this was, "Func/<path of calls>/output/_3"; "" for none."""
    bodies = {each.signature.name: each.node_def for each in written.library.function}
    path, nodes, device = output.removeprefix("Func/").rpartition("/output/")[0] + "/", written.node, ""
    while path:
        calls = [node for node in nodes if node.op in CALLS and path.startswith(f"{node.name}/")]
        if not calls:
            return ""
        call = max(calls, key=lambda node: len(node.name))
        path, nodes, device = path[len(call.name) + 1 :], bodies[call.attr["f"].func.name], call.device or device
    return device


def _passes(node: Any) -> bool:
    return node.op == "Identity" and (node.attr["T"].type == RESOURCE or bool(PASSED.match(node.name)))


def as_variable(node: Any, label: str, variable: Any, home: str = "") -> None:
    """Make a node the handle of a variable like `variable`, shared by the name `label`, on the device `home`."""
    node.op, node.device = "VarHandleOp", home
    node.attr.clear()
    node.attr["dtype"].type = variable.dtype.as_datatype_enum
    node.attr["shape"].shape.CopyFrom(variable.shape.as_proto())
    node.attr["shared_name"].s = label.encode()


def _as_constant(node: Any, value: Any) -> None:
    import tensorflow as tf

    if value.dtype in (tf.resource, tf.variant):
        return
    node.op = "Const"
    node.attr.clear()
    node.attr["dtype"].type = value.dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value.numpy()))


def _scope(variable: Any) -> bytes:
    """How a graph says "where this variable is", of one that is in a graph itself."""
    import tensorflow as tf

    handle = variable.handle
    return b"" if isinstance(handle, tf.__internal__.EagerTensor) else f"{BOUND}{handle.op.name}".encode()


def _placed(node: Any, places: Mapping[bytes, str]) -> None:
    """A colocation with what is outside of the graph is a device in it."""
    for place in list(node.attr["_class"].list.s) if "_class" in node.attr else ():
        if place in places:
            node.device = places[place]
            node.attr["_class"].list.s.remove(place)


def _quieted(nodes: Any, outputs: Collection[str]) -> set[str]:
    """Take out of `nodes` what only says something; the names of those that are left."""
    known = {node.name: node for node in nodes}
    gone = _saying(known, outputs)

    def waits(name: str) -> Iterator[str]:
        """What whoever waited for the op `name` waits for now."""
        if name not in gone:
            yield from () if known[name].op in GIVEN else (f"^{name}",)
            return
        for source in map(_source, known[name].input):
            if source in known:
                yield from waits(source)

    left = []
    for node in nodes:
        if node.name in gone:
            continue
        read = [each for each in node.input if not each.startswith("^")]
        awaited = [each for each in node.input if each.startswith("^")]
        if any(_source(each) in gone for each in awaited):
            kept = [each for each in awaited if _source(each) not in gone]
            awaited = [*kept, *(more for each in awaited if _source(each) in gone for more in waits(_source(each)))]
            del node.input[:]
            node.input.extend([*read, *dict.fromkeys(each for each in awaited if each != f"^{node.name}")])
        left.append(node)
    if gone:
        copies = [type(node).FromString(node.SerializeToString()) for node in left]
        del nodes[:]
        nodes.extend(copies)
    return {node.name for node in left}


def _saying(known: Mapping[str, NodeDef], outputs: Collection[str]) -> set[str]:
    """The names of ops that say or guard something, of what reads them, and of what is computed for them alone."""
    from tensorflow.python.framework import op_def_registry  # pyright: ignore[reportAttributeAccessIssue]

    readers: dict[str, list[str]] = {name: [] for name in known}
    beside: dict[str, list[str]] = {name: [] for name in known}  # who is on an op's device: a gradient, say
    for node in known.values():
        for source in _read(node):
            readers.setdefault(source, []).append(node.name)
        for place in _bound(node):
            beside.setdefault(place, []).append(node.name)
    gone: set[str] = set()
    new = [
        name for name, node in known.items() if node.op in SAYING or (node.op[-2:] == "If" and "AssertGuard" in name)
    ]
    while new:
        name = new.pop()
        if name in gone or name in outputs:
            continue
        gone.add(name)
        new += readers[name]  # a guard's result says that it passed
        for source in (*_read(known[name]), *_bound(known[name])):
            if source not in known or not readers[source] or not gone.issuperset(readers[source] + beside[source]):
                continue
            kind = known[source].op
            known_op = op_def_registry.get(kind)
            effects = known_op is None or known_op.is_stateful
            if kind == "ReadVariableOp" or (kind not in GIVEN[::2] and not effects):
                new.append(source)
    return gone


def _read(node: NodeDef) -> Sequence[str]:
    return [_source(each) for each in node.input if not each.startswith("^")]


def _bound(node: NodeDef) -> Sequence[str]:
    """The ops whose devices a node is to share, without itself."""
    places = node.attr["_class"].list.s if "_class" in node.attr else ()
    return [place.decode().removeprefix(BOUND) for place in places if place != f"{BOUND}{node.name}".encode()]


def _source(name: str) -> str:
    """The op of a tensor's name, also in a function's body ("add:z:0"), or of a control input ("^add")."""
    return name.removeprefix("^").partition(":")[0]
