"""Reading a GraphDef that a student's kernel sent: only operations that compute may be in it, and only so much of them.

A graph that a check imports runs in the checker's own process, where an unchecked ``WriteFile`` would write as us, and
where what takes all memory, never ends or calls itself ends the checker. What a graph may cost is therefore bounded here
as far as it can be read off the graph: before it is parsed (`graph_bytes`), as it was written (`graph_calls`, constants)
and, once TensorFlow has inferred its shapes, before it is run (`graph_sizes`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autograder.probe import graph_bytes, graph_calls, graph_sizes, wire

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef

MIB = 1 << 20


@dataclass(frozen=True)
class GraphLimits:
    """What a graph may be and cost. Sizes in bytes; whatever is counted, is counted with every call written out."""

    graph_bytes: int = 4 * MIB  # as it was sent
    fields: int = 150_000  # of its serialized form: 25 for an operation
    operations: int = 5_000
    functions: int = 500
    calls_deep: int = 50  # functions that call functions: 9,000 are a segmentation fault
    result_bytes: int = 64 * MIB  # one constant, or the result of one operation
    all_result_bytes: int = 256 * MIB  # of the whole graph
    products: int = 5_000_000_000  # multiplications in products of matrices and convolutions: seconds


LIMITS = GraphLimits()

SOURCES = """
Const Placeholder PlaceholderWithDefault Identity IdentityN NoOp Fill Range LinSpace ZerosLike OnesLike RandomUniform
RandomUniformInt RandomStandardNormal TruncatedNormal StatelessRandomUniformV2 StatelessRandomNormalV2
StatelessRandomGetKeyCounter StopGradient PreventGradient EnsureShape Snapshot"""
ARITHMETIC = """
MatMul BatchMatMulV2 BatchMatMulV3 AddV2 Add AddN Sub Mul MulNoNan RealDiv Div DivNoNan FloorDiv FloorMod Mod Pow
Square Sqrt Rsqrt Exp Log Log1p Expm1 Neg Abs Sign Maximum Minimum Sigmoid Tanh Relu Relu6 Elu Selu Softmax LogSoftmax
Softplus BiasAdd Mean Sum Prod Max Min All Any Cumsum ArgMax ArgMin Cast L2Loss SquaredDifference Sin Cos Tan Round
Floor Ceil Einsum SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits Inv Reciprocal Erf ClipByValue
AccumulateNV2 ReluGrad SigmoidGrad TanhGrad BiasAddGrad Conv2D MaxPool AvgPool Conv2DBackpropInput
Conv2DBackpropFilter MaxPoolGrad SqrtGrad RsqrtGrad ReciprocalGrad StridedSliceGrad"""
LOGIC = """
Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalNot Select SelectV2 Where
IsFinite IsNan IsInf"""
SHAPES = """
Shape ShapeN Size Rank Reshape Pack Unpack Concat ConcatV2 Split SplitV Slice StridedSlice Gather GatherV2 GatherNd
Tile Transpose ExpandDims Squeeze Pad PadV2 BroadcastTo BroadcastGradientArgs InvertPermutation OneHot Reverse
ReverseV2 UnsortedSegmentSum DynamicPartition DynamicStitch TopKV2 ScatterNd TensorScatterUpdate TensorScatterAdd
RaggedTensorToTensor MatrixDiag MatrixDiagV3 Diag"""
VARIABLES = """
VarHandleOp ReadVariableOp AssignVariableOp AssignAddVariableOp AssignSubVariableOp VarIsInitializedOp VariableShape
ResourceGather DestroyResourceOp VariableV2 Variable Assign AssignAdd AssignSub IsVariableInitialized
ResourceApplyGradientDescent ApplyGradientDescent"""
CONTROL = """
PartitionedCall StatefulPartitionedCall If StatelessIf While StatelessWhile Case StatelessCase Switch RefSwitch Merge
Enter Exit NextIteration LoopCond ControlTrigger Assert CheckNumerics Print StringFormat"""
CONSTANTS = wire.DTYPES | {"bfloat16", "string"}
ALLOWED = frozenset(" ".join((SOURCES, ARITHMETIC, LOGIC, SHAPES, VARIABLES, CONTROL)).split())


class GraphError(wire.RefusedError):
    """What came is not a graph that may run here; the message is for the student."""


def read(data: bytes, limits: GraphLimits = LIMITS, allowed: Collection[str] = ALLOWED) -> GraphDef:
    """Parse a serialized GraphDef and check all that is in it, library functions included. Raises GraphError."""
    from tensorflow.core.framework import graph_pb2

    _affordable(data, limits)
    try:
        graph = graph_pb2.GraphDef.FromString(data)  # pyright: ignore[reportAttributeAccessIssue]
    except Exception:  # DecodeError
        raise GraphError("The graph that came back cannot be read.") from None
    _only_allowed(graph, allowed)
    _bounded(graph, _times(graph, limits), limits)
    return graph


def imported(graph_def: GraphDef, limits: GraphLimits = LIMITS) -> tf.Graph:
    """What was `read`, as a graph that may be run: by its inferred shapes it is not too large. Raises GraphError."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(graph_def, name="")
            work = _work(graph, graph_def, limits)
        except Exception:  # ValueError, TypeError, KeyError, tf.errors.OpError: whatever the graph provokes
            raise GraphError("The graph that your code built does not hold together.") from None
    largest = max((each for each, _ in work), key=lambda each: each.largest)
    if largest.largest > limits.result_bytes:
        raise GraphError(
            f"Your graph computes a tensor of {_mebibytes(largest.largest)} ({largest.largest_op}); "
            f"one may have {_mebibytes(limits.result_bytes)}."
        )
    everything = sum(each.all_results * times for each, times in work)
    if everything > limits.all_result_bytes:
        raise GraphError(
            f"Your graph computes tensors of {_mebibytes(everything)} together; "
            f"they may have {_mebibytes(limits.all_result_bytes)}."
        )
    products = sum(each.products * times for each, times in work)
    if products > limits.products:
        raise GraphError(
            f"The products in your graph come to {_number(products)} multiplications; they may be {limits.products:,}."
        )
    return graph


