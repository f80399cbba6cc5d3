"""The plain value that an answer is meant as: a right answer loses nothing for its Python type.

    plain(np.float64(2))                        # 2.0
    plain({"a": OrderedDict(b=range(2))})       # {"a": {"b": [0, 1]}}

A NumPy number or text is Python's, an array without dimensions its one number, an array of texts or objects a list; a
subclass of a plain type is that type, a set or a range a list; a tensor is an array; a fraction or a decimal number is a
float. Visible checks and grading read answers by the same function.
"""

from __future__ import annotations

import collections
import contextlib
import decimal
import fractions
from collections.abc import Callable, ItemsView, KeysView, ValuesView
from typing import Any

import numpy as np

DEPTH = 100  # of nesting
RETURN = "return numbers, text, lists, dictionaries or arrays"
BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (  # what a subclass is at bottom, whatever it has overridden
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (bytes, lambda item: bytes.join(b"", [item])),
    (list, lambda item: list(list.__iter__(item))),
    (tuple, lambda item: tuple(tuple.__iter__(item))),
    (dict, lambda item: dict(dict.items(item))),
)
LISTS = (set, frozenset, range, collections.deque, KeysView, ValuesView, ItemsView)  # where a list is meant


class NotPlainError(TypeError):
    """A value that has no plain one; the text tells the student what it is, and what to return."""


def plain(value: Any) -> Any:
    """`value` and all that is in it as None, bool, int, float, str, bytes, list, tuple, dict or array.

    Raises NotPlainError.
    """
    return _plain(value, 0)


def plainer(item: Any) -> Any:
    """`item` one step plainer, what is in it left as it is; `item` itself if it is plain, or has no plain value."""
    if isinstance(item, np.generic) or (isinstance(item, np.ndarray) and item.ndim == 0):
        value = item.item()
        return value if isinstance(value, bool | int | float | str | bytes) else item
    if isinstance(item, np.ndarray):
        return item.tolist() if item.dtype.kind in "USO" else item
    for base, convert in BASES:
        if isinstance(item, base):
            return convert(item)
    if isinstance(item, fractions.Fraction | decimal.Decimal):
        return _as_float(item)
    if isinstance(item, set | frozenset):
        with contextlib.suppress(TypeError):
            return sorted(item)
    if isinstance(item, LISTS):
        return list(item)
    if callable(getattr(item, "numpy", None)) and hasattr(item, "dtype"):  # tf.Tensor, tf.Variable
        return np.asarray(item.numpy())
    return item


def _as_float(item: fractions.Fraction | decimal.Decimal) -> Any:
    try:
        return float(item)
    except (OverflowError, ValueError):  # too large, or a signalling NaN
        return item


def refused(item: Any) -> NotPlainError:
    """The error for a value that has no plain one."""
    if isinstance(item, np.ndarray | np.generic):
        return NotPlainError(f"an array of {item.dtype}; {RETURN}")
    return NotPlainError(f"a value of type {type(item).__name__}; {RETURN}")


def too_deep() -> NotPlainError:
    """The error for lists in lists in lists."""
    return NotPlainError(f"a value nested more than {DEPTH} deep")


def _plain(value: Any, depth: int) -> Any:
    if depth > DEPTH:
        raise too_deep()
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes):
        return value
    if kind in (list, tuple):
        return kind(_plain(each, depth + 1) for each in value)
    if kind is dict:
        return {_plain(key, depth + 1): _plain(each, depth + 1) for key, each in value.items()}
    if (found := plainer(value)) is not value:
        return _plain(found, depth + 1)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
        return np.asarray(value)
    raise refused(value)
