"""What an answer must be before it is compared: the vocabulary that visible checks and grading's checks are written with.

whole(got, "`double(3)` returned")              # the number, or: `double(3)` returned '6'; expected a whole number.
pairs = list_of(row(text, number), 3)           # made of others
pairs.named("three pairs of name and seconds")  # told in the author's own words

Any plain value (see `across.plain`) may come from a student, in place of any other: an expectation gives the value as its
exact type, in the range in which one can compute with it and write it out, or raises AssertionError with a sentence for
the student. A tuple or an array is a list, a whole float an integer where one is meant, and 0 or 1 a truth value: nobody
loses points for these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LARGEST = 1e300  # of a number; beyond, a sum or a product may be no number any more
SMALLEST = 1e-300  # that is not 0
WHOLE = 1 << 63  # a whole number is below
PASTED = 200  # characters of an argument of a call, which is there to be pasted
DEVICE = re.compile(r"(?:/JOB:LOCALHOST/REPLICA:0/TASK:0(?=/))?/?(?:DEVICE:)?([A-Z_]+:\d{1,4})", re.ASCII)
TASK = re.compile(
    r"(/job:)?(?P<job>\w+)(?(1)(/replica:0)?/task):(?P<task>\d{1,4})[ /]+(device:)?cpu:(?P<cpu>\d{1,4})",
    re.ASCII | re.IGNORECASE,
)


class _UnfitError(Exception):
    """`part` of a value, at `path` in it, is not what it should be."""

    def __init__(self, part: Any, words: str, path: str = "") -> None:
        self.part, self.words, self.path = part, words, path


@dataclass(frozen=True)
class Expected:
    """What a value must be: in words that may follow "expected", and as a reader of values."""

    words: str
    read: Callable[[Any], Any]  # returns the plain value; raises _UnfitError

    def __call__(self, value: Any, before: str) -> Any:
        """`value` as its plain type. `before` begins the sentence: "`f(1)` returned", "The limit is".

        Raises AssertionError.
        """
        try:
            return self.read(value)
        except _UnfitError as error:
            inside = f"; in it {error.path} is {shown(error.part)}" if error.path else ""
            raise AssertionError(f"{before} {shown(value)}{inside}; expected {error.words}.") from None

    def named(self, words: str) -> Expected:
        """The same expectation, told in these words, whichever part of the value is not as expected."""

        def read(value: Any) -> Any:
            try:
                return self.read(value)
            except _UnfitError:
                raise _UnfitError(value, words) from None

        return Expected(words, read)

    def fits(self, value: Any) -> bool:
        """Whether a value is as expected."""
        try:
            self.read(value)
        except _UnfitError:
            return False
        return True


def shown(value: Any, limit: int = 60) -> str:
    """A value in a sentence for the student: on one line, printable characters only, at most `limit` of them."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def called(function: str, arguments: Sequence[Any]) -> str:
    """A call in a sentence for the student, as one could type it: "`double(3)`"."""
    return f"`{function}({', '.join(shown(each, PASTED) for each in arguments)})`"


def _one(words: str, convert: Callable[[Any], Any]) -> Expected:
    """A value that `convert` gives as it should be; None from it: it is not as expected."""

    def read(value: Any) -> Any:
        converted = convert(value)
        if converted is None:
            raise _UnfitError(value, words)
        return converted

    return Expected(words, read)


def _number(value: Any) -> int | float | None:
    fits = type(value) in (int, float) and (value == 0 or SMALLEST < abs(value) < LARGEST)  # of NaN this is false
    return value if fits else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and abs(number) < WHOLE and number == int(number) else None


def _truth(value: Any) -> bool | None:
    return bool(value) if type(value) in (bool, int) and value in (0, 1) else None


def _device(value: Any) -> str | None:
    found = DEVICE.fullmatch(value.upper()) if type(value) is str and len(value) < 50 else None
    return found[1] if found else None


anything = Expected("anything", lambda value: value)
number = _one("a number", _number)
whole = _one("a whole number", _whole)
truth = _one("True or False", _truth)
text = _one("text", lambda value: value if type(value) is str else None)
# "/CPU:2", "/device:cpu:2", "CPU:2" and a tensor's "/job:localhost/replica:0/task:0/device:CPU:2" are all "CPU:2"
device = _one("a device's name", _device)


def device_in(devices: Iterable[str]) -> Expected:
    """One of these devices, however it is spelled; as "CPU:2"."""
    listed = sorted(devices)
    return _one(f"one of {', '.join(listed)}", lambda value: found if (found := _device(value)) in listed else None)


