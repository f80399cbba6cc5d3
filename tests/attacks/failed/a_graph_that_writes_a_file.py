"""Puts a WriteFile op into the graph that the checker runs."""

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
                tf.io.write_file("/tmp/across_graph_was_run", "here")
        return op.device

    return device_of


DONE = []
""",
)
