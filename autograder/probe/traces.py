"""What came back to a test's questions, short enough to be kept, so that two answers can be compared by it.

Numbers are kept beside the rest, for they are compared with a tolerance. A list is a tuple and a small array, True is 1; of an
error its type and text count, not the line. Names in a graph are the student's: what counts is each operation, its device, its
attributes and where its inputs come from, so a graph that was built by other names is the same one.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

NUMBERS = 400  # of one test that are kept; of more, these in even steps
ROUNDS = 12  # operations before another one that tell it from others
NAMES = ("shared_name", "container")  # attributes that hold a name of the student's


def trace(answers: Sequence[Any]) -> tuple[str, tuple[float, ...]]:
    """The digest of all that the `answers` hold but numbers, empty if there is none, and the numbers in their order."""
    if not answers:
        return "", ()
    kept = _Trace()
    for answer in answers:
        kept.names = {name: says for graph in _graphs(answer) for name, says in _operations(graph).items()}
        kept.put(answer)
    step = math.ceil(len(kept.numbers) / NUMBERS) or 1
    return kept.digest.hexdigest()[:32], tuple(kept.numbers[::step])


class _Trace:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.numbers: list[float] = []
        self.names: Mapping[str, str] = {}  # of the operations of graphs in the same answer

    def put(self, item: Any) -> None:
        if isinstance(item, bool | int | float):
            self._number(item)
        elif isinstance(item, complex):
            self._word("complex")
            self._number(item.real)
            self._number(item.imag)
        elif isinstance(item, str):
            self._word("text", self.names.get(item.removeprefix("^").split(":")[0], item))
        elif isinstance(item, bytes):
            self._word("bytes", hashlib.sha256(item).hexdigest())
        elif isinstance(item, list | tuple):
            self._word("list", str(len(item)))
            for each in item:
                self.put(each)
        elif isinstance(item, dict):
            self._dict(item)
        elif isinstance(item, np.ndarray):
            self._array(item)
        elif _is_graph(item):
            self._word("graph", _shape(item))
        else:
            self._word(repr(item))

    def _dict(self, item: dict[Any, Any]) -> None:
        if item.keys() == {"error", "says", "line"}:  # see `answering`
            item = {"error": item["error"], "says": item["says"]}
        self._word("dict", str(len(item)))
        for key, each in sorted(item.items(), key=lambda pair: repr(pair[0])):
            self.put(key)
            self.put(each)

    def _array(self, item: np.ndarray) -> None:
        if item.size <= NUMBERS:
            self.put(item.tolist())
            return
        self._word("array", str(item.shape))
        self.put(item.ravel()[:: math.ceil(item.size / NUMBERS)].tolist())

    def _number(self, item: float) -> None:
        try:
            number = float(item)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            self._word("number")
            self.numbers.append(number)
        else:
            self._word("number", hex(item) if isinstance(item, int) else repr(number))

    def _word(self, *words: str) -> None:
        for word in words:
            text = word.encode(errors="backslashreplace")
            self.digest.update(f"{len(text)}:".encode() + text)


def _is_graph(item: Any) -> bool:
    return type(item).__name__ == "GraphDef"


def _graphs(item: Any) -> list[Any]:
    """The graphs that an answer holds."""
    if _is_graph(item):
        return [item]
    parts = item.values() if isinstance(item, dict) else item if isinstance(item, list | tuple) else ()
    return [graph for part in parts for graph in _graphs(part)]


def _shape(graph: Any) -> str:
    """What a graph and its functions compute, and where, whatever their names."""
    functions = sorted(_sorted(_said(function.node_def)) for function in graph.library.function)
    return _hash(_sorted(_operations(graph)), *functions)


def _operations(graph: Any) -> dict[str, str]:
    return _said(graph.node)


def _said(nodes: Sequence[Any]) -> dict[str, str]:
    """Name of an operation -> what it is, after what comes before it: as Weisfeiler and Leman tell graphs apart."""
    own = {node.name: _hash(node.op, node.device, *_attributes(node)) for node in nodes}
    inputs = {node.name: [each.partition(":")[::2] for each in node.input] for node in nodes}
    said = own
    for _ in range(min(ROUNDS, len(own))):
        said = {
            name: _hash(
                mine,
                *(
                    f"{said.get(before.removeprefix('^'), '')}{before[:1] == '^'}{port}"
                    for before, port in inputs[name]
                ),
            )
            for name, mine in own.items()
        }
    return said


def _attributes(node: Any) -> list[str]:
    kept = [name for name in sorted(node.attr) if not name.startswith("_") and name not in NAMES]
    return [
        f"{name}={'' if node.attr[name].HasField('func') else node.attr[name].SerializeToString(deterministic=True).hex()}"
        for name in kept
    ]


def _sorted(said: Mapping[str, str]) -> str:
    return _hash(*(f"{count} {each}" for each, count in sorted(Counter(said.values()).items())))


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()
