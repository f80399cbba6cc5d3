"""Questions to a student, asked in this process: what a check sees, and what a student is told."""

import numpy as np
import pytest

from autograder.probe import asking, graphs, wire
from autograder.probe.asking import Refused, in_process, probe


@probe
def doubled(student, x):
    return student.double(x)


def ask(double):
    return in_process({"double": double}).ask(doubled, x=np.arange(3))


def test_a_probe_returns_plain_values():
    np.testing.assert_array_equal(ask(lambda x: 2 * x), [0, 2, 4])


def test_a_name_that_is_missing_is_said():
    with pytest.raises(Refused, match="`double` is not defined"):
        in_process({}).ask(doubled, x=1)


def test_an_error_of_the_student_is_said():
    with pytest.raises(Refused, match="raised ZeroDivisionError"):
        ask(lambda x: 1 / 0)


def test_a_stub_is_told_apart_from_a_mistake():
    def stub(x):
        raise NotImplementedError("your turn")

    with pytest.raises(Refused, match="Not attempted yet"):
        ask(stub)


def test_an_object_that_equals_everything_cannot_cross():
    class Equal:
        def __eq__(self, other):
            return True

        __hash__ = None

    with pytest.raises(Refused, match="type Equal cannot cross"):
        ask(lambda x: Equal())


def test_an_error_whose_text_raises_is_borne():
    class Nasty(Exception):  # noqa: N818
        def __str__(self):
            raise RuntimeError

    def double(x):
        raise Nasty

    with pytest.raises(Refused, match="raised Nasty"):
        ask(double)


@pytest.mark.parametrize("value", [float("nan"), "\ud800", None, True, {"a": (1, b"x")}, [[]]])
def test_odd_values_are_answers(value):
    got = ask(lambda x: value)
    assert type(got) is type(value)
    assert repr(got) == repr(value)


@pytest.fixture(scope="module")
def tf():
    return pytest.importorskip("tensorflow")


def serialized(tf, op, **attributes):
    graph = tf.compat.v1.GraphDef()
    node = graph.node.add(name="n", op=op)
    for name, value in attributes.items():
        node.attr[name].s = value
    return graph


def test_a_graph_that_computes_comes_in(tf):
    with tf.Graph().as_default() as graph:
        tf.matmul(tf.ones([2, 2]), tf.ones([2, 2]))
    read = graphs.read(graph.as_graph_def().SerializeToString())
    assert "MatMul" in {node.op for node in read.node}


def test_a_graph_that_writes_a_file_does_not(tf):
    with pytest.raises(graphs.GraphError, match="WriteFile"):
        graphs.read(serialized(tf, "WriteFile").SerializeToString())


def test_a_graph_that_hides_the_write_in_a_function_does_not(tf):
    graph = serialized(tf, "NoOp")
    function = graph.library.function.add()
    function.signature.name = "innocent"
    function.node_def.add(name="w", op="WriteFile")
    with pytest.raises(graphs.GraphError, match="WriteFile"):
        graphs.read(graph.SerializeToString())


def test_a_function_with_the_name_of_an_op_does_not_come_in(tf):
    graph = serialized(tf, "WriteFile")
    graph.library.function.add().signature.name = "WriteFile"
    with pytest.raises(graphs.GraphError, match="WriteFile"):
        graphs.read(graph.SerializeToString())


def test_a_refused_graph_is_the_students_fault_and_not_the_protocols(tf):
    @probe
    def built(student):
        return student.graph()

    with pytest.raises(Refused, match="ReadFile"):
        in_process({"graph": lambda: serialized(tf, "ReadFile")}).ask(built)


def test_a_reply_over_the_cap_breaks_the_protocol():
    with pytest.raises(wire.TooBigError, match="the cap"):
        ask(lambda x: np.zeros(20 << 20, np.uint8))


def test_a_variant_whose_old_text_is_gone_is_an_authors_fault():
    variant = asking.Variant("ch", "f", "v", False, change=("sum", "mean"))
    assert variant.written_over("x = sum(y)") == "x = mean(y)"
    with pytest.raises(ValueError, match="does not hold 'sum'"):
        variant.written_over("x = max(y)")
