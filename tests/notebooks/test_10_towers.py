"""Chapter 10: what its prose claims of TensorFlow is so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from processes import forked, in_a_fresh_process

from across import digits, fresh, placement
from autograder.authoring import build
from autograder.model.course import find

pytestmark = forked


@in_a_fresh_process()
def test_the_queues_leave_out_the_last_examples(tmp_path):
    """Those of 2016, of 100 records in two epochs of batches of 32."""
    import tensorflow as tf

    v1 = tf.compat.v1
    path = digits.write_records(digits.load()[0].some(0, 100), str(tmp_path))
    with tf.Graph().as_default():
        names = v1.train.string_input_producer([path], num_epochs=2)
        _, record = v1.TFRecordReader().read(names)
        given = v1.train.shuffle_batch([record], 32, capacity=200, min_after_dequeue=50)
        with v1.Session(config=v1.ConfigProto(operation_timeout_in_ms=20_000)) as session:
            session.run(v1.local_variables_initializer())
            coordinator, count = v1.train.Coordinator(), 0
            threads = v1.train.start_queue_runners(session, coordinator)
            try:
                while True:
                    session.run(given)
                    count += 1
            except tf.errors.OutOfRangeError:
                coordinator.request_stop()
            coordinator.join(threads)
    assert count == 200 // 32


@in_a_fresh_process(cpus=2)
def test_a_gradient_is_computed_where_it_is_asked_for():
    import tensorflow as tf

    def inside(w):
        with tf.device("/CPU:1"):
            with tf.GradientTape() as tape:
                tape.watch(w)
                loss = tf.reduce_sum(tf.matmul(w, w))
            return tape.gradient(loss, w)

    def after(w):
        with tf.device("/CPU:1"), tf.GradientTape() as tape:
            tape.watch(w)
            loss = tf.reduce_sum(tf.matmul(w, w))
        return tape.gradient(loss, w)

    seen = [placement.trace(tf.function(program), tf.ones([3, 3])).everything for program in (inside, after)]
    in_the_block, behind_it = ({op.device for op in ops if "MatMul" in op.type} for ops in seen)
    assert in_the_block == {"CPU:1"}
    assert "CPU:0" in behind_it


@in_a_fresh_process()
def test_adam_hides_a_sum_in_place_of_a_mean_but_not_one_of_tiny_gradients():
    import tensorflow as tf

    def moved(make, gradient: float) -> float:
        weight = tf.Variable(tf.zeros([]))
        make(0.1).apply_gradients([(tf.constant(gradient), weight)])
        return float(weight)

    sgd, adam = tf.keras.optimizers.SGD, tf.keras.optimizers.Adam
    assert moved(sgd, 4.0) / moved(sgd, 1.0) == pytest.approx(4.0, rel=1e-4)
    assert moved(adam, 4.0) / moved(adam, 1.0) == pytest.approx(1.0, rel=1e-4)
    assert moved(adam, 4e-8) / moved(adam, 1e-8) > 2


@in_a_fresh_process(cpus=4)
def test_the_library_sums_whole_numbers_exactly():
    import tensorflow as tf

    rows = np.random.default_rng(4).integers(-9, 10, size=(4, 12)).astype("float32")
    strategy = tf.distribute.MirroredStrategy([f"/CPU:{i}" for i in range(4)])
    given = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(rows[context.replica_id_in_sync_group])
    )

    @tf.function
    def total(value):
        return tf.distribute.get_replica_context().all_reduce("sum", value)

    for each in strategy.experimental_local_results(strategy.run(total, args=(given,))):
        assert np.array_equal(each, rows.sum(axis=0))


def ring_of_the_chapter() -> str:
    """The chapter's cells that define a schedule and what runs it, as its author solves them."""
    cells = [cell.source for cell in build.solved(find(), "10_towers").cells if cell.cell_type == "code"]
    return "\n\n".join(cell for cell in cells if re.search(r"^def (schedule|all_reduce|on_each)\(", cell, re.MULTILINE))


def sent_by_the_ring(source: str, sizes: list[int]) -> list[dict[tuple[str, str], int]]:
    import tensorflow as tf

    names: dict[str, Any] = {"tf": tf}
    exec(source, names)
    found = []
    for n in sizes:
        devices = [f"/CPU:{i}" for i in range(n)]
        seen = placement.trace(names["all_reduce"], names["on_each"](devices), devices, names["schedule"](n))
        found.append(seen.sent())
    return found


def test_what_tensorflow_copies_for_a_ring_is_what_its_rule_says():
    sizes = [2, 3, 4, 6]
    for n, found in zip(
        sizes, fresh.run(sent_by_the_ring, ring_of_the_chapter(), sizes, cpus=6, timeout=60), strict=True
    ):
        assert found == {(f"CPU:{i}", f"CPU:{(i + 1) % n}"): 2 * (n - 1) * 4800 // n for i in range(n)}


@in_a_fresh_process()
def test_scopes_share_weights_and_pick_a_towers_losses():
    import tensorflow as tf

    v1 = tf.compat.v1
    weights, scopes = [], []
    with tf.Graph().as_default():
        for k in range(2):
            with v1.name_scope(f"tower_{k}") as scope, v1.variable_scope("net", reuse=k > 0):
                weight = v1.get_variable("weight", initializer=1.0)
                v1.add_to_collection("losses", tf.square(weight, name="loss"))
            weights.append(weight.name)
            scopes.append(scope)
        losses = [[loss.name for loss in v1.get_collection("losses", scope)] for scope in (*scopes, None)]
        assert (weights, len(v1.global_variables())) == (["net/weight:0"] * 2, 1)
    one, two = "tower_0/net/loss:0", "tower_1/net/loss:0"
    assert losses == [[one], [two], [one, two]]
