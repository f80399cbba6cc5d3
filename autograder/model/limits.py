"""How much may be used: by a submission, and by the process that asks it. The one place where a default stands."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

MIB = 1 << 20
STEP = 0.25  # points: parts of an exercise are given in steps of it


class CourseError(Exception):
    """The author's fault, in one line: which file, what is wrong, how to mend it."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Times in seconds, sizes in bytes. Beyond its loopback there is no network at all."""

    notebook_bytes: int = 5 * MIB
    cells: int = 2000
    cell_bytes: int = 64 << 10
    cell_seconds: float = 120.0
    notebook_seconds: float = 300.0
    question_seconds: float = 30.0  # one student.ask
    reply_bytes: int = 16 * MIB  # one answer to it
    memory_bytes: int = 4 << 30
    pids: int = 2048  # a TensorFlow server needs hundreds of threads: 256 abort it
    output_bytes: int = MIB
    file_bytes: int = 256 * MIB
    tmp_bytes: int = 512 * MIB
    revivals: int = 3  # fresh kernels after one died or hung


@dataclass(frozen=True)
class CheckerCaps:
    """What a process that asks a student's kernel may use: bytes, counts, processor seconds."""

    memory_bytes: int = 2 << 30
    pids: int = 512
    file_bytes: int = MIB
    tmp_bytes: int = MIB
    cpu_seconds: int = 600


CAPS = CheckerCaps()


def checked(where: str, values: Mapping[str, object], kind: type) -> dict[str, Any]:
    """Fields of `kind`, Limits or CheckerCaps, by name. Raises CourseError, which begins with `where`."""
    kinds = get_type_hints(kind)
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name not in kinds:
            raise CourseError(f"{where}: no limit {name!r}; {near(name, kinds)}")
        whole = kinds[name] is int
        least = 0 if name == "revivals" else 1 if whole else 0.001
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not least <= value < 1e18:
            raise CourseError(f"{where}: {name}: {value!r}; write a {'whole ' * whole}number of at least {least}")
        found[name] = kinds[name](value)
    return found


def read_limits(named: Iterable[str]) -> dict[str, Any]:
    """Limits by name, from texts like "cell_seconds=240". Raises CourseError for what is none."""
    values: dict[str, object] = {}
    for each in named:
        name, _, text = each.partition("=")
        try:
            value = float(text)
        except ValueError:
            raise CourseError(f"--limit {each}: {text!r} is no number") from None
        values[name] = int(value) if value.is_integer() else value
    return checked("--limit", values, Limits)


def near(name: str, among: Iterable[str]) -> str:
    """What to say after "there is no ...": the names that are nearest, else the first there are."""
    there = sorted(among)
    close = difflib.get_close_matches(name, there, 3, 0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are: {', '.join(there[:12])}{', ...' if len(there) > 12 else ''}" if there else "there is none yet"
