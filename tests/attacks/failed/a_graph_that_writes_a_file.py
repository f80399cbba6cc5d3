"""Puts a WriteFile op into the graph that the checker runs."""

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
                tf.io.write_file("/tmp/across_graph_was_run", "here")
        return op.device

    return device_of


DONE = []
""",
)
