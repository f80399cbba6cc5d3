"""Makes the checker add a hundred tensors, none of them too large."""

from corpus import from_test

EXERCISE = "split"
submission = from_test(
    EXERCISE,
    0,
    """
    a, b, devices = args
    large = tf.add_n([tf.fill([4_000, 4_000], float(i)) for i in range(128)])
    return _right(a, b, devices) + 0.0 * tf.reduce_sum(large)
    """,
    before="import tensorflow as tf",
)
