"""One file of what others handed in, and how many of them are taken of one student.

A name never becomes a path here: it is looked at in parts, and a file is read through a function with a cap.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO

NAME = 1000  # characters of a member's path
NOTEBOOKS = 200  # of one student
FILES = 1000  # of one student, that are no notebooks: they are only listed
SEEN = 100_000  # files of one student that are looked at in a folder before the rest is left alone
PIECE = 1 << 16

Parts = tuple[str, ...]
Owner = Callable[[Parts, "int | None"], Hashable]  # a name, and the user that its folder belongs to -> whose it is


class UnreadableError(Exception):
    """A member cannot be read; the message says why."""


@dataclass(frozen=True)
class Member:
    """A file, or what is in the place of one. `read` takes a cap in bytes and raises UnreadableError."""

    path: str  # as the source gives it: any characters
    parts: Parts  # of the path; empty where the path is not to be trusted
    read: Callable[[int], bytes]
    time: datetime | None = None  # last changed, in UTC; a zip's clock is taken for UTC where it does not say
    why_not: str = ""  # what is wrong with it
    mark: tuple[int, ...] = ()  # a folder's file: changes when the file does
    owner: int | None = None  # a folder's file: the user that its folder belongs to
    size: int = 0  # bytes, as its source says
    beyond: bool = False  # stands for all files of its student that are too many to be taken


class Quota:
    """Counts the files of each student: what is too many costs nobody else, and is told once."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._counts: Counter[tuple[Hashable, bool]] = Counter()
        self._seen: Counter[Hashable] = Counter()
        self._told: set[Hashable] = set()

    def see(self, parts: Parts, owner: int | None) -> bool:
        """Count a file or folder that is looked at; whether a student's next one may be."""
        who = self._owner(parts, owner)
        self._seen[who] += 1
        return self._seen[who] <= SEEN

    def refused(self, path: str, parts: Parts, owner: int | None = None) -> list[Member] | None:
        """None where a file is taken, else what stands for it: see `beyond`."""
        notebook = is_notebook(parts or (path,))
        kind = (self._owner(parts, owner), notebook)
        self._counts[kind] += 1
        return None if self._counts[kind] <= (NOTEBOOKS if notebook else FILES) else self.beyond(path, parts, owner)

    def beyond(self, path: str, parts: Parts, owner: int | None = None) -> list[Member]:
        """For a file that is too much: the first time of a student the member that says so, then nothing."""
        who = self._owner(parts, owner)
        if who in self._told:
            return []
        self._told.add(who)
        why = f"more than {NOTEBOOKS} notebooks or {FILES} other files: this one and what follows is left out"
        return [Member(path, parts, cannot(why), why_not=why, beyond=True)]


def is_notebook(parts: Parts) -> bool:
    """Whether a path ends like a notebook's."""
    return bool(parts) and parts[-1].lower().endswith(".ipynb")


def parted(path: str, windows: bool = False) -> tuple[Parts, str]:
    """A member's path in parts, or no parts and what is wrong with it.

    A backslash parts folders only in what `windows` made: elsewhere a student may have put it into a file's name.
    """
    if len(path) > NAME:
        return (), f"its name has {len(path)} characters, at most {NAME} are read"
    if "\0" in path:
        return (), "its name holds a NUL"
    every = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if path.startswith(("/", "\\")) or ".." in every or (every and every[0][1:] == ":"):
        return (), "its name leads out of the archive"
    parts = tuple(every) if windows else tuple(part for part in path.split("/") if part not in ("", "."))
    try:
        if any(len(os.fsencode(part)) > 255 for part in parts):
            return (), "its name is too long for a file"
    except UnicodeEncodeError:
        return (), "its name cannot be written as a file's"
    return parts, "" if parts else "it has no name"


def cannot(why: str) -> Callable[[int], bytes]:
    """A `read` that raises UnreadableError."""

    def read(cap: int) -> bytes:
        raise UnreadableError(why)

    return read


def capped(file: IO[bytes], cap: int) -> bytes:
    """At most `cap` bytes of a file."""
    pieces: list[bytes] = []
    while cap > 0 and (piece := file.read(min(PIECE, cap))):
        pieces.append(piece)
        cap -= len(piece)
    return b"".join(pieces)


def moment(seconds: float) -> datetime | None:
    """A time of a file; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
