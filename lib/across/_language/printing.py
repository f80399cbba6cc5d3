"""What a notebook's given code prints, in the language of its kernel: line by line, each that the catalogue knows.

A line that is none of the course's own stays as it is.
"""

from __future__ import annotations

import sys

from across._language import catalogue


def begin() -> None:
    """From now on translate what this kernel prints; nothing happens in English, or outside of a kernel."""
    out = sys.stdout
    if not hasattr(out, "pub_thread") or hasattr(out, "across_write") or catalogue.current() == catalogue.ENGLISH:
        return
    write = out.write

    def translated(text: str) -> int | None:
        """ipykernel's own `write`, whose value counts what was given."""
        if isinstance(text, str):
            text = "".join(_line(line) for line in text.splitlines(keepends=True))
        return write(text)

    out.across_write = write  # pyright: ignore[reportAttributeAccessIssue]
    out.write = translated  # pyright: ignore[reportAttributeAccessIssue]


def _line(line: str) -> str:
    bare = line.rstrip()
    said = catalogue.said(bare)
    return line if said == bare else said + line[len(bare) :]
