"""Returns an object that is equal to everything, true, iterable and callable."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
class Yes:
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    __hash__ = lambda self: 0
    __bool__ = lambda self: True
    __len__ = lambda self: 1
    __iter__ = lambda self: iter([self])
    __getattr__ = lambda self, name: self
    __call__ = lambda self, *args, **kwargs: self


def where(tensor):
    return Yes()
""",
)
