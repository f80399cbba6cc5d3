"""Returns arrays of objects, of text, of dates and of structures that hold pointers."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import numpy as np

VALUES = (
    np.array(["/CPU:0", None], dtype=object),
    np.array([["/CPU:0"]]),
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    np.zeros(2, dtype=[("x", "O"), ("y", "f8")]),
    np.zeros(1, dtype="V1000"),
    np.float128(1.0),
)
turn = [0]


def where(tensor):
    turn[0] += 1
    return VALUES[turn[0] % len(VALUES)]
""",
)
