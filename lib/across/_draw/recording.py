"""Listening to TensorFlow while a function runs: eager ops as they happen, functions by their run metadata."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from across._draw.partitions import (
    INPUT,
    NEVER_SHOWN,
    OP,
    PLUMBING,
    VARIABLE,
    Op,
    first_outputs,
    op_type,
    output_of,
    placed_ops,
    renamed,
    short_device,
)

_NO_GRAPPLER = "disable_meta_optimizer"
DEEPEST, WIDEST = 4, 200  # how far to look for variables in what a function mentions


class Recorder:
    """A context in which every op that this thread runs is recorded in `ops`.

    Eager ops come from TensorFlow's op callbacks. A function's graphs come from the context's run metadata, which
    TensorFlow fills only when it instantiates a function: so the kernel cache is emptied before each call.
    """

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.ops: list[Op] = []
        self._names: set[str] = set()
        self._made_by: dict[int, str] = {}  # tensor id -> name of the op that it came from
        self._handles: list[Any] = []  # of the variables that are named, to tell what is their memory
        self._inputs, self._variables = _names_of(fn, args, kwargs, self._handles)
        self._looking = False

    def __enter__(self) -> Recorder:
        import tensorflow as tf
        from tensorflow.python.eager import context
        from tensorflow.python.framework import op_callbacks

        self._context: Any = context.context()
        options = tf.config.optimizer.get_experimental_options()
        self._had_no_grappler = bool(options.get(_NO_GRAPPLER, False))
        tf.config.optimizer.set_experimental_options({_NO_GRAPPLER: True})
        self._context.clear_kernel_cache()
        self._context.enable_run_metadata()
        self._context.export_run_metadata()  # what an earlier recording left there
        op_callbacks.add_op_callback(self._executed)
        return self

    def __exit__(self, *_: object) -> None:
        import tensorflow as tf
        from tensorflow.python.framework import op_callbacks

        op_callbacks.remove_op_callback(self._executed)
        self._context.disable_run_metadata()
        tf.config.optimizer.set_experimental_options({_NO_GRAPPLER: self._had_no_grappler})
        self._context.clear_kernel_cache()

    def _executed(
        self, type_name: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        if graph is not None or self._looking:  # an op being put into a graph: it has not run
            return
        type_name = type_name.decode() if isinstance(type_name, bytes) else type_name
        if self._context.has_function(type_name):
            self._function(type_name, inputs, outputs)
        else:
            self._eager(type_name, inputs, attrs, outputs, op_name)
            self._context.export_run_metadata()  # TensorFlow may wrap an eager op in a function of its own

    def _eager(self, type_name: str, inputs: Sequence[Any], attrs: Any, outputs: Sequence[Any], op_name: Any) -> None:
        sources = tuple(self._source(tensor) for tensor in inputs)
        name = op_name.decode() if isinstance(op_name, bytes) else op_name or ""
        resource = [tensor for tensor in inputs if tensor.dtype.name == "resource"]
        device = next((tensor.device for tensor in [*outputs, *resource]), self._context.device_name or "/CPU:0")
        dtype, shape = output_of(outputs[0]) if outputs else ("", None)
        if type_name == "VarHandleOp":
            facts = dict(zip(attrs[::2], attrs[1::2], strict=True))
            dtype, shape = facts["dtype"].name, tuple(facts["shape"])
        op = Op(
            name=self._unique(name.strip("/") or op_type(type_name)),
            type=op_type(type_name),
            device=short_device(device),
            dtype=dtype,
            shape=shape,
            inputs=sources,
            kind=PLUMBING if type_name in NEVER_SHOWN else OP,
        )
        self._add(op, outputs)

    def _function(self, type_name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        graphs = list(self._context.export_run_metadata().function_graphs)
        self._context.clear_kernel_cache()
        sources = [self._source(tensor) for tensor in inputs]
        if not graphs:  # compiled by XLA: one op to TensorFlow
            name = self._unique(type_name.removeprefix("__inference_").rpartition("_")[0] or type_name)
            device = short_device(outputs[0].backing_device) if outputs else "CPU:0"
            dtype, shape = output_of(outputs[0]) if outputs else ("", None)
            self._add(Op(name, "function", device, dtype, shape, tuple(sources)), outputs)
            return
        outermost = max(graphs, key=lambda graph: _fits(graph, len(inputs), len(outputs)))
        for graph in graphs:
            self._add_graph(graph, sources if graph is outermost else [], outputs if graph is outermost else [])

    def _add_graph(self, graph: Any, sources: Sequence[str], outputs: Sequence[Any]) -> None:
        ops = placed_ops(graph.partition_graphs, _shapes(graph.post_optimization_graph))
        nodes = [node for partition in graph.partition_graphs for node in partition.node]
        index: dict[str, int] = {node.name: node.attr["index"].i for node in nodes if node.op in ("_Arg", "_Retval")}
        pins = dict(_pins(graph.pre_optimization_graph))
        names = {
            op.name: sources[index[op.name]]
            if op.type == "_Arg" and index[op.name] < len(sources)
            else self._unique(op.name)
            for op in ops
            if op.type != "_Retval"
        }
        for before, op in zip(ops, renamed(ops, names), strict=True):
            op = replace(op, pin=pins.get(before.name))
            if op.type == "_Retval" and index[op.name] < len(outputs) and op.inputs:
                self._made_by[outputs[index[op.name]]._id] = op.inputs[0]
            elif op.type not in ("_Arg", "_Retval") or (op.type == "_Arg" and names[before.name] not in sources):
                self.ops.append(op)

    def _source(self, tensor: Any) -> str:
        """The name of the op that a tensor came from; what nobody saw being made is given, or a constant."""
        if tensor._id not in self._made_by and (handle := self._read_from(tensor)) is not None:
            dtype, shape = output_of(tensor)
            name, device = self._unique("ReadVariableOp"), short_device(tensor.device)
            self._add(Op(name, "ReadVariableOp", device, dtype, shape, (self._source(handle),)), [tensor])
        if tensor._id not in self._made_by:
            kind, name = OP, "Const"
            if tensor._id in self._variables:
                kind, name = VARIABLE, self._variables[tensor._id]
            elif tensor._id in self._inputs:
                kind, name = INPUT, self._inputs[tensor._id]
            elif tensor.dtype.name == "resource":
                kind, name = VARIABLE, "variable"
            dtype, shape = output_of(tensor)
            types = {OP: "Const", VARIABLE: "Variable", INPUT: "Input"}
            op = Op(self._unique(name), types[kind], short_device(tensor.device), dtype, shape, kind=kind)
            self._add(op, [tensor])
        return self._made_by[tensor._id]

    def _read_from(self, tensor: Any) -> Any:
        """The handle of the named variable whose memory a tensor is that nobody saw being made, or None.

        An op that takes a variable as its second operand reads it without telling. On a GPU the memory cannot be compared.
        """
        import numpy as np
        import tensorflow as tf

        if tensor._id in self._inputs or tensor.dtype.name == "resource" or short_device(tensor.device)[:3] != "CPU":
            return None
        alike = [
            handle
            for handle in self._handles
            if handle.device == tensor.device and output_of(handle) == output_of(tensor)
        ]
        self._looking = True
        try:
            values = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=tensor.dtype) for handle in alike]
            return next((h for h, v in zip(alike, values, strict=True) if np.shares_memory(tensor, v)), None)
        finally:
            self._looking = False

    def _add(self, op: Op, outputs: Sequence[Any]) -> None:
        self.ops.append(op)
        self._made_by.update({tensor._id: op.name for tensor in outputs})

    def _unique(self, name: str) -> str:
        new, number = name, 0
        while new in self._names:
            number += 1
            new = f"{name}_{number}"
        self._names.add(new)
        return new


def _pins(graph_def: Any) -> Iterator[tuple[str, str]]:
    """The device of each node in a graph that is not placed yet; of a function's too, by the name that inlining gives it.

    What a function leaves open is the call's: so TensorFlow fills it in when it puts the function in place of the call.
    """
    library = {function.signature.name: function for function in graph_def.library.function}

    def of(nodes: Any, before: str = "", pin: str = "") -> Iterator[tuple[str, str]]:
        for node in nodes:
            own = short_device(node.device) or pin
            yield before + node.name, own
            called = node.attr["f"].func.name if "f" in node.attr else node.op
            if called in library:
                yield from of(library[called].node_def, f"{before}{node.name}/", own)

    return of(graph_def.node)


def _fits(graph: Any, inputs: int, outputs: int) -> bool:
    ops = [node.op for partition in graph.partition_graphs for node in partition.node]
    return ops.count("_Arg") == inputs and ops.count("_Retval") == outputs


def _shapes(graph_def: Any) -> dict[str, Any]:
    """Dtypes and shapes in a placed graph, as TensorFlow infers them."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        for node in graph_def.node:
            node.device = ""  # the graph is only looked at; not every device that it names can be parsed here
        try:
            tf.graph_util.import_graph_def(graph_def, name="")
        except ValueError:  # a cyclic (lowered) loop cannot be imported: do without shapes
            return {}
        return first_outputs(graph)


