"""Answers NaN and infinity, which are neither more nor less than what is expected."""

from corpus import answering

EXERCISE = "split"
submission = answering(
    EXERCISE,
    """
import tensorflow as tf


def split(a, b, devices):
    return tf.constant([[float("nan"), float("inf")], [1e308 * 10, -float("inf")]])
""",
)
