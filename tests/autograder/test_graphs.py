"""Reading a student's graph: only operations that compute come in, and only as much of them as a checker can bear."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from autograder.probe import asking, graph_bytes, graphs, wire
from autograder.probe.asking import Refused, in_process, probe

tf = pytest.importorskip("tensorflow")
v1 = tf.compat.v1


def length(data: bytes) -> bytes:
    """The length of `data` as it is written before it."""
    value, out = len(data), bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, data: bytes) -> bytes:
    """A message or text as field `number` of another message."""
    return bytes([number << 3 | 2]) + length(data) + data


def serialized(build: Callable[[], Any]) -> bytes:
    """What `build` builds, as it is sent."""
    with tf.Graph().as_default() as graph:
        build()
    return graph.as_graph_def().SerializeToString()


def sent(*ops: str, **attributes: bytes) -> Any:
    """A graph of nodes that are nothing but their ops."""
    graph = v1.GraphDef()
    for i, op in enumerate(ops):
        node = graph.node.add(name=f"n{i}", op=op)
        for name, value in attributes.items():
            node.attr[name].s = value
    return graph


def calling(calls: dict[str, list[str]], first: list[str]) -> Any:
    """A graph whose functions call as said, and which calls `first`."""
    graph = v1.GraphDef()
    for i, name in enumerate(first):
        graph.node.add(name=f"n{i}", op="PartitionedCall").attr["f"].func.name = name
    for name, called in calls.items():
        function = graph.library.function.add()
        function.signature.name = name
        for i, each in enumerate(called):
            function.node_def.add(name=f"n{i}", op="StatefulPartitionedCall").attr["f"].func.name = each
    return graph


# What may be in it


def with_function(graph: Any, name: str, *ops: str) -> Any:
    """The graph with one more function in its library."""
    function = graph.library.function.add()
    function.signature.name = name
    for op in ops:
        function.node_def.add(name="w", op=op)
    return graph


def constant(dtype: int, *dims: int) -> Any:
    """A constant that is written as one number, or as something of an odd type."""
    graph = sent("Const")
    tensor = graph.node[0].attr["value"].tensor
    tensor.dtype, tensor.float_val[:] = dtype, [1.0]
    for size in dims:
        tensor.tensor_shape.dim.add().size = size
    return graph


CHAIN = {f"f{i}": [f"f{i + 1}"] for i in range(400)} | {"f400": []}


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (with_function(sent("NoOp"), "innocent", "WriteFile"), "WriteFile"),  # hidden in a function
        (with_function(sent("WriteFile"), "WriteFile"), "WriteFile"),  # as if it were a function's name
        (constant(21), "neither of numbers nor of texts"),  # DT_VARIANT: it is made by a decoder of its own
        (constant(1, 28_000, 28_000), "constants of your graph have 2,991 MiB"),  # written as one number
        (calling({"f": ["f"]}, ["f"]), "calls itself"),
        (calling({"f": ["g"], "g": ["h"], "h": ["f"]}, ["h"]), "calls itself"),
        (calling({"f": ["f"]}, []), "calls itself"),
        (calling(CHAIN, ["f0"]), "more than 50 deep"),
        (with_function(calling({"f": []}, ["f"]), "f"), "two functions of one name"),
    ],
)
def test_what_may_not_be_in_a_graph_does_not_come_in(graph, says):
    refused_for(graph, says)


# Only where one was asked for


@probe
def plain(student):
    return student.answer()


@probe(graphs=2)
def with_graphs(student):
    return student.answer()


def test_a_probe_gets_as_many_graphs_as_it_asked_for():
    got = in_process({"answer": lambda: [sent("NoOp"), {"second": sent("Const")}]}).ask(with_graphs)
    assert [node.op for node in (got[0].node[0], got[1]["second"].node[0])] == ["NoOp", "Const"]


def test_a_graph_that_nobody_asked_for_is_the_students_to_mend():
    with pytest.raises(Refused, match="type GraphDef;"):
        in_process({"answer": lambda: sent("NoOp")}).ask(plain)
    with pytest.raises(Refused, match="type GraphDef;"):
        in_process({"answer": lambda: [sent("NoOp")] * 3}).ask(with_graphs)


@pytest.mark.parametrize(("asked", "forged"), [(0, 1), (1, 2), (0, 1_000_000)])
def test_a_forged_graph_beyond_those_is_never_looked_at(asked, forged):
    def look(data: bytes) -> bytes:
        looked.append(data)
        return data

    looked: list[bytes] = []
    header = b"[" + b",".join([b'{"g": 1}'] * forged) + b"]"
    if forged < wire.CONTAINERS:
        with pytest.raises(wire.WireError, match="nobody asked for"):
            wire.decode(header, b"x" * forged, asked, look)
    else:
        with pytest.raises(wire.WireError, match="more than"):
            wire.decode(header, b"x" * forged, asked, look)
    assert len(looked) <= asked


def test_an_answer_that_is_read_after_the_deadline_is_none():
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(wire.encode(sent("NoOp"), graphs=1))
        until = time.monotonic() + 0.2

        def slow(data: bytes) -> bytes:
            while time.monotonic() <= until:
                pass
            return data

        with pytest.raises(wire.DeadlineError):
            wire.receive(ours, until, 1000, 1, slow)


# What it costs to read


def test_every_field_of_a_graph_is_counted_and_no_byte_is_taken_for_another():
    def count(message: Any) -> int:
        found = 0
        for descriptor, value in message.ListFields():
            entry = descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry
            if entry:
                found += sum(2 + (count(each) if hasattr(each, "ListFields") else 0) for each in value.values())
            each_in = list(value.values() if entry else value if descriptor.is_repeated else [value])
            packed = descriptor.is_repeated and descriptor.message_type is None and descriptor.type not in (9, 12)
            found += 1 if packed else len(each_in)
            if descriptor.message_type is not None and not entry:
                found += sum(count(each) for each in each_in)
        return found

    @tf.function
    def looped(x):
        for _ in tf.range(3):
            x = tf.matmul(x, x) if tf.reduce_sum(x) > 0 else x + 1
        return x

    graph = looped.get_concrete_function(tf.TensorSpec((2, 2))).graph.as_graph_def(add_shapes=True)
    assert len(graph.library.function) >= 4
    data = graph.SerializeToString()
    wanted = count(graph)
    assert wanted > 500
    assert graph_bytes.fields(data, 10**6) == wanted
    assert graph_bytes.fields(data, wanted - 1) == wanted
    assert graph_bytes.fields(data, 100) == 101


@pytest.mark.parametrize(
    "data",
    [
        field(2, b"\x0a\x00" * 7_000_000),
        field(1, b"") * 4_000_000,
        field(1, field(5, b"") * 4_000_000),
        field(5, field(2, b"") * 4_000_000),
        b"\x18\x01" * 4_000_000,
    ],
    ids=["functions", "nodes", "attributes", "debug info", "versions"],
)
def test_millions_of_anything_small_are_refused_before_they_take_memory(data, monkeypatch):
    started = time.process_time()
    with pytest.raises(graphs.GraphError, match="a graph may have 4 MiB"):
        graphs.read(data)
    monkeypatch.setattr(graphs, "GRAPH_BYTES", 1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(graphs.GraphError, match="more than 5,000 operations, or 500 functions"):
            graphs.read(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < 5


def test_messages_nested_without_end_are_refused():
    data = b""
    for _ in range(2000):  # NodeDef.experimental_type.args.args...
        data = field(2, data)
    with pytest.raises(graphs.GraphError, match="cannot be read"):
        graphs.read(field(1, field(7, data)))


# What its functions come to


def refused_for(graph: Any, match: str) -> None:
    with pytest.raises(graphs.GraphError, match=match):
        graphs.read(graph.SerializeToString())


def test_functions_that_call_twice_do_not_once_that_is_too_much():
    def twice(deep: int) -> Any:
        return calling({f"f{i}": [f"f{i + 1}"] * 2 for i in range(deep)} | {f"f{deep}": []}, ["f0"])

    assert graphs.called(twice(8))["f8"] == 256
    graphs.read(twice(8).SerializeToString())
    refused_for(twice(14), r"32,767 operations when every call")
    refused_for(twice(40), r"more than 10\^12 operations")


def test_a_branch_and_a_loop_count_as_calls():
    graph = v1.GraphDef()
    node = graph.node.add(name="n", op="StatelessCase")
    node.attr["branches"].list.func.add().name = "a"
    node.attr["branches"].list.func.add().name = "b"
    loop = graph.node.add(name="m", op="StatelessWhile")
    loop.attr["body"].func.name = "b"
    loop.attr["cond"].func.attr["inner"].func.name = "a"
    graph.node.add(name="o", op="a")
    for name in "ab":
        graph.library.function.add().signature.name = name
    assert graphs.called(graph) == {"a": 3, "b": 2}


# What it takes to run


def computed(build: Callable[[], Any]) -> Any:
    return graphs.imported(graphs.read(serialized(build)))


def test_a_graph_that_is_small_comes_out_ready_to_run():
    graph = computed(lambda: tf.matmul(tf.ones([2, 3]), tf.ones([3, 2]), name="product"))
    with v1.Session(graph=graph) as session:
        assert session.run("product:0").tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_what_the_gradient_of_an_allowed_operation_needs_is_allowed():
    nn = tf.nn
    doubtful = [nn.elu, nn.selu, nn.relu6, nn.gelu, nn.leaky_relu, nn.softplus, tf.math.erf, tf.linalg.diag]
    doubtful += [tf.sort, tf.norm, tf.cumsum, tf.math.reduce_prod, lambda x: x * tf.math.xlogy(x, x)]
    doubtful += [lambda x: tf.concat([x, x], 0), lambda x: tf.dynamic_partition(x, [0, 1, 0, 1], 2)[0]]
    with tf.Graph().as_default() as graph:
        x = tf.ones([4, 4])
        v1.gradients([of(x) for of in doubtful], x)
    assert graphs.read(graph.as_graph_def().SerializeToString()).node


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: tf.fill([28_000, 28_000], 1.0), r"2,991 MiB \(Fill, of shape \(28000, 28000\)"),
        (lambda: tf.random.uniform([10**4, 10**4]), "382 MiB .RandomUniform"),
        (lambda: tf.pad(tf.ones([10]), [[0, 10**8]]), "382 MiB .Pad"),
        (lambda: tf.ones([10_000, 1]) * tf.ones([1, 10_000]), "382 MiB .Mul"),
        (lambda: tf.add_n([tf.fill([8_000_000], float(i)) for i in range(10)]), "tensors of 33. MiB together"),
        (lambda: tf.matmul(tf.ones([4000, 4000]), tf.ones([4000, 4000])), "64,000,000,000 multiplications"),
        (lambda: tf.einsum("abc,cda->bd", tf.ones([9, 900, 900]), tf.ones([900, 900, 9])), "6,561,000,000 mult"),
        (lambda: tf.nn.conv2d(tf.ones([1, 900, 900, 9]), tf.ones([30, 30, 9, 9]), 1, "SAME"), "multiplications"),
    ],
)
def test_a_graph_whose_results_or_products_are_too_large_is_refused(build, what):
    with pytest.raises(graphs.GraphError, match=what):
        computed(build)


def test_what_a_function_computes_counts_as_often_as_it_is_called():
    @tf.function
    def large():
        return tf.reduce_sum(tf.fill([8_000_000], 1.0))

    def build(calls: int) -> Any:
        return lambda: tf.add_n([large() for _ in range(calls)])

    assert computed(build(2)) is not None
    with pytest.raises(graphs.GraphError, match="together"):
        computed(build(10))
    with pytest.raises(graphs.GraphError, match="2,991 MiB"):
        computed(tf.function(lambda: tf.reduce_sum(tf.fill([28_000, 28_000], 1.0))))


def test_a_graph_that_does_not_hold_together_is_the_students():
    graph = sent("Identity")
    graph.node[0].input.append("nobody")
    with pytest.raises(graphs.GraphError, match="does not hold together"):
        graphs.imported(graphs.read(graph.SerializeToString()))


def test_what_is_refused_is_said_to_the_student():
    with pytest.raises(Refused, match="ReadFile"):
        in_process({"answer": lambda: sent("ReadFile")}).ask(with_graphs)
    assert issubclass(asking.Refused, AssertionError)


def test_an_operation_that_a_chapter_allows_comes_in_and_nowhere_else():
    names = {"answer": lambda: sent("Bincount")}
    assert in_process(names, ["Bincount"]).ask(with_graphs).node
    with pytest.raises(Refused, match="Bincount"):
        in_process(names).ask(with_graphs)
