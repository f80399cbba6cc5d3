"""What tells a wrong answer from the solution: an `assert` that holds of the one and fails of the other, found by running both.

The expressions come from the tests: the calls that they write or make, names that they read, what they compare, and the same
calls with other arguments. Everything runs in a life of the notebook's code, in a box: see `job.peers`.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from autograder.probe.asking import Student, probe

__all__ = ["calls", "expressions", "fewest", "tell"]

MOST = 240  # expressions of one answer
SECONDS = 60.0  # for one answer
LONG = 110  # characters of a line


def calls(tests: Iterable[str], functions: Iterable[str]) -> list[tuple[str, ...]]:
    """The calls of the `functions` that tests write: a function's name, and the text of each argument."""
    made: dict[tuple[str, ...], None] = {}
    for node in itertools.chain.from_iterable(ast.walk(ast.parse(test)) for test in tests):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
            named = [f"{each.arg or '**'}={ast.unparse(each.value)}" for each in node.keywords]
            made[(node.func.id, *map(ast.unparse, node.args), *named)] = None
    return list(made)


def expressions(tests: Iterable[str], names: Iterable[str], called: Iterable[tuple[str, ...]]) -> list[str]:
    """What is compared: the `names`, what the tests compare, calls as they are `called`, and with one argument changed."""
    tests, called = list(tests), list(called)
    compared = [
        ast.unparse(side)
        for test in tests
        for node in ast.walk(ast.parse(test))
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if not isinstance(side, ast.Constant)
    ]
    whole = [f"{name}({', '.join(given)})" for name, *given in called]
    changed = [
        [
            f"{name}({', '.join((*given[:at], other, *given[at + 1 :]))})"
            for at in range(len(given))
            for other in _others(given[at])
        ]
        for name, *given in called
    ]
    in_turn = [each for row in itertools.zip_longest(*changed) for each in row if each]
    return list(dict.fromkeys([*names, *whole, *compared, *in_turn]))[:MOST]


def _others(text: str) -> Iterator[str]:
    """The text of other arguments, in the place of the one that is written as `text`."""
    name, equals, value = text.partition("=") if text.partition("=")[0].isidentifier() else ("", "", text)
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError):
        whole = value if value.isidentifier() else f"({value})"
        made = [f"{whole}[:2]", f"{whole}[:2, :2]", f"{whole}[::-1]", f"-{whole}", f"{whole} + 1", f"2 * {whole}"]
    else:
        made = [repr(each) for each in _values(found)]
    yield from (name + equals + each for each in dict.fromkeys(made) if each != value)


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 0, 1, 2, 3, -1, -value)
        yield from (2 * value, value + 10) if abs(value) < 1000 else ()
    elif isinstance(value, float):
        yield from (value + 0.5, -value, 0.0, 1.0, 10 * value)
    elif isinstance(value, str):
        yield from ("", value[:1], value[::-1], value + value, value.swapcase(), f" {value}")
    elif isinstance(value, list | tuple):
        kind = type(value)
        yield from (kind(), value[:1], value[::-1], kind([*value, *value[:1]]), value[1:])
        for at in {0, len(value) - 1} if value else ():
            for other in itertools.islice(_values(value[at]), 3):
                yield kind([*value[:at], other, *value[at + 1 :]])
    elif isinstance(value, dict | set):
        yield type(value)()


def tell(
    student: Student,
    answer: str,
    between: Sequence[str],
    tests: Sequence[str],
    functions: Sequence[str],
    names: Sequence[str],
    wrong: Sequence[str],
) -> list[list[str]]:
    """For each of the `wrong` answers the lines that hold of `answer` and fail of it, those on what tests ask first.

    `student` has run the cells before the answer; `between` are those after it. `functions` and `names` are what it binds. A
    line may stand at the end of the tests, and use what they bind.
    """
    made = student.ask(_recorded, SECONDS, answer=answer, between=[*between], tests=[*tests], functions=[*functions])
    texts = [tuple(each) for each in made if all(type(text) is str and len(text) <= 90 for text in each)]
    asked = expressions(tests, names, dict.fromkeys([*calls(tests, functions), *texts]))
    inputs = {"answer": answer, "between": [*between, *tests], "expressions": asked, "wrong": [*wrong], "longest": LONG}
    lines, failed = student.ask(_told, SECONDS, seconds=SECONDS * 0.7, **inputs)
    return [[lines[at] for at in each if lines[at].isprintable()] for each in failed]


def fewest(told: Sequence[Sequence[str]]) -> list[tuple[str, int]]:
    """A few of the lines that together tell apart all that can be told, each with how many it adds; short ones first."""
    left, made = [set(each) for each in told if each], []
    while left:
        counts = {line: sum(line in each for each in left) for line in set().union(*left)}
        line = min(counts, key=lambda each: (-counts[each], len(each), each))
        made.append((line, counts[line]))
        left = [each for each in left if line not in each]
    return made


