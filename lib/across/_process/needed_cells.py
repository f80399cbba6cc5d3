"""Which cells of a notebook another one needs: those that bind the names that it reads, and what these need in their turn."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from across._process import global_names


def given_id(kind: str, source: str) -> str:
    """The id that a release gives a cell of that type, where it has no grade id: one that stays while the cell does."""
    return hashlib.sha256(f"{kind}\n{source}".encode("utf-8", "surrogatepass")).hexdigest()[:8]


def has_given_id(cell: Mapping[str, Any]) -> bool:
    """Whether a cell, its source as text, is as some release gave it: no cell of the student's, and not changed."""
    cell_id = cell.get("id")
    return isinstance(cell_id, str) and cell_id.partition("-")[0] == given_id(cell["cell_type"], cell["source"])


@dataclass(frozen=True)
class Needed:
    """What is needed, by the numbers of cells."""

    cells: frozenset[int]
    names: frozenset[str]  # all that were looked for


class Cells:
    """The code cells of a notebook, number to source; made once, asked for each of its checks."""

    def __init__(self, code: Mapping[int, str], closed: Collection[int] = (), sure: Collection[int] = ()) -> None:
        """`closed`: see `global_names.needs`; `sure`: cells that run to their end, whoever wrote the others."""
        self._code = code
        self._closed = frozenset(closed)
        self._binders: dict[str, list[int]] = {}  # name -> the cells that bind it, in order
        self._anew: dict[str, list[int]] = {}  # those of them after which it has the value that they gave it
        for number in sorted(code):
            for name in global_names.binds(code[number]):
                self._binders.setdefault(name, []).append(number)
            if number in sure or global_names.only_defines(code[number]):
                for name in global_names.binds_surely(code[number]):
                    self._anew.setdefault(name, []).append(number)

    def needed(self, end: int, taken: Collection[int], wanted: Iterable[tuple[str, int]] = ()) -> Needed:
        """The cells before number `end` that are `taken`, or that these need, or who wants a name: (name, number of a cell).

        A function may be called further down than where it stands: so all cells before the end that bind a name count, but
        for those before one that binds it anew above its reader.
        """
        found = set(taken)
        left = [*wanted, *self._wants(found)]
        reached: dict[str, int] = {}  # name -> the first of its binders that counts
        while left:
            name, reader = left.pop()
            binders, anew = self._binders.get(name, []), self._anew.get(name, [])
            before = bisect_left(anew, reader)
            first = anew[before - 1] if before else 0
            last = reached.get(name, end)
            if first < last or name not in reached:
                reached[name] = min(first, last)
                fresh = set(binders[bisect_left(binders, first) : bisect_left(binders, last)]) - found
                found |= fresh
                left += self._wants(fresh)
        return Needed(frozenset(found), frozenset(reached))

    def _wants(self, cells: Collection[int]) -> list[tuple[str, int]]:
        return [(name, each) for each in cells for name in global_names.needs(self._code[each], each in self._closed)]
