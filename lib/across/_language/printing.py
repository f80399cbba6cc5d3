"""What a notebook's given code prints, in the language of its kernel: line by line, each that the catalogue knows.

A line that is none of the course's own stays as it is.
"""

from __future__ import annotations

import sys
from typing import Any

from across._language import catalogue


def begin() -> None:
    """From now on translate what this kernel prints; nothing happens in English, or outside of a kernel."""
    out = sys.stdout
    if not hasattr(out, "pub_thread") or isinstance(out, Spoken) or catalogue.current() == catalogue.ENGLISH:
        return
    # of the stream's class, for IPython puts a `write` of its own on the stream for the time of each cell
    stream: Any = out
    stream.__class__ = type("SpokenStream", (Spoken, type(out)), {"plain": type(out).write})
    if now := out.__dict__.get("write"):  # the cell that imports us runs already
        out.__dict__["write"] = lambda text: now(_lines(text))


class Spoken:
    """What ipykernel's stream is, besides, in a kernel that speaks another language."""

    plain: Any  # ipykernel's own `write`

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "write" and getattr(value, "__func__", None) is self.plain.__func__:
            self.__dict__.pop("write", None)  # IPython puts back what it found, in the cell that imported us
        else:
            super().__setattr__(name, value)

    def write(self, text: str) -> int | None:
        """ipykernel's own `write`, of the translated lines."""
        return super().write(_lines(text))  # pyright: ignore[reportAttributeAccessIssue]


def _lines(text: str) -> str:
    return "".join(_line(line) for line in text.splitlines(keepends=True)) if isinstance(text, str) else text


def _line(line: str) -> str:
    bare = line.rstrip()
    said = catalogue.line(bare)
    return line if said == bare else said + line[len(bare) :]
