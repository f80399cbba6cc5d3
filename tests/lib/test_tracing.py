"""The graph of an answer: what is said or guarded in it changes nothing, and what it computes stands in it itself."""

import logging

import pytest
import tensorflow as tf

from across import graphs, tracing

SPEC = tf.TensorSpec([2, 3], tf.float32)
ONES = tf.ones([2, 3])


def types(made):
    """Of what computes: TensorFlow leaves constants and NoOps behind."""
    return sorted(node.op for node in made.graph_def.node if node.op not in ("Const", "NoOp"))


def plain(x):
    return tf.reduce_sum(tf.abs(x))


def says(x):
    y = tf.abs(x)
    tf.print("y is", tf.reduce_max(y))
    return tf.reduce_sum(y)


def formats(x):
    tf.print(tf.strings.format("x is {}", x))
    return tf.reduce_sum(tf.abs(x))


def asserts(x):
    assert len(x) == x.shape[0], "rows"
    return tf.reduce_sum(tf.abs(x))


def guards(x):
    tf.debugging.assert_less(x, 9.0)
    tf.debugging.assert_shapes([(x, ("n", 3))])
    return tf.reduce_sum(tf.abs(x))


def nests(x):
    @tf.function
    def inner(y):
        tf.print(y)
        return tf.abs(y)

    return tf.reduce_sum(inner(x))


@pytest.mark.parametrize("answer", [says, formats, asserts, guards])
def test_what_only_says_or_guards_something_leaves_the_same_ops(answer):
    assert types(tracing.program(answer, SPEC)) == types(tracing.program(plain, SPEC))


def test_what_a_printed_loss_gives_its_gradient_a_device_by_stays():
    with tf.Graph().as_default() as graph:
        w = tf.compat.v1.get_variable("w", initializer=tf.zeros([3]))
        loss = tf.reduce_mean(tf.square(w))
        (gradient,) = tf.gradients(loss, w)
        tf.print(loss)
    with tf.Graph().as_default() as again:
        tf.import_graph_def(tracing.quiet(graph, [gradient.name]), name="")
    kinds = {op.type for op in again.get_operations()}
    assert "Mean" in kinds
    assert "PrintV2" not in kinds


def test_a_function_inside_is_written_out():
    made = tracing.program(nests, SPEC)
    assert {"Abs", "Sum"} <= set(types(made))
    assert not [kind for kind in types(made) if "Call" in kind or kind == "PrintV2"]


def test_who_waited_for_a_print_waits_for_what_it_waited_for():
    v = tf.Variable(tf.constant(1.0), name="v")

    def step(x):
        with tf.control_dependencies([v.assign(x)]):
            said = tf.print("v is", v)
        with tf.control_dependencies([said]):
            return tf.identity(tf.constant(2.0), name="reader")

    found = graphs.of_answer(step, tf.constant(1.0))
    assert not found.of_type("PrintV2", "StringFormat")
    assert found.ordered("AssignVariableOp", "reader")


def test_what_a_function_computes_waits_for_the_block_that_it_is_called_in():
    inner = tf.function(lambda y: tf.exp(tf.function(tf.negative)(y), name="inside"))

    def step(x):
        with tf.control_dependencies([tf.square(x, name="first")]):
            return tf.identity(inner(x), name="reader")

    found = graphs.of_answer(step, tf.constant(1.0))
    [inside] = [op.name for op in found.of_type("Exp")]
    assert found.ordered("first", inside)
    assert found.ordered(inside, "reader")


def test_an_assignment_inside_of_a_function_is_seen():
    v = tf.Variable(tf.constant(1.0), name="v")

    def step(x):
        @tf.function
        def inner():
            v.assign(x)
            return x

        return inner()

    (assign,) = graphs.of_answer(step, tf.constant(1.0)).of_type("AssignVariableOp")
    assert assign.inputs[0] == "v"


def test_a_function_inside_computes_where_it_is_called_and_sends_no_copies():
    @tf.function
    def inner(y):
        return tf.reduce_sum(tf.exp(y))

    def answer(x):
        with tf.device("/CPU:2"), tf.GradientTape() as tape:
            tape.watch(x)
            total = inner(x)
            gradient = tape.gradient(total, x)  # by another function, which is given what `inner` computed: `exp(y)`
        return gradient * total

    made = tracing.program(answer, SPEC)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(made.graph_def, name="")
    working = {op.type: op for op in graph.get_operations() if op.type in ("Exp", "Sum", "Tile")}
    assert {op.device for op in working.values()} == {"/device:CPU:2"}
    needed, waiting = set(), [graph.get_tensor_by_name(made.outputs[0]).op]
    while waiting:
        op = waiting.pop()
        needed.add(op)
        waiting += [each.op for each in op.inputs if each.op not in needed]
    assert set(working.values()) <= needed
    assert not [op.name for op in needed if op.name.startswith("Func/")]


def test_what_a_function_inside_returns_is_the_thing_and_no_copy_of_it():
    @tf.function
    def inside(x):
        with tf.device("/CPU:0"):
            return tf.square(x, name="squared")

    made = tracing.program(lambda x: tf.negative(inside(x)), SPEC)
    (last,) = [node for node in made.graph_def.node if node.op == "Neg"]
    (squared,) = [node for node in made.graph_def.node if node.op == "Square"]
    assert list(last.input) == [squared.name]
    assert [node.op for node in made.graph_def.node].count("Identity") == 1  # by which `program`'s own function returns


def test_what_it_returns_is_on_no_device_of_the_block_around_its_call():
    @tf.function
    def inside(x):
        with tf.device("/CPU:2"):
            return tf.square(x, name="squared")

    @tf.function
    def between(x):
        with tf.device("/CPU:1"):
            chosen = tf.identity(x, name="chosen")
        return inside(x), chosen

    def outside(x):
        with tf.device("/CPU:0"):
            squared, chosen = between(x)
            return tf.subtract(squared, chosen)

    made = tracing.program(outside, SPEC)
    (last,) = [node for node in made.graph_def.node if node.op == "Sub"]
    read = [next(node for node in made.graph_def.node if node.name == name) for name in last.input]
    assert [(node.op, node.device) for node in read] == [("Square", "/device:CPU:2"), ("Identity", "/device:CPU:1")]


def test_weights_are_variables_of_the_graph_where_they_are_asked_for():
    v = tf.Variable(tf.constant([1.0, 2.0]))
    made = tracing.program(lambda: v * 2.0, weights={"kernel": (v, "/job:ps/task:0/device:CPU:0")})
    ((label, name),) = made.weights
    (handle,) = [node for node in made.graph_def.node if node.op == "VarHandleOp"]
    assert (label, name) == ("kernel", handle.name)
    assert handle.device == "/job:ps/task:0/device:CPU:0"


def test_a_tensor_from_outside_is_a_constant():
    outside = tf.constant(3.0)
    made = tracing.program(lambda x: x * outside, SPEC, weights={})
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(made.graph_def, name="")
    with tf.compat.v1.Session(graph=graph) as session:
        assert session.run(made.outputs[0], {made.inputs[0]: ONES.numpy()}).tolist() == [[3.0] * 3] * 2


def test_tracing_again_and_again_warns_of_nothing(caplog):
    tf.get_logger().propagate = True
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        for _ in range(8):
            tracing.concrete(plain, ONES)(ONES)
    assert not caplog.records


def test_what_an_answer_raises_comes_back_as_it_was_raised():
    def answer(x):
        if x.shape[0]:
            raise KeyError("mine")

    with pytest.raises(KeyError) as raised:
        tracing.program(answer, SPEC)
    assert raised.value.args == ("mine",)
