"""Chapters 05 and 06 where there is a card: its launches in a timeline, its peak under an order. Elsewhere these tests skip."""

from __future__ import annotations

import pytest

from across import fresh, timeline

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]


def on_a_card() -> tuple[timeline.Timeline, timeline.Timeline]:
    """A product on the card as the profiler tells it, and as a session's step statistics tell it."""
    import tensorflow as tf

    v1 = tf.compat.v1

    @tf.function
    def product(x):
        with tf.device("/GPU:0"):
            return tf.matmul(x, x, name="P")

    x = tf.ones([200, 200])
    product(x).numpy()
    with tf.Graph().as_default() as graph, tf.device("/GPU:0"):
        twice = tf.matmul(tf.ones([200, 200]), tf.random.uniform([200, 200]), name="P")
    metadata, full = v1.RunMetadata(), v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    with v1.Session(graph=graph) as session:
        session.run(twice, options=full, run_metadata=metadata)
    return timeline.record(product, x), timeline.of_step(metadata.step_stats)


def test_an_op_on_a_card_is_in_step_statistics_once_and_in_no_thread():
    seen, stats = fresh.run(on_a_card, timeout=300)
    assert [op.name for op in seen] == []
    (product,) = [op for op in stats if op.name == "P"]
    assert (product.lane, product.type) == ("GPU:0", "MatMul")
    assert 0 < stats.length < 60_000  # ms: one clock


def test_the_order_of_the_callers_thread_is_the_same_beside_a_card():
    edges = [("C", "D"), ("C", "E")]
    assert fresh.run(timeline.run_order, list("ABCDE"), edges, timeout=300) == list("ABCDE")


def peak(edge: bool, count: int = 8, size: int = 1 << 20) -> float:
    """The most tensors of `size` floats that the allocator of the card held at once."""
    import tensorflow as tf

    @tf.function
    def total() -> tf.Tensor:
        found = tf.raw_ops.RandomUniform(shape=[size], dtype=tf.float32, seed=1, seed2=1)
        for i in range(count - 1):
            with tf.control_dependencies([found] if edge else []):
                part = tf.raw_ops.RandomUniform(shape=[size], dtype=tf.float32, seed=i + 2, seed2=1)
            found = found + part
        return tf.reduce_sum(found)

    total()
    tf.config.experimental.reset_memory_stats("GPU:0")
    before = tf.config.experimental.get_memory_info("GPU:0")["current"]
    total()
    return (tf.config.experimental.get_memory_info("GPU:0")["peak"] - before) / (4 * size)


def test_a_control_edge_lowers_the_peak_of_a_card():
    assert fresh.run(peak, True, timeout=300) < 4 < fresh.run(peak, False, timeout=300)
