"""Reading a GraphDef that a student's kernel sent: only operations that compute may be in it, and only so much of them.

A graph that a check imports runs in the checker's own process, where an unchecked ``WriteFile`` would write as us, and
where what takes all memory, never ends or calls itself ends the checker. What a graph may cost is therefore bounded here
as far as it can be read off the graph: before it is parsed (`graph_bytes`), as it was written (calls, constants)
and, once TensorFlow has inferred its shapes, before it is run (`graph_sizes`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from autograder.probe import graph_bytes, graph_sizes, wire

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow.core.framework.attr_value_pb2 import AttrValue, NameAttrList
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef

MIB = 1 << 20


# What a graph may be and cost. Sizes in bytes; whatever is counted, is counted with every call written out.
GRAPH_BYTES = 4 * MIB  # as it was sent
FIELDS = 150_000  # of its serialized form: 25 for an operation
OPERATIONS = 5_000
FUNCTIONS = 500
CALLS_DEEP = 50  # functions that call functions: 9,000 are a segmentation fault
RESULT_BYTES = 64 * MIB  # one constant, or the result of one operation
ALL_RESULT_BYTES = 256 * MIB  # of the whole graph
PRODUCTS = 5_000_000_000  # multiplications in products of matrices and convolutions: seconds

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
Conv2DBackpropFilter MaxPoolGrad SqrtGrad RsqrtGrad ReciprocalGrad StridedSliceGrad EluGrad SeluGrad Relu6Grad
LeakyRelu LeakyReluGrad Erfc Xlogy Xdivy Cumprod"""
LOGIC = """
Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalNot Select SelectV2 Where
IsFinite IsNan IsInf"""
SHAPES = """
Shape ShapeN Size Rank Reshape Pack Unpack Concat ConcatV2 Split SplitV Slice StridedSlice Gather GatherV2 GatherNd
Tile Transpose ExpandDims Squeeze Pad PadV2 BroadcastTo BroadcastGradientArgs InvertPermutation OneHot Reverse
ReverseV2 UnsortedSegmentSum DynamicPartition DynamicStitch TopKV2 ScatterNd TensorScatterUpdate TensorScatterAdd
RaggedTensorToTensor MatrixDiag MatrixDiagV3 Diag ConcatOffset ListDiff ParallelDynamicStitch MatrixDiagPartV3"""
VARIABLES = """
VarHandleOp ReadVariableOp AssignVariableOp AssignAddVariableOp AssignSubVariableOp VarIsInitializedOp VariableShape
ResourceGather DestroyResourceOp VariableV2 Variable Assign AssignAdd AssignSub IsVariableInitialized
ResourceApplyGradientDescent ApplyGradientDescent"""
# No TensorList, of `map_fn` and TensorArray: one reserved with 2^31 - 1 places, or resized to -1, ends the process.
CONTROL = """
PartitionedCall StatefulPartitionedCall If StatelessIf While StatelessWhile Case StatelessCase Switch RefSwitch Merge
Enter Exit NextIteration LoopCond ControlTrigger Assert CheckNumerics Print StringFormat"""
CONSTANTS = wire.DTYPES | {"bfloat16", "string"}
ALLOWED = frozenset(" ".join((SOURCES, ARITHMETIC, LOGIC, SHAPES, VARIABLES, CONTROL)).split())


class GraphError(wire.RefusedError):
    """What came is not a graph that may run here; the message is for the student."""


def read(data: bytes, allowed: Collection[str] = ALLOWED) -> GraphDef:
    """Parse a serialized GraphDef and check all that is in it, library functions included. Raises GraphError."""
    from tensorflow.core.framework import graph_pb2

    _affordable(data)
    try:
        graph = graph_pb2.GraphDef.FromString(data)  # pyright: ignore[reportAttributeAccessIssue]
    except Exception:  # DecodeError
        raise GraphError("The graph that came back cannot be read.") from None
    _only_allowed(graph, allowed)
    _bounded(graph, _times(graph))
    return graph


