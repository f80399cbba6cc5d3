"""Chapter 12: what its prose and its checks claim of TensorFlow is so."""

from __future__ import annotations

import numpy as np
import pytest
from processes import forked, in_a_fresh_process

from across import fresh
from loops_truth import cut, of_each

pytestmark = forked

DATASETS = [(9, 8), (10, 10), (13, 6), (7, 5), (11, 4), (9, 9), (23, 10), (5, 7), (4, 4), (1, 1)]  # examples, batch


@in_a_fresh_process(cpus=4)
@pytest.mark.whole
def test_a_batch_is_dealt_out_as_the_checks_say():
    import tensorflow as tf

    for n in (1, 2, 3, 4):
        devices = [f"/CPU:{i}" for i in range(n)]
        strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
        for count, size in DATASETS:
            spread = strategy.experimental_distribute_dataset(tf.data.Dataset.range(count).batch(size))
            found = [[len(part) for part in strategy.experimental_local_results(batch)] for batch in spread]
            assert found == [cut(min(size, count - first), n) for first in range(0, count, size)]


@in_a_fresh_process(cpus=2)
def test_a_metric_on_central_storage_counts_the_old_value_twice():
    """The mean of 0 to 8, by a Keras metric made in the scope, in batches of 8."""
    import tensorflow as tf

    devices = ["/CPU:0", "/CPU:1"]
    for strategy, wanted in (
        (tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice()), 4.0),
        (tf.distribute.experimental.CentralStorageStrategy(devices, parameter_device="/CPU:0"), 64 / 17),
    ):
        with strategy.scope():
            mean = tf.keras.metrics.Mean()
        for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.range(9).batch(8)):
            strategy.run(lambda part, mean=mean: mean.update_state(tf.cast(part, tf.float32)), args=(batch,))
        assert float(mean.result()) == pytest.approx(wanted)


@in_a_fresh_process()
def test_cross_entropy_over_one_output_is_0_and_so_is_its_gradient():
    """For labels of 0 and 1; a "label" of 3 is no distribution, and its loss is 0 all the same."""
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    for label in (0.0, 1.0, 3.0):
        with tf.GradientTape() as tape:
            loss = tf.nn.softmax_cross_entropy_with_logits(labels=[[label]], logits=model(tf.constant([[2.0]])))
        assert float(loss[0]) == 0.0
        largest = max(float(np.abs(each).max()) for each in tape.gradient(loss, model.trainable_variables))
        assert largest <= 2 * 2.0  # of labels that do not add up to 1 the gradient is not 0


def run_in_parts(stops: list[int], folder: str) -> list[np.ndarray]:
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"], tf.distribute.ReductionToOneDevice())
    images = np.random.default_rng(1).normal(size=(60, 6)).astype("float32")
    labels = np.arange(60) % 10

    def inside(model, optimizer, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x))) / 10
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    model = None
    for stop in stops:
        tf.keras.utils.set_random_seed(stop)  # of another beginning each time: what is not restored is seen
        with strategy.scope():
            layers = [tf.keras.Input((6,)), tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(10)]
            model = tf.keras.Sequential(layers)
            optimizer = tf.keras.optimizers.Adam(0.01)
            optimizer.build(model.trainable_variables)
        if not tf.train.latest_checkpoint(folder):
            model.set_weights([np.full(each.shape, 0.125, np.float32) for each in model.get_weights()])
        done = tf.Variable(tf.constant(0))
        manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(model=model, optimizer=optimizer, done=done), folder, max_to_keep=1
        )
        manager.restore_or_initialize()
        data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(10).repeat().skip(int(done))
        given = iter(strategy.experimental_distribute_dataset(data))
        for _ in range(stop - int(done)):
            strategy.run(inside, args=(model, optimizer, *next(given)))
            done.assign_add(1)
        manager.save()
    assert model is not None
    return model.get_weights()


@pytest.mark.whole
def test_a_run_in_parts_ends_with_the_very_weights_of_a_run_in_one_piece(tmp_path):
    def both() -> list[list[np.ndarray]]:
        return [run_in_parts(stops, str(tmp_path / str(len(stops)))) for stops in ([9], [4, 9])]

    straight, broken = fresh.run(both, cpus=2, timeout=60)
    assert all(np.array_equal(a, b) for a, b in zip(straight, broken, strict=True))


@pytest.mark.parametrize("sizes", [[5], [3, 2], [4, 3, 1]])
def test_wrong_rules_are_told_from_the_right_one_where_they_differ(sizes):
    right = of_each("right", sizes)
    assert right.sum() == pytest.approx(1)
    for rule in ("own_mean", "plain_sum", "divided_twice", "mean_of_the_mean", "own_mean_over_replicas", "not_applied"):
        same = np.allclose(of_each(rule, sizes), right)
        assert same == (len(sizes) == 1 and rule in ("own_mean", "divided_twice", "own_mean_over_replicas"))


@in_a_fresh_process(cpus=4)
def test_each_replica_clips_its_own_gradient_before_the_sum():
    """How far a variable moves at rate 1 by gradients of 6 in all, clipped at 1."""
    import tensorflow as tf

    for n in (1, 2, 4):
        devices = [f"/CPU:{i}" for i in range(n)]
        strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
        with strategy.scope():
            variable, optimizer = tf.Variable(tf.constant(0.0)), tf.keras.optimizers.SGD(1.0, clipvalue=1.0)
            optimizer.build([variable])
        strategy.run(lambda n=n, to=variable, by=optimizer: by.apply([tf.constant(6.0 / n)], [to]))
        assert float(variable.numpy()) == -n


@in_a_fresh_process(cpus=2)
def test_an_empty_replica_destroys_batch_normalization_and_no_loss_says_so():
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"], tf.distribute.ReductionToOneDevice())
    with strategy.scope():
        normal, dense = tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(2)
        model = tf.keras.Sequential([tf.keras.Input((3,)), normal, dense])
        optimizer = tf.keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)

    def inside(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
            loss = tf.reduce_sum(losses) / 1.0
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    (batch,) = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensors((tf.ones([1, 3]), [1])))
    copies = {each.name: each.value for each in model.weights} | {"losses": strategy.run(inside, args=batch)}
    finite = {
        name: [bool(np.isfinite(copy).all()) for copy in strategy.experimental_local_results(each)]
        for name, each in copies.items()
    }
    assert finite["losses"] == finite["kernel"] == finite["bias"] == [True, True]
    assert finite["gamma"] == [False, False]
    assert finite["moving_mean"] == finite["moving_variance"] == [True, False]
