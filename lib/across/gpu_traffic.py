"""What was copied to, from and between simulated GPUs, counted by the device itself: how often, and how many bytes.

    with gpu_traffic.counting() as counted:
        step(images)
    counted.traffic["GPU:0", "GPU:1"]           # Copied(copies=1, bytes=1048576)

"CPU:0" is the host's memory. Where TensorFlow has real GPUs, or none, nothing is counted. A copy takes as long as the host's
memory does, until `slowed` gives it a rate: then its duration is a MODEL (latency + bytes / rate), and what draws it says so.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from across._gpu import loading
from across._language.catalogue import marked
from across.pictures import table_html, table_text

__all__ = ["Copied", "Traffic", "counting", "slowed"]

_COLUMNS = [marked("from"), marked("to"), marked("copies"), marked("bytes")]


@dataclass(frozen=True)
class Copied:
    """How many copies, and their bytes together."""

    copies: int = 0
    bytes: int = 0

    def __sub__(self, other: Copied) -> Copied:
        return Copied(self.copies - other.copies, self.bytes - other.bytes)


class Traffic(Mapping[tuple[str, str], Copied]):
    """What was copied, by ("GPU:0", "GPU:1"): where from, where to. A pair that is not there has copied nothing."""

    def __init__(self, pairs: Mapping[tuple[str, str], Copied]) -> None:
        self._pairs = {pair: copied for pair, copied in sorted(pairs.items()) if copied.copies}
        self._nothing = "nothing was copied" if loading.loaded() else "nothing is counted: no simulated GPU here"

    def __getitem__(self, pair: tuple[str, str]) -> Copied:
        return self._pairs.get(pair, Copied())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __sub__(self, earlier: Traffic) -> Traffic:
        return Traffic({pair: self[pair] - earlier[pair] for pair in self})

    def rows(self) -> list[list[str]]:
        """One row a pair: from, to, copies, bytes."""
        return [[*pair, str(copied.copies), f"{copied.bytes:,}"] for pair, copied in self._pairs.items()]

    def __repr__(self) -> str:
        return table_text(_COLUMNS, self.rows()) if self._pairs else self._nothing

    def _repr_html_(self) -> str:
        return table_html(_COLUMNS, self.rows()) if self._pairs else self._nothing


def _since_start() -> Traffic:
    """What was copied since this process began."""
    return Traffic(
        {(row.source.decode(), row.target.decode()): Copied(row.copies, row.bytes) for row in loading.traffic()}
    )


class counting:  # noqa: N801 - used like a function: with counting() as counted:
    """Count what is copied in this block, by all threads; `traffic` is what it copied so far, and its own when it has ended."""

    def __enter__(self) -> counting:
        self._begun, self._ended = _since_start(), None
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = _since_start()

    @property
    def traffic(self) -> Traffic:
        """What was copied since the block began, or until it ended."""
        return (_since_start() if self._ended is None else self._ended) - self._begun


@contextlib.contextmanager
def slowed(bytes_per_second: float, latency: float = 0.0) -> Iterator[None]:
    """MODEL: in this block a copy takes latency + bytes / rate (latency in seconds), those of one pair one after the other.

    Copies of other pairs go on beside it, and so do ops. Raises ValueError for a rate that is not positive and finite, or a
    negative latency. On real GPUs it does nothing.
    """
    if not (0 < bytes_per_second < math.inf and 0 <= latency < math.inf):
        raise ValueError(f"slowed({bytes_per_second}, {latency}): expected a rate above 0 and a latency of 0 or more")
    loading.slow(bytes_per_second, latency)
    try:
        yield
    finally:
        loading.slow(0.0, 0.0)
