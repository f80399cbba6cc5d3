"""What a graph's functions come to when every call is written out, as TensorFlow does before it runs them.

A function that calls itself ends the process, one that calls another twice, which calls another twice, is exponential.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow.core.framework.attr_value_pb2 import AttrValue, NameAttrList
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef

Calls = dict[str, list[str]]  # function -> the functions that its body names, as often as it names them


class RecursionFoundError(ValueError):
    """A function calls itself, if by others."""


class TooDeepError(ValueError):
    """Functions call functions in a longer chain than may be."""


def times(graph: GraphDef, deepest: int) -> dict[str, int]:
    """How often the body of each function stands in the graph when all calls are written out: exact, whatever its size.

    A branch or a loop's body is written out once for each node that names it. Raises RecursionFoundError, TooDeepError
    (for more than `deepest` functions that call one another).
    """
    calls = {function.signature.name: list(_named(function.node_def)) for function in graph.library.function}
    calls = {name: [each for each in called if each in calls] for name, called in calls.items()}
    first = [each for each in _named(graph.node) if each in calls]
    count = dict.fromkeys(calls, 0)
    for name in first:
        count[name] += 1
    for name in _callers_first(calls, deepest):
        for called in calls[name]:
            count[called] += count[name]
    return count


def _callers_first(calls: Calls, deepest: int) -> list[str]:
    """The functions in an order in which each comes before those that it calls."""
    done: dict[str, int] = {}  # function -> how many functions deep its calls go, itself counted
    for start in calls:
        path: list[tuple[str, Iterator[str]]] = [(start, iter(calls[start]))] if start not in done else []
        on_path = {start}
        while path:
            name, rest = path[-1]
            for called in rest:
                if called in on_path:
                    raise RecursionFoundError(called)
                if called not in done:
                    path.append((called, iter(calls[called])))
                    on_path.add(called)
                    break
            else:
                done[name] = 1 + max((done[called] for called in calls[name]), default=0)
                path.pop()
                on_path.discard(name)
    if max(done.values(), default=0) > deepest:
        raise TooDeepError
    return list(reversed(done))


def _named(nodes: Iterable[NodeDef]) -> Iterator[str]:
    """What `nodes` name that may be a function: as their operation, or in an attribute."""
    for node in nodes:
        yield node.op
        for attribute in node.attr.values():
            yield from _in_attribute(attribute)


def _in_attribute(attribute: AttrValue) -> Iterator[str]:
    kind = attribute.WhichOneof("value")
    functions: Iterable[NameAttrList] = ()
    if kind == "func":
        functions = [attribute.func]
    elif kind == "list":
        functions = attribute.list.func
    for function in functions:
        yield function.name
        for inner in function.attr.values():  # nested no deeper than graph_bytes.NESTED
            yield from _in_attribute(inner)
