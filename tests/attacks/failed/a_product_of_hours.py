"""Makes the checker multiply matrices of 64 MiB a hundred times."""

from corpus import from_test

EXERCISE = "split"
submission = from_test(
    EXERCISE,
    0,
    """
    a, b, devices = args
    large = tf.fill([4_000, 4_000], 1.0)
    for _ in range(100):
        large = tf.matmul(large, large)
    return _right(a, b, devices) + 0.0 * tf.reduce_sum(large)
    """,
    before="import tensorflow as tf",
)