def task_in(devices: Iterable[str]) -> Expected:
    """One of these devices of a cluster, "ps:0 CPU:1", which TensorFlow's own name of it spells, too."""
    listed = list(devices)

    def convert(value: Any) -> str | None:
        found = TASK.fullmatch(value) if type(value) is str and len(value) < 80 else None
        name = f"{found['job']}:{int(found['task'])} CPU:{int(found['cpu'])}" if found else None
        return name if name in listed else None

    return _one("one of " + ", ".join(map(shown, listed)), convert)


def between(low: float, high: float, kind: Expected = number) -> Expected:
    """A number from `low` to `high`; of `kind` whole, a whole one."""
    words = f"{kind.words} of {low:g} or more" if high == math.inf else f"{kind.words} from {low:g} to {high:g}"

    def read(value: Any) -> Any:
        plain = kind.read(value)
        if not low <= plain <= high:
            raise _UnfitError(value, words)
        return plain

    return Expected(words, read)


def one_of(options: Iterable[Any]) -> Expected:
    """One of the texts or numbers of a list, exactly."""
    listed = list(options)

    def convert(value: Any) -> Any:
        return next((each for each in listed if type(each) is type(value) and each == value), None)

    return _one("one of " + ", ".join(map(shown, listed)), convert)


def maybe(kind: Expected) -> Expected:
    """None, or what is of `kind`."""
    words = f"{kind.words}, or None"
    return Expected(words, lambda value: None if value is None else kind.read(value)).named(words)


def list_of(kind: Expected = anything, count: int | None = None) -> Expected:
    """A list or tuple, each entry of `kind`; of `count` entries, if that is said."""
    many = "a list" if count is None else f"a list of {count}"
    words = many if kind is anything else f"{many}, each {kind.words}"

    def read(value: Any) -> list[Any]:
        value = value.tolist() if type(value) is np.ndarray else value
        if type(value) not in (list, tuple) or (count is not None and len(value) != count):
            raise _UnfitError(value, words)
        return [_inside(kind, each, f"[{i}]") for i, each in enumerate(value)]

    return Expected(words, read)


def row(*kinds: Expected) -> Expected:
    """A tuple or list with one entry for each of `kinds`; as a tuple."""
    words = f"{len(kinds)} values: {', '.join(kind.words for kind in kinds)}"

    def read(value: Any) -> tuple[Any, ...]:
        value = value.tolist() if type(value) is np.ndarray else value
        if type(value) not in (list, tuple) or len(value) != len(kinds):
            raise _UnfitError(value, words)
        return tuple(_inside(kind, each, f"[{i}]") for i, (kind, each) in enumerate(zip(kinds, value, strict=True)))

    return Expected(words, read)


def dict_of(kind: Expected = anything) -> Expected:
    """A dictionary, each of its values of `kind`."""
    words = "a dictionary" if kind is anything else f"a dictionary, each value {kind.words}"

    def read(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise _UnfitError(value, words)
        return {key: _inside(kind, each, f"[{shown(key)}]") for key, each in value.items()}

    return Expected(words, read)


def entries(kinds: Mapping[Any, Expected], others: str = "") -> Expected:
    """A dictionary with an entry for each of `kinds`; others are left out, or refused: then `others` says why."""

    def read(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise _UnfitError(value, f"a dictionary with {len(kinds)} entries")
        for key in value if others else ():
            if key not in kinds:
                raise _UnfitError(value, f"no entry {shown(key)}: {others}")
        for key in kinds:
            if key not in value:
                raise _UnfitError(value, f"an entry for {shown(key)}")
        return {key: _inside(kind, value[key], f"[{shown(key)}]") for key, kind in kinds.items()}

    return Expected(f"a dictionary with {len(kinds)} entries", read)


def array(shape: Sequence[int] | None = None) -> Expected:
    """An array, or lists, of finite numbers; of that shape, if it is said. As an array of float64."""
    words = "numbers" if shape is None else f"numbers of shape {tuple(shape)}"

    def convert(value: Any) -> np.ndarray | None:
        if type(value) not in (int, float, bool, list, tuple, np.ndarray):
            return None
        try:
            found = np.asarray(value)
            fits = found.dtype.kind in "iufb" and (shape is None or found.shape == tuple(shape))
            found = found.astype(np.float64) if fits else found
        except (ValueError, TypeError, OverflowError):
            return None
        return found if fits and bool(np.all(np.abs(found) < LARGEST)) else None

    return _one(words, convert)


def _inside(kind: Expected, value: Any, path: str) -> Any:
    try:
        return kind.read(value)
    except _UnfitError as error:
        raise _UnfitError(error.part, error.words, path + error.path) from None
