import pytest
from processes import in_a_fresh_process

from across._draw import partitions
from across._draw.partitions import short_device
from across.placement import Op, Trace, trace, trace_graph


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("/job:localhost/replica:0/task:0/device:CPU:1", "CPU:1"),
        ("/job:ps/replica:0/task:2/device:GPU:0", "ps:2 GPU:0"),
        ("/device:GPU:3", "GPU:3"),
        ("/gpu:1", "GPU:1"),
        ("CPU:2", "CPU:2"),
        ("XLA_CPU:0", "XLA_CPU:0"),
        ("", ""),
    ],
)
def test_devices_have_the_name_a_reader_wants(long, short):
    assert short_device(long) == short


@in_a_fresh_process(cpus=4)
def test_eager_ops_are_listed_where_they_ran():
    import tensorflow as tf

    def product(scale):
        with tf.device("/CPU:1"):
            a = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        with tf.device("/CPU:3"):
            b = a @ a
        return b * scale

    found = trace(product, tf.constant(2.0))
    assert [(op.type, op.device, op.dtype, op.shape) for op in found] == [
        ("Const", "CPU:1", "float32", (2, 2)),
        ("MatMul", "CPU:3", "float32", (2, 2)),
        ("Mul", "CPU:0", "float32", (2, 2)),
    ]
    assert [(op.name, op.device) for op in found.given] == [("scale", "CPU:0")]
    assert found.copies() == [("Const", "CPU:3"), ("MatMul", "CPU:0")]
    assert found.available == ("CPU:0", "CPU:1", "CPU:2", "CPU:3")


@in_a_fresh_process(cpus=2)
def test_what_computes_with_an_input_is_told_from_what_does_not():
    import tensorflow as tf

    def product(batch):
        weights = tf.constant([[1.0], [2.0]]) * 3.0
        with tf.device("/CPU:1"):
            doubled = batch + batch
        tf.print(doubled, output_stream="file:///dev/null")
        return doubled @ weights

    found = trace(product, tf.constant([[1.0, 2.0]])).from_inputs()
    assert [(op.type, op.device) for op in found] == [("AddV2", "CPU:1"), ("MatMul", "CPU:0")]


@in_a_fresh_process(cpus=4)
def test_an_eager_variable_and_what_is_done_to_it_stay_on_its_device():
    import tensorflow as tf

    def counted():
        with tf.device("/CPU:2"):
            count = tf.Variable(1.0, name="count")
        count.assign_add(2.0)
        return count * 3.0

    found = trace(counted)
    assert found["count"].type == "VarHandleOp"
    assert (found["count"].dtype, found["count"].shape) == ("float32", ())
    on_its_device = [op.type for op in found.on("/CPU:2")]
    assert {"VarHandleOp", "AssignVariableOp", "AssignAddVariableOp", "ReadVariableOp"} <= set(on_its_device)
    assert [op.device for op in found.of_type("Mul")] == ["CPU:0"]


@in_a_fresh_process(cpus=4)
def test_a_function_is_seen_at_every_call_and_not_retraced():
    import tensorflow as tf

    @tf.function
    def towers(x):
        with tf.device("/CPU:1"):
            a = tf.sin(x, name="a")
        with tf.device("/CPU:2"):
            b = tf.cos(a, name="b")
        return b

    x = tf.ones(3)
    towers(x)
    placed = [{op.name: op.device for op in trace(towers, x)} for _ in range(3)]
    traced = towers.experimental_get_tracing_count()
    assert placed == [{"a": "CPU:1", "b": "CPU:2"}] * 3
    assert traced == 1


@in_a_fresh_process(cpus=4)
def test_a_function_shows_the_ops_that_were_written_not_the_optimised_ones():
    import tensorflow as tf

    @tf.function
    def constant():
        with tf.device("/CPU:3"):
            return tf.constant(2.0, name="two") * tf.constant([3.0, 4.0], name="three_four")

    found = trace(constant)
    devices, ops = found.devices(), [(op.name, op.dtype, op.shape) for op in found]
    assert devices == ["CPU:3"]
    assert ops == [("two", "float32", ()), ("three_four", "float32", (2,)), ("mul", "float32", (2,))]


@in_a_fresh_process(cpus=4)
def test_tracing_leaves_the_optimiser_as_it_was():
    import tensorflow as tf

    def option():
        return tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False)

    seen = [option()]
    with pytest.raises(ZeroDivisionError):
        trace(lambda: 1 / 0)
    seen.append(option())
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    trace(tf.ones, 2)
    assert [*seen, option()] == [False, False, True]


