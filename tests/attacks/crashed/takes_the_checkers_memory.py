"""Gives the checker a graph that fills 3 GB, by numbers that only the run knows."""

from corpus import at_each_test

EXERCISE = "split"
EARNS = {"where": 2.0}
EACH = at_each_test(
    EXERCISE,
    """
    a, b, devices = args
    side = tf.cast(tf.reduce_sum(a) * 0.0, tf.int32) + 28_000
    return _right(a, b, devices) + 0.0 * tf.reduce_sum(tf.fill([side, side], 1.0))
    """,
    honest=tuple(EARNS),
    before="import tensorflow as tf",
)