def imported(graph_def: GraphDef) -> tf.Graph:
    """What was `read`, as a graph that may be run: by its inferred shapes it is not too large. Raises GraphError."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(graph_def, name="")
            work = _work(graph, graph_def)
        except Exception:  # ValueError, TypeError, KeyError, tf.errors.OpError: whatever the graph provokes
            raise GraphError("The graph that your code built does not hold together.") from None
    largest = max((each for each, _ in work), key=lambda each: each.largest)
    if largest.largest > RESULT_BYTES:
        raise GraphError(
            f"Your graph computes a tensor of {_mebibytes(largest.largest)} ({largest.largest_op}); "
            f"one may have {_mebibytes(RESULT_BYTES)}."
        )
    everything = sum(each.all_results * times for each, times in work)
    if everything > ALL_RESULT_BYTES:
        raise GraphError(
            f"Your graph computes tensors of {_mebibytes(everything)} together; "
            f"they may have {_mebibytes(ALL_RESULT_BYTES)}."
        )
    products = sum(each.products * times for each, times in work)
    if products > PRODUCTS:
        raise GraphError(
            f"The products in your graph come to {_number(products)} multiplications; they may be {PRODUCTS:,}."
        )
    return graph


def _affordable(data: bytes) -> None:
    """Raise GraphError for what would cost more to parse than a graph may."""
    if len(data) > GRAPH_BYTES:
        raise GraphError(
            f"The graph that came back has {_mebibytes(len(data))}; a graph may have {_mebibytes(GRAPH_BYTES)}: "
            "large constants, perhaps?"
        )
    try:
        fields = graph_bytes.fields(data, FIELDS)
    except graph_bytes.MalformedError:
        raise GraphError("The graph that came back cannot be read.") from None
    if fields > FIELDS:
        raise GraphError(
            f"The graph that came back holds too much to be looked at: more than {OPERATIONS:,} operations, or "
            f"{FUNCTIONS} functions."
        )


def _only_allowed(graph: GraphDef, allowed: Collection[str]) -> None:
    from tensorflow.python.framework import op_def_registry  # pyright: ignore[reportAttributeAccessIssue]

    functions = {function.signature.name for function in graph.library.function}
    odd = {node.op for nodes in _bodies(graph) for node in nodes} - functions - set(allowed)
    odd |= {name for name in functions if op_def_registry.get(name) is not None}  # it would be that op when it runs
    if odd:
        names = ", ".join(sorted(odd)[:5])
        raise GraphError(f"The graph holds operations that a graph may not hold here: {names}"[:300])


def _times(graph: GraphDef) -> list[int]:
    """How often each of `_bodies` stands in the graph when every call is written out."""
    names = [function.signature.name for function in graph.library.function]
    if len(names) > FUNCTIONS:
        raise GraphError(f"The graph that came back has more than {FUNCTIONS} functions.")
    if len(set(names)) < len(names):
        raise GraphError("The graph that came back has two functions of one name.")
    times = called(graph)
    return [1, *(times[name] for name in names)]


def called(graph: GraphDef) -> dict[str, int]:
    """How often the body of each function stands in the graph when all calls are written out: exact, whatever its size.

    A branch or a loop's body is written out once for each node that names it. Raises GraphError: a function that calls itself
    ends the process, one that calls another twice, which calls another twice, is exponential.
    """
    calls = {function.signature.name: list(_named(function.node_def)) for function in graph.library.function}
    calls = {name: [each for each in called if each in calls] for name, called in calls.items()}
    first = [each for each in _named(graph.node) if each in calls]
    count = dict.fromkeys(calls, 0)
    for name in first:
        count[name] += 1
    for name in _callers_first(calls):
        for each in calls[name]:
            count[each] += count[name]
    return count


def _callers_first(calls: dict[str, list[str]]) -> list[str]:
    """The functions in an order in which each comes before those that it calls."""
    done: dict[str, int] = {}  # function -> how many functions deep its calls go, itself counted
    for start in calls:
        path: list[tuple[str, Iterator[str]]] = [(start, iter(calls[start]))] if start not in done else []
        on_path = {start}
        while path:
            name, rest = path[-1]
            for called in rest:
                if called in on_path:
                    raise GraphError("A function in your graph calls itself; TensorFlow cannot run that.")
                if called not in done:
                    path.append((called, iter(calls[called])))
                    on_path.add(called)
                    break
            else:
                done[name] = 1 + max((done[called] for called in calls[name]), default=0)
                path.pop()
                on_path.discard(name)
    if max(done.values(), default=0) > CALLS_DEEP:
        raise GraphError(f"Functions in your graph call one another more than {CALLS_DEEP} deep.")
    return list(reversed(done))


def _named(nodes: Iterable[NodeDef]) -> Iterator[str]:
    """What `nodes` name that may be a function: as their operation, or in an attribute."""
    for node in nodes:
        yield node.op
        for attribute in node.attr.values():
            yield from _in_attribute(attribute)


def _in_attribute(attribute: AttrValue) -> Iterator[str]:
    kind = attribute.WhichOneof("value")
    functions: Iterable[NameAttrList] = ()
    if kind == "func":
        functions = [attribute.func]
    elif kind == "list":
        functions = attribute.list.func
    for function in functions:
        yield function.name
        for inner in function.attr.values():  # nested no deeper than graph_bytes.NESTED
            yield from _in_attribute(inner)


def _bounded(graph: GraphDef, times: list[int]) -> None:
    """Raise GraphError for more operations or larger constants than a graph may have."""
    bodies = _bodies(graph)
    operations = sum(len(body) * count for body, count in zip(bodies, times, strict=True))
    if operations > OPERATIONS:
        raise GraphError(
            f"Your graph has {_number(operations)} operations when every call of a function is written out; "
            f"it may have {OPERATIONS:,}."
        )
    everything = 0
    for body, count in zip(bodies, times, strict=True):
        for node in body:
            for tensor in _tensors(node):
                if graph_sizes.dtype_name(tensor.dtype) not in CONSTANTS:
                    raise GraphError("A constant in your graph is neither of numbers nor of texts.")
                size = graph_sizes.constant_bytes(tensor)
                everything += size * max(count, 1)
                if max(size, everything) > RESULT_BYTES:
                    raise GraphError(
                        f"The constants of your graph have {_mebibytes(everything)}; "
                        f"they may have {_mebibytes(RESULT_BYTES)}."
                    )


def _work(graph: tf.Graph, graph_def: GraphDef) -> list[tuple[graph_sizes.Work, int]]:
    """What the graph and each of its functions compute, and how often each stands in it."""
    from tensorflow.python.framework import function_def_to_graph  # pyright: ignore[reportAttributeAccessIssue]

    found = [(graph_sizes.work(graph.get_operations()), 1)]
    for function, times in zip(graph_def.library.function, _times(graph_def)[1:], strict=True):
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
