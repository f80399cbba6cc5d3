"""Gives the checker a graph with one operation that takes an hour."""

from corpus import at_each_test

EXERCISE = "split"
EARNS = {"where": 2.0}
EACH = at_each_test(
    EXERCISE,
    """
    a, b, devices = args
    side = tf.cast(tf.reduce_sum(a) * 0.0, tf.int32) + 9_000
    whole = tf.fill([side, side], 1)
    return _right(a, b, devices) + 0.0 * tf.cast(tf.reduce_sum(tf.matmul(whole, whole)), tf.float32)
    """,
    honest=tuple(EARNS),
    before="import tensorflow as tf",
)
