"""Notebooks gone wrong, in every way that we could think of, from a seed: the same ones each time.

A mutant is a solved notebook with one to four changes: any node of its JSON deleted, doubled, moved, replaced or turned
into another type; the nbgrader metadata of its cells; the text of its answers; the bytes of the file; or the place where
the file should be. `how` tells the changes, so that a failure can be understood without running it again.
"""

import copy
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fuzzing import damaged

TEXTS = (
    "",
    " ",
    "\0",
    "\ud800",
    "\u202e",
    "\x1b[2J",
    "<script>alert(1)</script>",
    "=1+1",
    "../../etc/passwd",
    "a\nb",
    "{{ 1 }}",
    "code",
    "markdown",
    "raw",
    "é" * 300,
    "x" * 70_000,
)
SCALARS = (None, True, False, 0, -1, 4, 1e308, float("nan"), float("inf"), 2**63, 10**30)
LINES = (
    "raise Exception('\ud800')",
    "raise SystemExit(3)",
    "import sys; sys.exit(0)",
    "%reset -f",
    "!echo from the shell",
    "%%javascript\nalert(1)",
    "print('\x1b[31m\u202e<script>alert(1)</script>')",
    "from IPython.display import HTML, display; display(HTML('<img src=x onerror=alert(1)>'))",
    "display({'text/html': '<script>1</script>', 'image/svg+xml': 7, 'application/x': [None]}, raw=True)",
    "del tf",
    "tf = None",
    "return 1",
    "await x",
    "def f(:",
    "\tx",
    "'''",
    "1/0",
    "import warnings; warnings.warn('\\ud800')",
    "import nothing_like_it",
    "__builtins__ = {}",
    "# -*- coding: utf-7 -*-",
)
CELL_KEYS = ("cell_type", "id", "metadata", "source", "outputs", "execution_count", "attachments")
META_KEYS = ("grade_id", "grade", "solution", "locked", "task", "points", "schema_version", "checksum", "cell_type")
Notebook = dict[str, Any]
Writer = Callable[[Path], None]


@dataclass(frozen=True)
class Mutant:
    name: str
    how: str
    content: bytes | Writer | None  # what writes the notebook's path; None: there is no file

    def hand_in(self, path: Path) -> None:
        """Write it where a submission's notebook belongs; the folder is there."""
        if callable(self.content):
            self.content(path)
        elif self.content is not None:
            path.write_bytes(self.content)


def mutants(solved: Notebook, count: int, seed: int) -> Iterator[Mutant]:
    """`count` mutants of a solved notebook; the n-th is the same for every `count`."""
    for number in range(count):
        rng = Random(f"{seed}:{number}")
        yield _mutant(f"mutant-{number:04}", solved, rng)


def _mutant(name: str, solved: Notebook, rng: Random) -> Mutant:
    at = rng.random()
    if at < 0.04:
        how, content = rng.choice(PLACES)
        return Mutant(name, how, content)
    made: Any = copy.deepcopy(solved)
    told = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        change = rng.choice((_node, _node, _answer))
        told.append(f"{change.__name__[1:]}: {change(made, rng)}")
    whole = json.dumps(made, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.5)
    data = whole.encode("utf-8", "surrogatepass")
    if at < 0.18:
        told.append("bytes")
        data = damaged(data, rng)
    elif at < 0.24:
        encoding = rng.choice(("utf-16", "utf-32-le", "utf-8-sig", "cp037", "latin-1"))
        told.append(encoding)
        data = whole.encode(encoding, "replace")
    return Mutant(name, "; ".join(told), data)


def _value(rng: Random) -> Any:
    """Any small JSON value."""
    kind = rng.randrange(6)
    if kind == 0:
        return [_value(rng) for _ in range(rng.randrange(3))]
    if kind == 1:
        return {rng.choice((*META_KEYS, *CELL_KEYS, *TEXTS)): _value(rng) for _ in range(rng.randrange(3))}
    return rng.choice(TEXTS) if kind < 4 else rng.choice(SCALARS)


