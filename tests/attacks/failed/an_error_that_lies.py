"""Raises an error whose text, type and traceback raise errors themselves."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
class Liar(type):
    def __getattribute__(cls, name):
        if name == "__name__":
            return "Passed"
        return super().__getattribute__(name)


class Error(BaseException, metaclass=Liar):
    def __str__(self):
        raise self

    __repr__ = __str__


def where(tensor):
    raise Error
""",
)
