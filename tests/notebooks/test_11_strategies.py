"""Chapter 11: what its prose claims of TensorFlow and Keras is so, and its checks' one device is Keras's own."""

from __future__ import annotations

from typing import Any

import pytest
from processes import forked, in_a_fresh_process

from across import fresh

pytestmark = forked


def fitted(count: int, batch: int, replicas: int) -> tuple[list[float], float] | str:
    """The weights and the loss of one epoch of `count` examples; or the message that `fit` fails with."""
    import numpy as np
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    devices = [f"/CPU:{i}" for i in range(replicas)]
    one = tf.distribute.OneDeviceStrategy("/CPU:0")
    ways = tf.distribute.ReductionToOneDevice()
    strategy = one if replicas == 1 else tf.distribute.MirroredStrategy(devices, cross_device_ops=ways)
    x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    data = tf.data.Dataset.from_tensor_slices((x[:count], x[:count, :1] * 2 + 1)).batch(batch)
    try:
        history = model.fit(data, verbose=0, shuffle=False)
    except tf.errors.InvalidArgumentError as error:
        return error.message
    return [float(each) for weight in model.get_weights() for each in weight.ravel()], history.history["loss"][0]


@pytest.fixture(scope="module")
def trained() -> dict[tuple[int, int, int], Any]:
    """What `fitted` gives of each, all in one process."""
    asked = [
        (20, 10, 4),
        (14, 8, 1),
        (14, 8, 4),
        (12, 8, 1),
        (12, 8, 4),
        (8, 8, 1),
        (16, 16, 1),
        (17, 16, 1),
        (17, 16, 4),
    ]
    return fresh.run(lambda: {each: fitted(*each) for each in asked}, cpus=4, timeout=240)


@pytest.mark.whole
def test_an_uneven_first_batch_fails_in_addn(trained):
    assert "AddN must have the same size and shape" in trained[20, 10, 4]


@pytest.mark.whole
def test_an_uneven_last_batch_gives_other_weights_and_the_right_loss(trained):
    (alone, loss), (weights, same_loss) = trained[14, 8, 1], trained[14, 8, 4]
    assert same_loss == pytest.approx(loss, abs=1e-5)
    assert max(abs(a - b) for a, b in zip(alone, weights, strict=True)) > 1e-3


@pytest.mark.whole
def test_even_batches_train_as_one_device(trained):
    (alone, loss), (weights, same_loss) = trained[12, 8, 1], trained[12, 8, 4]
    assert weights == pytest.approx(alone, abs=1e-5)
    assert same_loss == pytest.approx(loss, abs=1e-5)


@pytest.mark.whole
def test_a_replica_without_an_example_counts_as_zero(trained):
    (before, _), (after, loss), (weights, same_loss) = trained[16, 16, 1], trained[17, 16, 1], trained[17, 16, 4]
    assert weights == pytest.approx([a + (b - a) / 4 for a, b in zip(before, after, strict=True)], abs=1e-5)
    assert same_loss == pytest.approx(loss, abs=0.05)  # not a NaN


@pytest.mark.whole
@in_a_fresh_process(cpus=2)
def test_the_recipes_test_passes_a_right_program_and_names_what_differs():
    import numpy as np
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    layers = tf.keras.layers
    x = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")
    y = 2 * x[:, :1] + 1

    def trained(strategy, *between):
        tf.keras.utils.set_random_seed(0)
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.Input((3,)), *[make() for make in between], layers.Dense(1)])
            model.compile(tf.keras.optimizers.SGD(0.1), "mse")
        history = model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(16), verbose=0)
        return [*model.get_weights(), np.array(history.history["loss"][0])]

    def the_same(*between) -> bool:
        ways = tf.distribute.ReductionToOneDevice()
        both = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"], cross_device_ops=ways)
        pairs = zip(trained(both, *between), trained(tf.distribute.OneDeviceStrategy("/CPU:0"), *between), strict=True)
        return all(np.allclose(a, b, rtol=0, atol=1e-4) for a, b in pairs)

    assert the_same()  # it starts at random
    assert the_same(lambda: layers.BatchNormalization(synchronized=True))
    assert not the_same(layers.BatchNormalization)
    assert not the_same(lambda: layers.Dropout(0.5, seed=1))
    assert not the_same(lambda: layers.GaussianNoise(0.5, seed=1))