@in_a_fresh_process(cpus=4)
def test_a_captured_variable_is_given_by_its_name_and_copied_from_its_device():
    import tensorflow as tf

    with tf.device("/CPU:3"):
        weights = tf.Variable(tf.ones((2, 2)), name="weights")

    @tf.function
    def layer(x):
        with tf.device("/CPU:1"):
            return x @ weights

    found = trace(layer, tf.ones((2, 2)))
    assert [(op.name, op.type, op.device, op.shape) for op in found.given] == [
        ("x", "Input", "CPU:0", (2, 2)),
        ("weights", "Variable", "CPU:3", (2, 2)),
    ]
    read = found.of_type("ReadVariableOp")[0]
    assert read.device == "CPU:3"
    assert {source for source, device in found.copies() if device == "CPU:1"} == {"x", read.name}


@in_a_fresh_process(cpus=4)
def test_the_variables_of_a_keras_layer_or_of_a_model_that_is_traced_itself_go_by_their_names():
    import tensorflow as tf

    def given(function, x):
        return [(op.name, op.device) for op in trace(function, x).given]

    with tf.device("/CPU:2"):
        layer = tf.keras.layers.Dense(2, name="dense")
        layer.build((None, 3))
    named = [("x", "CPU:0"), ("dense/kernel", "CPU:2"), ("dense/bias", "CPU:2")]
    assert given(tf.function(lambda x: layer(x)), tf.ones((1, 3))) == named
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, name="dense")])
    with tf.device("/CPU:1"):
        model.build([None, 3])
    named = {"inputs": "CPU:0", "sequential/dense/kernel": "CPU:1", "sequential/dense/bias": "CPU:1"}
    assert dict(given(model, tf.ones([1, 3]))) == named


@in_a_fresh_process(cpus=4)
def test_a_constant_that_is_made_on_each_device_that_reads_it_is_shown():
    import tensorflow as tf

    @tf.function
    def two_readers(x):
        five = tf.constant(5.0)
        with tf.device("/CPU:2"):
            product = x * five
        with tf.device("/CPU:3"):
            return product, x + five

    assert sorted(op.device for op in trace(two_readers, tf.constant(1.0)).of_type("Const")) == ["CPU:2", "CPU:3"]


@in_a_fresh_process(cpus=4)
def test_variables_in_a_dictionary_and_inputs_in_a_list_go_by_their_names():
    import tensorflow as tf

    variables = {"w": tf.Variable(1.0, name="w"), "itself": []}
    variables["itself"].append(variables)

    def scaled(parts):
        return variables["w"] * parts[0] + parts[1]["b"]

    assert [(op.name, op.type) for op in trace(scaled, [tf.constant(1.0), {"b": tf.constant(2.0)}]).given] == [
        ("w", "Variable"),
        ("parts_0", "Input"),
        ("parts_1_b", "Input"),
    ]


@in_a_fresh_process(cpus=4)
def test_functions_called_from_eager_code_are_joined_to_it():
    import tensorflow as tf

    @tf.function
    def square(x):
        with tf.device("/CPU:2"):
            return tf.square(x)

    def both(x):
        return square(x) + square(x)

    found = trace(both, tf.constant(3.0))
    assert [(op.name, op.type, op.device) for op in found] == [
        ("Square", "Square", "CPU:2"),
        ("Square_1", "Square", "CPU:2"),
        ("AddV2", "AddV2", "CPU:0"),
    ]
    assert {(edge.source, edge.target, edge.copied) for edge in found.edges()} == {
        ("x", "Square", True),
        ("x", "Square_1", True),
        ("Square", "AddV2", True),
        ("Square_1", "AddV2", True),
    }


@in_a_fresh_process(cpus=4)
def test_a_loop_in_a_function_is_traced_and_drawn():
    import tensorflow as tf

    @tf.function
    def loop(x):
        with tf.device("/CPU:2"):
            while tf.reduce_sum(x) < 10.0:
                x = tf.square(x) + 1.0
        return x

    found = trace(loop, tf.ones(2))
    types, alt = {op.type for op in found.on("CPU:2")}, found.draw().alt
    assert {"Square", "AddV2", "Less"} <= types
    assert "CPU:2 ran" in alt


