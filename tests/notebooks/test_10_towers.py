"""Chapter 10: what its prose claims of TensorFlow is so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from across import digits, fresh, placement
from across._process import warm
from autograder.authoring import build
from autograder.model.course import find

pytestmark = pytest.mark.skipif(
    not warm.available(), reason="without warm forking a task costs an import of TensorFlow"
)


def queued(folder: str) -> int:
    """How many batches the queues of 2016 give of 100 records in two epochs of batches of 32."""
    import tensorflow as tf

    v1 = tf.compat.v1
    path = digits.write_records(digits.load()[0].some(0, 100), folder)
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
    return count


def test_the_queues_leave_out_the_last_examples(tmp_path):
    assert fresh.run(queued, str(tmp_path), timeout=60) == 200 // 32


def backward_devices() -> list[list[str]]:
    """Where the backward pass ran: gradient asked for in the block, and after it."""
    import tensorflow as tf

    from across import placement

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

    found = []
    for program in (inside, after):
        seen = placement.trace(tf.function(program), tf.ones([3, 3]))
        found.append(sorted({op.device for op in seen.everything if "MatMul" in op.type}))
    return found


def test_a_gradient_is_computed_where_it_is_asked_for():
    inside, after = fresh.run(backward_devices, cpus=2, timeout=60)
    assert inside == ["CPU:1"]
    assert "CPU:0" in after


def hidden_by_adam(size: float) -> list[float]:
    import tensorflow as tf

    found = []
    for make in (tf.keras.optimizers.SGD, tf.keras.optimizers.Adam):
        moved = []
        for gradient in (4.0 * size, size):
            weight = tf.Variable(tf.zeros([]))
            make(0.1).apply_gradients([(tf.constant(gradient), weight)])
            moved.append(float(weight))
        found.append(moved[0] / moved[1])
    return found


def test_adam_hides_a_sum_in_place_of_a_mean_but_not_one_of_tiny_gradients():
    usual, (_, tiny) = fresh.run(lambda: [hidden_by_adam(1.0), hidden_by_adam(1e-8)], timeout=60)
    assert usual == pytest.approx([4.0, 1.0], rel=1e-4)
    assert tiny > 2


def summed(rows: list[np.ndarray]) -> list[np.ndarray]:
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy([f"/CPU:{i}" for i in range(len(rows))])
    given = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(rows[context.replica_id_in_sync_group])
    )

    @tf.function
    def total(value):
        return tf.distribute.get_replica_context().all_reduce("sum", value)

    return [each.numpy() for each in strategy.experimental_local_results(strategy.run(total, args=(given,)))]


def test_the_library_sums_whole_numbers_exactly():
    rows = np.random.default_rng(4).integers(-9, 10, size=(4, 12)).astype("float32")
    assert all(np.array_equal(each, rows.sum(axis=0)) for each in fresh.run(summed, [*rows], cpus=4, timeout=60))


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


def names_of_two_towers() -> tuple[list[str], list[list[str]], int]:
    """The weights of two towers with `reuse`; the losses in a collection, by scope and in all."""
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
        found = [[loss.name for loss in v1.get_collection("losses", scope)] for scope in (*scopes, None)]
        return weights, found, len(v1.global_variables())


def test_scopes_share_weights_and_pick_a_towers_losses():
    weights, (first, second, every), count = fresh.run(names_of_two_towers, timeout=60)
    assert (weights, count) == (["net/weight:0"] * 2, 1)
    assert (first, second) == (["tower_0/net/loss:0"], ["tower_1/net/loss:0"])
    assert every == first + second
