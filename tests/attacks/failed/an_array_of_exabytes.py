"""Returns eight bytes that claim to be an array of an exabyte, by strides of zero."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import numpy as np


def where(tensor):
    return np.broadcast_to(np.float64(1.0), (1 << 20, 1 << 20, 1 << 17))
""",
)