@in_a_fresh_process(cpus=4)
def test_a_graph_of_tensorflow_one_is_traced_in_a_session_of_its_own():
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:2"):
            a = v1.get_variable("a", shape=(2, 3))
        x = v1.placeholder(tf.float32, (), name="x")
        c = tf.multiply(a, x, name="c")
    graph.finalize()
    run_once, initialised = trace_graph(graph, c, {x: 2.0}), trace_graph(graph, a.initializer)
    assert run_once["a"].type == "VarHandleOp"
    assert {op.name: op.device for op in run_once} == {"a": "CPU:2", "c/ReadVariableOp": "CPU:2", "c": "CPU:0"}
    assert [(op.name, op.type, op.dtype, op.shape) for op in run_once.given] == [("x", "Input", "float32", ())]
    assert run_once.copies() == [("c/ReadVariableOp", "CPU:0")]
    assert (run_once["c"].dtype, run_once["c"].shape) == ("float32", (2, 3))
    assert initialised.devices() == ["CPU:2"]
    assert initialised["a/Assign"].type == "AssignVariableOp"


@in_a_fresh_process(cpus=4)
def test_a_session_that_is_passed_in_is_used():
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, tf.device("/cpu:1"):
        b = tf.constant(1.0) + v1.get_variable("b", initializer=3.0, use_resource=False)
    with v1.Session(graph=graph, config=v1.ConfigProto(device_count={"CPU": 2})) as session:
        session.run([v.initializer for v in graph.get_collection("variables")])
        found = trace_graph(graph, b, session=session)
    assert ([op.type for op in found if op.type.startswith("Var")], found.available) == (
        ["VariableV2"],
        ("CPU:0", "CPU:1"),
    )


@in_a_fresh_process(cpus=4)
def test_a_device_that_is_missing_is_another_by_soft_placement():
    import tensorflow as tf

    with tf.Graph().as_default() as graph, tf.device("/gpu:7"):
        a = tf.constant(1.0, name="a") + 1.0
    assert trace_graph(graph, a).devices()[0] in ("CPU:0", "GPU:0")


@in_a_fresh_process(cpus=4)
def test_what_was_asked_for_is_listed_and_no_axis_no_shape_and_no_kernels_own_name():
    import tensorflow as tf

    @tf.function
    def flat(x):
        return tf.reshape(tf.reduce_sum(x @ x, axis=1), [64, 1]) + tf.constant([[1.0]])

    @tf.function
    def moved(x):
        with tf.device("/CPU:1"):
            return tf.identity(x)

    @tf.function(jit_compile=True)
    def fused(x):
        return tf.sin(x) + 1.0

    assert [op.type for op in trace(flat, tf.ones((64, 64)))] == ["MatMul", "Sum", "Reshape", "Const", "AddV2"]
    assert [(op.type, op.device) for op in trace(moved, tf.ones(2))] == [("Identity", "CPU:1")]
    assert [(op.name, op.type) for op in trace(fused, tf.ones(2))] == [("fused", "function")]


@pytest.fixture
def small() -> Trace:
    return Trace(
        (
            Op("x", "Input", "CPU:0", "float32", (2, None), kind=partitions.INPUT),
            Op("a", "MatMul", "CPU:1", "float32", (2, None), ("x",)),
            Op("hidden", "Identity", "CPU:0", "float32", None, ("a",), kind=partitions.PLUMBING),
            Op("b", "Relu", "CPU:1", "float32", None, ("hidden",)),
            Op("b_1", "Assert", "CPU:1", "", None, ("b",)),
        ),
        available=("CPU:0", "CPU:1", "CPU:10", "CPU:2"),
    )


def test_a_way_through_plumbing_is_one_edge_and_counts_every_copy_on_it(small):
    assert [(edge.source, edge.target, edge.copied) for edge in small.edges()] == [
        ("x", "a", True),
        ("a", "b", True),
        ("b", "b_1", False),
    ]


def test_the_table_says_each_op_with_its_device_dtype_and_shape(small):
    lines = repr(small).splitlines()
    assert lines[0].split() == ["op", "type", "device", "dtype", "shape"]
    assert lines[2].split() == ["a", "MatMul", "CPU:1", "float32", "2", "x", "?"]
    assert len(lines) == 2 + len(small)
    assert small._repr_html_().count("<tr>") == 1 + len(small)


def test_a_name_with_markup_in_it_is_escaped_in_the_notebook():
    odd = Trace((Op("<script>", "MatMul", "CPU:0", "", None),))
    assert "<script>" not in odd._repr_html_()
    assert "<script>" not in odd.draw()._repr_mimebundle_()[0]["text/html"]


def test_an_unknown_op_names_those_there_are(small):
    with pytest.raises(KeyError, match="no op 'c'; there are: a, b, b_1"):
        small["c"]


