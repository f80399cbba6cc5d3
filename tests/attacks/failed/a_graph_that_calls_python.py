"""Puts a py_function into the graph that the checker runs."""

from corpus import answering

EXERCISE = "round_robin"
submission = answering(
    EXERCISE,
    """
import tensorflow as tf


def round_robin(devices):
    def device_of(op):
        if op.graph not in DONE:
            DONE.append(op.graph)
            with op.graph.as_default():
                tf.compat.v1.py_func(print, [1.0], tf.float64)
        return op.device

    return device_of


DONE = []
""",
)