def _affordable(data: bytes, limits: GraphLimits) -> None:
    """Raise GraphError for what would cost more to parse than a graph may."""
    if len(data) > limits.graph_bytes:
        raise GraphError(
            f"The graph that came back has {_mebibytes(len(data))}; a graph may have {_mebibytes(limits.graph_bytes)}: "
            "large constants, perhaps?"
        )
    try:
        fields = graph_bytes.fields(data, limits.fields)
    except graph_bytes.MalformedError:
        raise GraphError("The graph that came back cannot be read.") from None
    if fields > limits.fields:
        raise GraphError(
            f"The graph that came back holds too much to be looked at: more than {limits.operations:,} operations, or "
            f"{limits.functions} functions."
        )


def _only_allowed(graph: GraphDef, allowed: Collection[str]) -> None:
    from tensorflow.python.framework import op_def_registry  # pyright: ignore[reportAttributeAccessIssue]

    functions = {function.signature.name for function in graph.library.function}
    odd = {node.op for nodes in _bodies(graph) for node in nodes} - functions - set(allowed)
    odd |= {name for name in functions if op_def_registry.get(name) is not None}  # it would be that op when it runs
    if odd:
        names = ", ".join(sorted(odd)[:5])
        raise GraphError(f"The graph holds operations that a graph may not hold here: {names}"[:300])


def _times(graph: GraphDef, limits: GraphLimits) -> list[int]:
    """How often each of `_bodies` stands in the graph when every call is written out."""
    names = [function.signature.name for function in graph.library.function]
    if len(names) > limits.functions:
        raise GraphError(f"The graph that came back has more than {limits.functions} functions.")
    if len(set(names)) < len(names):
        raise GraphError("The graph that came back has two functions of one name.")
    try:
        times = graph_calls.times(graph, limits.calls_deep)
    except graph_calls.RecursionFoundError:
        raise GraphError("A function in your graph calls itself; TensorFlow cannot run that.") from None
    except graph_calls.TooDeepError:
        raise GraphError(f"Functions in your graph call one another more than {limits.calls_deep} deep.") from None
    return [1, *(times[name] for name in names)]


def _bounded(graph: GraphDef, times: list[int], limits: GraphLimits) -> None:
    """Raise GraphError for more operations or larger constants than a graph may have."""
    bodies = _bodies(graph)
    operations = sum(len(body) * count for body, count in zip(bodies, times, strict=True))
    if operations > limits.operations:
        raise GraphError(
            f"Your graph has {_number(operations)} operations when every call of a function is written out; "
            f"it may have {limits.operations:,}."
        )
    everything = 0
    for body, count in zip(bodies, times, strict=True):
        for node in body:
            for tensor in _tensors(node):
                if graph_sizes.dtype_name(tensor.dtype) not in CONSTANTS:
                    raise GraphError("A constant in your graph is neither of numbers nor of texts.")
                size = graph_sizes.constant_bytes(tensor)
                everything += size * max(count, 1)
                if max(size, everything) > limits.result_bytes:
                    raise GraphError(
                        f"The constants of your graph have {_mebibytes(everything)}; "
                        f"they may have {_mebibytes(limits.result_bytes)}."
                    )


def _work(graph: tf.Graph, graph_def: GraphDef, limits: GraphLimits) -> list[tuple[graph_sizes.Work, int]]:
    """What the graph and each of its functions compute, and how often each stands in it."""
    from tensorflow.python.framework import function_def_to_graph  # pyright: ignore[reportAttributeAccessIssue]

    found = [(graph_sizes.work(graph.get_operations()), 1)]
    for function, times in zip(graph_def.library.function, _times(graph_def, limits)[1:], strict=True):
        if times:
            with graph.as_default():
                body = function_def_to_graph.function_def_to_graph(function)
            found.append((graph_sizes.work(body.get_operations()), times))
    return found


def _bodies(graph: GraphDef) -> list[list[NodeDef]]:
    """The operations of the graph, then those of each of its functions."""
    return [list(graph.node), *(list(function.node_def) for function in graph.library.function)]


def _tensors(node: NodeDef) -> Iterator[Any]:
    for attribute in node.attr.values():
        kind = attribute.WhichOneof("value")
        if kind == "tensor":
            yield attribute.tensor
        elif kind == "list":
            yield from attribute.list.tensor


def _mebibytes(size: int) -> str:
    """ "3,000 MiB"; a power of ten where that would be a line of digits."""
    return f"{_number(max(1, -(-size // MIB)))} MiB"


def _number(count: int) -> str:
    return f"{count:,}" if count < 10**12 else f"more than 10^{len(str(count)) - 1}"
