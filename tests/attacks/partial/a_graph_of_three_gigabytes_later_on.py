"""Fills 3 GB in the checker by an operation of constant size, from the second test of an exercise on."""

from corpus import from_test

EXERCISE = "split"
EARNS = {"split": 0.5}  # for its first test, of weight 1 of 6, of 3 points: none of its tests needs another
submission = from_test(
    EXERCISE,
    1,
    """
    a, b, devices = args
    return _right(a, b, devices) + 0.0 * tf.reduce_sum(tf.fill([28_000, 28_000], 1.0))
    """,
    before="import tensorflow as tf",
)
