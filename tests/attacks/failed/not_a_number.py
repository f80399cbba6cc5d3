"""Answers NaN, infinity and complex numbers, which are neither more nor less than what is expected."""

from corpus import answering

EXERCISE = "split"
submission = answering(
    EXERCISE,
    """
import tensorflow as tf


def split(a, b, devices):
    with tf.device(devices[0]):
        left = tf.matmul(a, b)
    with tf.device(devices[1]):
        right = tf.matmul(b, a)
    with tf.device(devices[2]):
        return (left + right) * float("nan")
""",
)
