"""What a program is made of, and a digest of it: comments and the way in which a line is broken are no part of a program.

digest(*sources(program))        # another one when the program, or a function of its module that it calls, computes otherwise
"""

from __future__ import annotations

import ast
import contextlib
import dis
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

import numpy as np

PLAIN = (bool, int, float, complex, str, bytes, type(None))


def digest(*parts: str) -> str:
    """Twelve characters for a text in parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def sources(function: Callable[..., Any]) -> list[str]:
    """The code of a function, of the functions and classes of its module that it names, and the plain values that it names.

    Decorated functions are followed to what they wrap. What other modules do is not looked at, nor is a function that
    is reached through an attribute or a container.
    """
    return _sources(function, set())


def _sources(value: Any, seen: set[int]) -> list[str]:
    value = inspect.unwrap(getattr(value, "python_function", value))  # a tf.function's own
    if id(value) in seen:
        return []
    seen.add(id(value))
    if not isinstance(value, FunctionType):
        return [_code(value)]
    found = [_code(value), repr([_plain(each) for each in (value.__defaults__, value.__kwdefaults__)])]
    named = _named(value)
    for name in sorted(named):
        other = named[name]
        own = inspect.unwrap(getattr(other, "python_function", other)) if callable(other) else None
        if isinstance(own, FunctionType | type) and own.__module__ == value.__module__:
            found += _sources(own, seen)
        elif (text := _plain(other)) is not None:
            found.append(f"{name} = {text}")
    return found


def _code(value: Any) -> str:
    """Its source without comments; of what has none, or shares its line with others, the compiled code."""
    with contextlib.suppress(OSError, TypeError, SyntaxError, ValueError):
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            return ast.unparse(node)
    return _compiled(value.__code__) if isinstance(value, FunctionType) else repr(type(value))


def _compiled(code: CodeType) -> str:
    held = [_compiled(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return repr((code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, held))


def _constant(value: Any) -> str:
    return repr(
        sorted(map(repr, value)) if isinstance(value, frozenset) else value
    )  # a set has another order each time


def _named(function: FunctionType) -> dict[str, Any]:
    """The globals and the enclosing function's variables that a function names."""
    scope = function.__globals__
    found = {name: scope[name] for name in _names(function.__code__) if name in scope}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not bound yet
            found[name] = cell.cell_contents
    return found


def _names(code: CodeType) -> Sequence[str]:
    """The global names of a function, those of functions in it, too; the names of attributes are none."""
    inner = (name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each))
    own = (each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    return sorted({*own, *inner})


def _plain(value: Any) -> str | None:
    """Text for a plain value, or lists of such; None for what is none."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return f"{value.dtype} {value.shape} {digest(value.tobytes().hex())}"
    if isinstance(value, list | tuple):
        inside = [_plain(each) for each in value]
        return None if None in inside else repr(inside)
    if isinstance(value, dict):
        inside = [_plain([key, each]) for key, each in value.items()]
        return None if None in inside else repr(inside)
    return None