@pytest.mark.whole
def test_the_checks_one_device_is_keras(trained):
    import numpy as np

    from strategies_truth import one_device

    x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")[:8]
    kernel, bias = one_device([(x, x[:, :1] * 2 + 1)], 0.1)
    weights, _ = trained[8, 8, 1]
    assert weights == pytest.approx([*kernel.ravel(), *bias], abs=1e-5)


@in_a_fresh_process(cpus=4)
def test_what_the_chapter_says_of_strategies():
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    devices = [f"/CPU:{i}" for i in range(4)]

    def adding():
        return tf.distribute.get_replica_context().all_reduce("sum", [tf.ones([2, 3]), tf.ones([3]), tf.ones([])])

    asked = set()

    def adds_by(way) -> list[int]:
        strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=way)
        graph = tf.function(strategy.run).get_concrete_function(adding).graph
        kinds = [op.type for op in graph.get_operations()]
        asked.update(
            op.get_attr("communication_hint") for op in graph.get_operations() if op.type == "CollectiveReduceV2"
        )
        return [kinds.count(kind) for kind in ("CollectiveReduceV2", "AddN", "NcclAllReduce")]

    assert adds_by(None) == [4, 0, 0]
    assert adds_by(tf.distribute.ReductionToOneDevice()) == [0, 3, 0]
    assert asked == {b"ring"}
    strategy = tf.distribute.MirroredStrategy(devices)
    first = next(iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(20).batch(10))))
    assert [len(part) for part in strategy.experimental_local_results(first)] == [3, 3, 3, 1]
    *_, last = strategy.experimental_distribute_dataset(tf.data.Dataset.range(17).batch(16))
    assert [len(part) for part in strategy.experimental_local_results(last)] == [1, 0, 0, 0]
    gone = "experimental_make_numpy_dataset"
    assert (hasattr(tf.compat.v1.distribute.Strategy, gone), hasattr(tf.distribute.Strategy, gone)) == (True, False)
    with tf.Graph().as_default() as graph, tf.distribute.MirroredStrategy(devices[:2]).scope():
        tf.compat.v1.get_variable("w", initializer=1.0)
        assert [op.name for op in graph.get_operations() if op.type == "VarHandleOp"] == ["w", "w/replica_1"]
    slip = tf.tpu.experimental.Topology(mesh_shape=[2, 2, 1, 2], device_coordinates=[[[0, 0, 0, 0]] * 8])
    plan = tf.tpu.experimental.DeviceAssignment.build(slip, computation_shape=[1, 1, 1, 2], num_replicas=4)
    assert len({plan.tpu_device(replica) for replica in range(4)}) == 1


@in_a_fresh_process()
def test_replicas_on_a_tpu_go_round_a_ring_of_neighbours():
    """The chips of four replicas of two cores each, by TensorFlow's plan."""
    import tensorflow as tf

    places = [[[x, y, 0, core] for y in range(2) for x in range(2) for core in range(2)]]
    topology = tf.tpu.experimental.Topology(mesh_shape=[2, 2, 1, 2], device_coordinates=places)
    plan = tf.tpu.experimental.DeviceAssignment.build(topology, computation_shape=[1, 1, 1, 2], num_replicas=4)
    found = [tuple(int(each) for each in plan.coordinates(replica, 0)[:2]) for replica in range(4)]
    assert found == [(0, 0), (1, 0), (1, 1), (0, 1)]  # each a step from the next, and the last from the first