def _names_of(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], handles: list[Any]
) -> tuple[dict[int, str], dict[int, str]]:
    """The names by which the reader knows tensors and variables, by tensor id: parameters, closures, globals.

    The handles of the variables are added to `handles`.
    """
    import tensorflow as tf

    python = inspect.unwrap(getattr(fn, "python_function", fn))
    if not inspect.isroutine(python) and hasattr(python, "call"):  # a Keras model or layer: its `call` names the inputs
        python = python.call
    try:
        arguments = dict(inspect.signature(python).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        arguments = {f"argument_{i}": value for i, value in enumerate(args)} | dict(kwargs)
    mentioned = _mentioned(python)
    inputs: dict[int, str] = {}
    variables: dict[int, str] = {}

    def note(name: str, value: Any, depth: int) -> None:
        if depth < 0:
            return
        if isinstance(value, tf.Variable):
            variables[value.handle._id] = value.name.split(":")[0]
            handles.append(value.handle)
        elif isinstance(value, tf.Tensor):
            if name and hasattr(value, "_id"):
                inputs[value._id] = name
        elif isinstance(value, Mapping):
            for key, part in islice(value.items(), WIDEST):
                note(name and f"{name}_{key}", part, depth - 1)
        elif isinstance(value, (list, tuple)):
            for number, part in enumerate(value[:WIDEST]):
                note(name and f"{name}_{number}", part, depth - 1)
        elif isinstance(value, tf.Module) or hasattr(type(value), "trainable_variables"):
            for part in value.variables:  # a Keras 3 variable holds TensorFlow's as its value
                note("", part if isinstance(part, tf.Variable) else part.value, depth - 1)
        elif callable(value):  # a function that this one calls may have variables of its own
            for part in _mentioned(inspect.unwrap(getattr(value, "python_function", value))):
                note("", part, depth - 1)

    for value in mentioned:
        note("", value, DEEPEST)
    for name, value in arguments.items():
        note(name, value, DEEPEST)
    return inputs, variables


def _mentioned(function: Callable[..., Any]) -> list[Any]:
    """The values of the names that a Python function uses from around it."""
    owner = getattr(function, "__self__", None)
    try:
        closed = inspect.getclosurevars(function)
    except (TypeError, ValueError):  # no Python function, or a name that is not bound yet
        return [owner]
    return [owner, *closed.globals.values(), *closed.nonlocals.values()]
