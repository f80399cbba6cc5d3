"""Hides the WriteFile op in a library function of the graph that the checker runs."""

from corpus import answering

EXERCISE = "round_robin"
submission = answering(
    EXERCISE,
    """
import tensorflow as tf


@tf.function
def hidden():
    tf.io.write_file("/tmp/across_graph_was_run", "here")
    return 1.0


def round_robin(devices):
    def device_of(op):
        if op.graph not in DONE:
            DONE.append(op.graph)
            with op.graph.as_default():
                body()
        return op.device

    return device_of


DONE = []
body = hidden.get_concrete_function()
""",
)
