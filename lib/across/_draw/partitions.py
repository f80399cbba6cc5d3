"""From the graphs that TensorFlow really ran, one a device, back to one list of placed ops.

TensorFlow cuts a placed graph into one partition a device and joins the pieces by pairs of _Send and _Recv. `placed_ops`
mends the cuts: a pair becomes an edge, and an edge whose ends differ in device is a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

INPUT, VARIABLE, OP, PLUMBING = "input", "variable", "op", "plumbing"

NEVER_SHOWN = {
    "_Arg",
    "_Retval",
    "_Send",
    "_Recv",
    "_HostSend",
    "_HostRecv",
    "NoOp",
    "VarIsInitializedOp",
    "DestroyResourceOp",
}
# Nodes that TensorFlow adds when it inlines and partitions. A constant that it makes once a device is the program's own.
_CUT_BY_US = re.compile(r"(^Func/.*)|(.*(?<!/replicate)/_\d+$)|(.*/ctrl_S\d+$)")
_CONTROL = re.compile(
    r".*/ctrl_S\d+"
)  # an empty tensor that carries a control edge to another task, where an Identity ends it
# A session's master, where it is another process, receives what its client feeds and sends it what is fetched.
_FED = re.compile(r"_recv_.+_\d+")
_FETCHED = re.compile(r"_send_.+_\d+")
_SHAPE_INPUTS = {  # inputs that say how to compute, not what: axes, shapes, sizes; -1 is the last one
    **dict.fromkeys(
        ["Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "ArgMax", "ArgMin", "Reshape", "Transpose"], (1,)
    ),
    **dict.fromkeys(["ExpandDims", "Tile", "BroadcastTo", "Pad", "PadV2", "Cumsum"], (1,)),
    **dict.fromkeys(["StridedSlice", "Slice"], (1, 2, 3)),
    **dict.fromkeys(
        ["Fill", "Split", "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt"], (0,)
    ),
    **dict.fromkeys(["StatelessRandomUniformV2", "StatelessRandomNormalV2"], (0,)),
    **dict.fromkeys(["ConcatV2"], (-1,)),
    **dict.fromkeys(["GatherV2"], (2,)),
    **dict.fromkeys(["SplitV"], (1, 2)),
}


@dataclass(frozen=True)
class Op:
    """One op and where it ran."""

    name: str  # unique within its trace
    type: str  # "MatMul"
    device: str  # "CPU:1"; on another task "ps:0 CPU:0"
    dtype: str  # of its first output; "" for an op without outputs
    shape: tuple[int | None, ...] | None  # of its first output, None where unknown
    inputs: tuple[str, ...] = ()  # names of the ops that its inputs come from
    kind: str = OP  # "op"; "input" and "variable": what the traced function was given; "plumbing": TensorFlow's own
    pin: str | None = None  # the device that it has in the graph, "" for none; None where that is not known


Output = tuple[str, "tuple[int | None, ...] | None"]  # dtype and shape of a tensor


def short_device(device: str) -> str:
    """The name a reader wants: "CPU:1" for "/job:localhost/replica:0/task:0/device:CPU:1", "ps:0 CPU:0" for another job."""
    parts = dict(re.findall(r"(job|task|device):([^/]+)", device))
    bare = re.search(r"(?:^|/)((?:xla_)?[cg]pu):(\d+|\*)$", device, re.IGNORECASE)
    local = parts.get("device") or (f"{bare[1].upper()}:{bare[2]}" if bare else "")
    job = parts.get("job", "localhost")
    return local if job == "localhost" else f"{job}:{parts.get('task', '0')} {local}".strip()


def fed_name(name: str) -> str:
    """What the client calls what it feeds: `name` is that of TensorFlow's own op for it, or the client's already."""
    return re.sub(r"^_(?:arg_(.+)_\d+|recv_(.+))_\d+$", r"\1\2", name)


def op_type(type_name: str) -> str:
    """The type that was asked for: oneDNN renames `MatMul` to `_MklMatMul` when it runs it."""
    return re.sub(r"^_Mkl(Native)?", "", type_name)


def placed_ops(partitions: Iterable[Any], outputs: Mapping[str, Output]) -> list[Op]:
    """The ops of partition graphs (GraphDefs), in an order in which they can run; `_Arg` and `_Retval` among them.

    `outputs` gives the dtype and the shape of the first output by op name.
    """
    nodes = {node.name: node for graph in partitions for node in graph.node}
    sent = {
        (node.attr["tensor_name"].s, node.attr["recv_device"].s): _source(node.input[0])
        for node in nodes.values()
        if node.op in ("_Send", "_HostSend")
    }
    received = {
        name: sent.get((node.attr["tensor_name"].s, node.attr["recv_device"].s), "")
        for name, node in nodes.items()
        if node.op in ("_Recv", "_HostRecv") and not _FED.fullmatch(name)
    }
    ops = {}
    for name, node in nodes.items():
        at_the_edge = "_Arg" if _FED.fullmatch(name) else "_Retval" if _FETCHED.fullmatch(name) else ""
        if node.op.endswith(("Send", "Recv")) and node.op.startswith("_") and not at_the_edge:
            continue
        sources = [_source(source) for source in node.input if not source.startswith("^")]
        sources = [received.get(source, source) for source in sources]
        dtype, shape = outputs.get(name, ("", None))
        ours = at_the_edge or _CUT_BY_US.match(name) or any(map(_CONTROL.fullmatch, sources))
        ops[name] = Op(
            name=name,
            type=at_the_edge or op_type(node.op),
            device=short_device(node.device),
            dtype=dtype,
            shape=shape,
            inputs=tuple(filter(None, sources)),
            kind=PLUMBING if node.op in NEVER_SHOWN or ours else OP,
        )
    return mark_plumbing(in_order(ops))


SAYING = ("PrintV2", "StringFormat", "Assert")  # types that compute nothing that an answer is asked for


def mark_plumbing(ops: list[Op]) -> list[Op]:
    """Mark as plumbing the constants that hold axes and shapes, what prints or asserts, and the identities that return."""
    readers: dict[str, list[tuple[Op, int]]] = {op.name: [] for op in ops}
    for op in ops:
        for position, source in enumerate(op.inputs):
            readers.setdefault(source, []).append((op, position))

    def plumbing(op: Op) -> bool:
        if op.type in SAYING:
            return True
        uses = readers[op.name]
        if not uses:
            return False
        if op.type == "Const":
            return all(_is_shape_input(reader, position) for reader, position in uses)
        if op.type == "Identity":
            returned = all(reader.type == "_Retval" or re.match(r"Func/.*/output/", reader.name) for reader, _ in uses)
            return returned and re.match(r"(.*/)?Identity(_\d+)?$", op.name) is not None
        return False

    return [replace(op, kind=PLUMBING) if op.kind == OP and plumbing(op) else op for op in ops]


def _is_shape_input(reader: Op, position: int) -> bool:
    places = _SHAPE_INPUTS.get(reader.type, ())
    return position in places or position - len(reader.inputs) in places


def in_order(ops: Mapping[str, Op]) -> list[Op]:
    """Each op after those that it reads, otherwise as given; a loop is cut where it closes."""
    done: dict[str, Op] = {}
    for name in ops:
        stack, entered = [name], set()
        while stack:
            current = stack[-1]
            waiting = [s for s in ops[current].inputs if s in ops and s not in done and s not in entered]
            entered.add(current)
            if waiting:
                stack += reversed(waiting)
            else:
                stack.pop()
                done.setdefault(current, ops[current])
    return list(done.values())


def output_of(tensor: Any) -> Output:
    """The dtype's name and the shape of a tensor, for a variable's handle those of its value."""
    dtype, shape = tensor.dtype, tensor.shape
    if dtype.name == "resource" and (data := getattr(tensor, "_handle_data", None)) and data.is_set:
        import tensorflow as tf

        value = data.shape_and_type[0]
        dtype, shape = tf.as_dtype(value.dtype), tf.TensorShape(value.shape)
    return dtype.base_dtype.name, None if shape.rank is None else tuple(shape.as_list())


def first_outputs(graph: tf.Graph) -> dict[str, Output]:
    """The dtype and shape of the first output of each op of a graph, by op name."""
    return {op.name: output_of(op.outputs[0]) for op in graph.get_operations() if op.outputs}


def renamed(ops: Iterable[Op], names: Mapping[str, str]) -> list[Op]:
    """The same ops under other names, as inputs of each other too; what `names` lacks keeps its name."""
    return [
        replace(op, name=names.get(op.name, op.name), inputs=tuple(names.get(name, name) for name in op.inputs))
        for op in ops
    ]


def _source(edge: str) -> str:
    return edge.removeprefix("^").split(":")[0]
