"""Makes the checker compute a tensor of seventy terabytes before every op that it runs."""

from corpus import answering

EXERCISE = "round_robin"
submission = answering(
    EXERCISE,
    """
import tensorflow as tf


def round_robin(devices):
    def device_of(op):
        huge = HUGE.get(op.graph)
        if huge is None:
            HUGE[op.graph] = op
            with op.graph.as_default():
                HUGE[op.graph] = tf.fill([1 << 44], 1.0).op
        elif op.type == "Mul":
            op._add_control_input(huge)
        return op.device

    return device_of


HUGE = {}
""",
)