@in_a_fresh_process(cpus=4)
def test_a_walk_tells_of_each_op_its_pin_in_the_graph_and_where_it_ran():
    import tensorflow as tf

    with tf.device("/CPU:1"):
        v = tf.Variable(2.0, name="v")

    @tf.function
    def step(x):
        with tf.device("/CPU:2"):
            y = x * v
        z = y + y
        with tf.device("/CPU:3"):
            v.assign_add(z)

    walked = trace(step, tf.constant(1.0)).walk(title="t")
    first, *words = walked.steps
    assert first.startswith("all that ran")
    assert words == [
        "1 of 4, ReadVariableOp: touches v on CPU:1, ran on CPU:1",
        "2 of 4, Mul: pinned to CPU:2, ran on CPU:2; copied there: x, mul/ReadVariableOp",
        "3 of 4, AddV2: no pin, ran on CPU:0; copied there: mul",
        "4 of 4, AssignAddVariableOp: pinned to CPU:3, touches v on CPU:1, ran on CPU:1; copied there: add",
    ]
    assert len({(picture.width, picture.height) for picture in walked.steps.values()}) == 1


@in_a_fresh_process(cpus=4)
def test_a_walk_tells_of_a_called_functions_ops_their_own_pins_and_those_of_the_call():
    import tensorflow as tf

    with tf.device("/CPU:1"):
        v = tf.Variable(2.0, name="v")

    @tf.function
    def inner(x):
        with tf.device("/CPU:2"):
            y = x * v
        return y + y

    @tf.function
    def outer(x):
        with tf.device("/CPU:3"):
            z = inner(x)
        return inner(z)

    words = list(trace(outer, tf.constant(1.0)).walk(title="t").steps)[1:]
    assert [each.partition(", ")[2].partition(";")[0] for each in words] == [
        "ReadVariableOp: pinned to CPU:3, touches v on CPU:1, ran on CPU:1",
        "Mul: pinned to CPU:2, ran on CPU:2",
        "AddV2: pinned to CPU:3, ran on CPU:3",
        "ReadVariableOp: touches v on CPU:1, ran on CPU:1",
        "Mul: pinned to CPU:2, ran on CPU:2",
        "AddV2: no pin, ran on CPU:0",
    ]


def test_a_walk_says_nothing_of_a_pin_that_nobody_recorded(small):
    assert list(small.walk(title="t").steps)[1] == "1 of 3, MatMul: ran on CPU:1; copied there: x"


@in_a_fresh_process(cpus=4)
def test_ops_that_are_moved_say_what_would_be_copied():
    import tensorflow as tf

    with tf.device("/CPU:1"):
        v = tf.Variable(2.0)

    @tf.function
    def step(x):
        with tf.device("/CPU:2"):
            return x * v

    found = trace(step, tf.constant(1.0))
    moved = found.moved({"ReadVariableOp": "/CPU:2", "mul": "CPU:3", "no such op": "CPU:0"})
    assert [op.device for op in found] == ["CPU:1", "CPU:2"]
    assert [op.device for op in moved] == ["CPU:2", "CPU:3"]
    assert found.copies() == [("x", "CPU:2"), ("mul/ReadVariableOp", "CPU:2")]
    assert moved.copies() == [("Variable", "CPU:2"), ("x", "CPU:3"), ("mul/ReadVariableOp", "CPU:3")]


@in_a_fresh_process(cpus=4)
def test_a_variable_that_is_the_second_operand_is_read_too():
    import tensorflow as tf

    with tf.device("/CPU:1"):
        v, four = tf.Variable(3.0), tf.constant(4.0)
    read, constants = trace(lambda: four * v), trace(lambda: four * 3.0)
    assert [(op.type, op.device) for op in read] == [("Const", "CPU:1"), ("ReadVariableOp", "CPU:1"), ("Mul", "CPU:0")]
    assert read["ReadVariableOp"].inputs == ("Variable",)
    assert [op.type for op in constants] == ["Const", "Const", "Mul"]


@in_a_fresh_process(cpus=4)
def test_the_bytes_that_were_copied_are_counted_by_link():
    import tensorflow as tf

    def there_and_back():
        with tf.device("/CPU:1"):
            x = tf.ones([10, 3])
        with tf.device("/CPU:2"):
            y = tf.cast(x + x, tf.float64)
            z = x * 2.0
        with tf.device("/CPU:1"):
            return y + tf.cast(x, tf.float64), z

    assert trace(there_and_back).sent() == {("CPU:1", "CPU:2"): 120, ("CPU:2", "CPU:1"): 240}


@pytest.mark.parametrize(("dtype", "shape"), [("float32", (None, 3)), ("float32", None), ("string", (2,)), ("", ())])
def test_a_tensor_without_a_known_size_is_not_counted_as_nothing(dtype, shape):
    ops = (Op("a", "A", "CPU:0", dtype, shape), Op("b", "B", "CPU:1", "float32", (), ("a",)))
    with pytest.raises(ValueError, match="how many bytes"):
        Trace(ops).sent()
