"""Hides the WriteFile op in a library function with the name of an innocent op."""

from corpus import answering

EXERCISE = "round_robin"
submission = answering(
    EXERCISE,
    """
import tensorflow as tf

DONE = []


@tf.function
def hidden():
    tf.io.write_file("/tmp/across_graph_was_run", "here")
    return 1.0


def round_robin(devices):
    def device_of(op):
        if not DONE:
            DONE.append(1)
            with op.graph.as_default(), tf.device(None):
                hidden()
        return op.device

    return device_of
""",
)
