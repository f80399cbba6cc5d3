"""Returns a str whose subclass is equal to everything."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
class Yes(str):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = str.__hash__
    startswith = endswith = __contains__ = __eq__


def where(tensor):
    return Yes("/CPU:0")
""",
)
