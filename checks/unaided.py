"""A guard for answers that are to do by themselves what the library does. No evidence: a copy of the library passes it."""


def unaided(functions, says, call):
    """`call()`, during which each of these Python functions raises RuntimeError(says), by whatever name it is called.

    For a probe that `uses` it, so that nothing of it is found in the student's process before.
    """
    scope: dict = {}
    exec(f"def refused(*args, **kwargs): raise RuntimeError({says!r})", scope)
    codes = [function.__code__ for function in functions]
    try:
        for function in functions:
            function.__code__ = scope["refused"].__code__
        return call()
    finally:
        for function, code in zip(functions, codes, strict=True):
            function.__code__ = code