def _within(seconds, work):
    """What `work` returns; whatever it raises, or that it took long."""
    import signal

    class Late(BaseException):
        pass

    def late(*_):
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        return work(), None
    except BaseException as error:
        return None, error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _names_after(names, sources):
    """The names that there are after the cells `sources`, in copies of what can change."""
    import copy

    made = {}
    for name, value in names.items():
        plain = (
            isinstance(value, (list, dict, set, np.ndarray)) and not name.startswith("_") and name not in ("In", "Out")
        )
        made[name] = copy.deepcopy(value) if plain else value
    for source in sources:
        _within(5.0, lambda source=source: exec(compile(source, "<cell>", "exec"), made))
    return made


def _asserts(expression, value, knows, depth=0):
    """Lines that hold where an expression has this value, the strictest first."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        yield f"assert {expression} is None"
    elif isinstance(value, (bool, int, str, bytes)):
        yield f"assert {expression} == {value!r}"
    elif isinstance(value, (float, complex)):
        about = complex(f"{value:.6g}") if isinstance(value, complex) else float(f"{value:.6g}")
        yield f"assert abs({expression} - {about!r}) <= {1e-5 * max(1.0, abs(about)):.0e}"
    elif isinstance(value, np.ndarray):
        if knows and value.size <= 9 and value.dtype.kind in "fiub":
            yield f"assert np.allclose({expression}, {np.round(value, 6).tolist()!r})"
        yield f"assert {expression}.shape == {value.shape}"
        if value.dtype.kind in "fiu" and depth < 2:
            yield from _asserts(f"{expression}.sum()", value.sum(), knows, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset, dict)):
        row = list(value) if isinstance(value, (list, tuple)) else []
        rounded = any(isinstance(each, (float, complex, np.ndarray)) for each in row)
        if rounded and knows and all(isinstance(each, float) for each in row):
            yield f"assert np.allclose({expression}, {[float(f'{each:.6g}') for each in row]})"
        elif rounded and depth < 2:
            for at in range(min(4, len(row))):
                yield from _asserts(f"{expression}[{at}]", row[at], knows, depth + 1)
        else:
            yield f"assert {expression} == {value!r}"
        yield f"assert len({expression}) == {len(value)}"
    elif isinstance(getattr(value, "shape", None), tuple):
        yield f"assert {expression}.shape == {tuple(value.shape)}"


@probe(uses=[_within, _names_after])
def _recorded(student, answer, between, tests, functions):
    """The calls that the tests make of the functions, each with arguments whose text says all of them."""
    import ast

    names, made = _names_after(student._namespace, [answer, *between]), []

    def recording(name, function):
        def call(*given, **named):
            texts = [repr(each) for each in given] + [f"{key}={each!r}" for key, each in named.items()]
            try:
                plain = all(len(text) <= 60 for text in texts) and all(
                    ast.literal_eval(repr(each)) == each for each in given
                )
                if plain and len(made) < 40 and [name, *texts] not in made:
                    made.append([name, *texts])
            except Exception:
                pass
            return function(*given, **named)

        return call

    for name in functions:
        if callable(names.get(name)) and not isinstance(names[name], type):
            names[name] = recording(name, names[name])
    for test in tests:
        _within(10.0, lambda test=test: exec(compile(test, "<test>", "exec"), names))
    return made


@probe(uses=[_within, _names_after, _asserts])
def _told(student, answer, between, expressions, wrong, longest, seconds):
    """Lines that hold of the answer, twice, and of each wrong one the numbers of those that fail."""
    import time

    until = time.monotonic() + seconds
    names = student._namespace

    def holds(line, names):
        return _within(0.5, lambda: exec(compile(line, "<line>", "exec"), names))[1]

    right, lines = _names_after(names, [answer, *between]), []
    for each in expressions:
        value, error = _within(0.5, lambda each=each: eval(each, right))
        if error is None and time.monotonic() < until:
            lines += [line for line in _asserts(each, value, right.get("np") is np) if len(line) <= longest][:4]
    again = _names_after(names, [answer, *between])
    lines = [line for line in dict.fromkeys(lines) if holds(line, again) is None]
    failed = []
    for source in wrong:
        found, late, others = [], 0, _names_after(names, [source, *between])
        for number, line in enumerate(lines):
            if time.monotonic() > until or late > 2:
                break
            error = holds(line, others)
            if error is not None:
                found.append(number)
                late += type(error).__name__ == "Late"
        failed.append(found)
    return [lines, failed]
