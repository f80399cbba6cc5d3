"""Puts a py_function into the graph that the checker runs."""

from corpus import answering

EXERCISE = "round_robin"
submission = answering(
    EXERCISE,
    """
import tensorflow as tf


def round_robin(*args):
    def device_of(op):
        graph = op.graph
        if not DONE:
            DONE.append(1)
            with graph.as_default(), tf.device(None):
                tf.compat.v1.py_func(lambda: __import__("os").system("touch /tmp/x") * 1.0, [], tf.float64)
        return op.device

    return device_of


DONE = []
""",
)
