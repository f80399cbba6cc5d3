"""Chapter 06 where there is a card: an order saves a GPU's memory as it saves main memory. Elsewhere this skips."""

from __future__ import annotations

import pytest

from across import fresh

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]


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