def _retyped(value: Any, rng: Random) -> Any:
    """The same content as another type."""
    ways = [lambda: [value], lambda: {"0": value}, lambda: repr(value), lambda: json.dumps(value), lambda: None]
    if isinstance(value, str):
        ways += [lambda: list(value), lambda: value.splitlines(True), lambda: {"text": value}, lambda: len(value)]
    if isinstance(value, list):
        ways += [lambda: dict(enumerate(map(str, value))), lambda: value[0] if value else 0, lambda: [value, value]]
    if isinstance(value, dict):
        ways += [lambda: list(value), lambda: list(value.items()), lambda: list(value.values())]
    return rng.choice(ways)()


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    if isinstance(value, dict | list):
        for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
            found.append((value, key))
            _places(each, found)
    return found


def _node(notebook: Any, rng: Random) -> str:
    """Change any node of the JSON tree, of its cells or of one cell."""
    cells = _cells(notebook)
    places = _places(rng.choice((notebook, cells, rng.choice(cells))), [])
    if not places:
        return "nothing is left"
    (holder, key), (other, theirs) = rng.choice(places), rng.choice(places)
    what = rng.choice(("delete", "replace", "retype", "double", "copy", "shuffle"))
    if what == "delete":
        del holder[key]
    elif what == "replace":
        holder[key] = _value(rng)
    elif what == "retype":
        holder[key] = _retyped(holder[key], rng)
    elif what == "copy":
        other[theirs] = copy.deepcopy(holder[key])
    elif what == "double" and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif what == "double":
        holder[rng.choice((*CELL_KEYS, *META_KEYS, *TEXTS))] = copy.deepcopy(holder[key])
    elif isinstance(holder, list):
        rng.shuffle(holder)
    return f"{what} {str(key)[:30]!r}"


def _cells(notebook: Any) -> list[Any]:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    return cells if isinstance(cells, list) and cells else [{}]


def _answer(notebook: Any, rng: Random) -> str:
    """Change the text of an answer."""
    answers = [
        cell
        for cell in _cells(notebook)
        if isinstance(cell, dict)
        and isinstance(cell.get("source"), str)
        and isinstance(cell.get("metadata"), dict)
        and isinstance(cell["metadata"].get("nbgrader"), dict)
        and cell["metadata"]["nbgrader"].get("solution")
    ]
    if not answers:
        return "nothing to change"
    cell = rng.choice(answers)
    lines = cell["source"].split("\n")
    at = rng.randrange(len(lines))
    what = rng.choice(
        ("drop", "double", "swap", "insert", "insert", "put first", "indent", "cut", "noise", "words", "text")
    )
    if what == "drop":
        del lines[at]
    elif what == "double":
        lines.insert(at, lines[at])
    elif what == "swap":
        rng.shuffle(lines)
    elif what in ("insert", "put first"):
        lines.insert(at if what == "insert" else 0, rng.choice(LINES))
    elif what == "indent":
        lines[at] = rng.choice((" ", "\t", "    ")) + lines[at]
    elif what == "words":
        lines = " ".join(rng.sample(words := cell["source"].split(" "), len(words))).split("\n")
    elif what == "text":
        lines = [rng.choice(TEXTS)]
    cell["source"] = "\n".join(lines)
    if what == "cut":
        cell["source"] = cell["source"][: rng.randrange(len(cell["source"]) + 1)]
    elif what == "noise":
        cell["source"] = damaged(cell["source"].encode(errors="replace"), rng).decode(errors="surrogateescape")
    return f"{what} in line {at}"


def _renamed(path: Path) -> None:
    path.with_name("my answers.ipynb").write_text("{}")


def _odd_time(path: Path) -> None:
    path.write_text("{}")
    path.with_name("timestamp.txt").write_bytes(b"\xff\x00 yesterday\n")


def _sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 40)


PLACES: tuple[tuple[str, Writer | None], ...] = (
    ("no file", None),
    ("no folder", lambda path: path.parent.rmdir()),
    ("a file under another name", _renamed),
    ("a link to a device", lambda path: path.symlink_to("/dev/zero")),
    ("a link to itself", lambda path: path.symlink_to(path)),
    ("a pipe", lambda path: os.mkfifo(path)),
    ("a folder", lambda path: path.mkdir()),
    ("a terabyte of nothing", _sparse),
    ("a time that is none", _odd_time),
)
