"""Reading a GraphDef that a student's kernel sent: only operations that compute may be in it.

A graph that a check imports runs in the checker's own process, where an unchecked ``WriteFile`` would write as us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autograder.probe import wire

if TYPE_CHECKING:
    from tensorflow.core.framework.graph_pb2 import GraphDef

NODES = 20_000

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
Conv2DBackpropFilter MaxPoolGrad"""
LOGIC = """
Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalNot Select SelectV2 Where"""
SHAPES = """
Shape ShapeN Size Rank Reshape Pack Unpack Concat ConcatV2 Split SplitV Slice StridedSlice Gather GatherV2 GatherNd
Tile Transpose ExpandDims Squeeze Pad PadV2 BroadcastTo BroadcastGradientArgs InvertPermutation OneHot Reverse
ReverseV2 UnsortedSegmentSum DynamicStitch TopKV2 ScatterNd MatrixDiag MatrixDiagV3 Diag"""
VARIABLES = """
VarHandleOp ReadVariableOp AssignVariableOp AssignAddVariableOp AssignSubVariableOp VarIsInitializedOp VariableShape
ResourceGather DestroyResourceOp VariableV2 Variable Assign AssignAdd AssignSub IsVariableInitialized
ResourceApplyGradientDescent ApplyGradientDescent"""
CONTROL = """
PartitionedCall StatefulPartitionedCall If StatelessIf While StatelessWhile Case StatelessCase Switch RefSwitch Merge
Enter Exit NextIteration LoopCond ControlTrigger Assert Print StringFormat"""
ALLOWED = frozenset(" ".join((SOURCES, ARITHMETIC, LOGIC, SHAPES, VARIABLES, CONTROL)).split())


class GraphError(wire.RefusedError):
    """What came is not a graph that may run here; the message is for the student."""


def read(data: bytes) -> GraphDef:
    """Parse a serialized GraphDef and check every operation in it, library functions included. Raises GraphError."""
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.framework import op_def_registry  # pyright: ignore[reportAttributeAccessIssue]

    try:
        graph = graph_pb2.GraphDef.FromString(data)  # pyright: ignore[reportAttributeAccessIssue]
    except Exception:  # DecodeError
        raise GraphError("the graph that came back cannot be read") from None
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    if sum(map(len, bodies)) > NODES:
        raise GraphError(f"the graph that came back has more than {NODES} operations")
    functions = {function.signature.name for function in graph.library.function}
    odd = {node.op for nodes in bodies for node in nodes} - ALLOWED - functions
    odd |= {name for name in functions if op_def_registry.get(name) is not None}  # it would be that op when it runs
    if odd:
        names = ", ".join(sorted(odd)[:5])
        raise GraphError(f"the graph holds operations that a graph may not hold here: {names}"[:300])
    return graph
