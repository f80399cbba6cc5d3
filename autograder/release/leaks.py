"""What of a chapter only its author and the grader may know, and a search for it in what students are handed.

A secret is a run of lines: the reference of an answer cell, an answer that is listed beside the checks, a function of a
check file, an exercise's own sentences. It is found wherever the same lines stand one after another, whatever their indent,
blank lines and comments: in a cell of a notebook or in any other file. What an answer begins and ends with as its stub does
is no secret, nor is one that is too short to be told from any other program (`return x`).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring import build
from autograder.model import test_cells
from autograder.model.course import Course, CourseError, text
from autograder.probe import listed

SHORT = 24  # characters: what is shorter may stand anywhere by chance


@dataclass(frozen=True)
class Secret:
    """Lines that no student may have."""

    what: str  # 'the reference of "double"'
    lines: tuple[str, ...]  # without indent, blank lines and comments


def secrets(course: Course, name: str) -> list[Secret]:
    """What a chapter's source and checks hold that its release must not.

    Raises CourseError for a source or a list of answers that cannot be read.
    """
    found: list[Secret] = []
    stubs = {answer: set(_lines(stub)) for answer, stub in course.chapter(name).answers.items()}
    references = build.solution_source(course, name)
    for answer, reference in references.items():
        found.append(_unseen(Secret(f'the reference of "{answer}"', _lines(reference)), stubs.get(answer, set())))
    for variant in listed.variants(course.listed_file(name)):
        what = f'the listed answer "{variant.name}" to "{variant.answer}"'
        found.append(_unseen(Secret(what, _lines(_written(variant, references))), stubs.get(variant.answer, set())))
    source = course.source(name)
    for cell in test_cells.read(source) if source.suffix == ".ipynb" else ():
        lines = cell.source.split("\n")
        whole = "\n".join(lines[number - 1] for number in sorted(cell.hidden))
        found.append(Secret(f'the hidden tests of "{cell.grade_id}"', _lines(whole)))
    for path in course.check_sources(name):
        if path.suffix == ".py" and path.is_file():
            found += _functions(path)
    return [secret for secret in found if len("".join(secret.lines)) >= SHORT]


def leaks(folder: Path, kept: list[Secret], *, but: frozenset[Path] = frozenset()) -> list[str]:
    """Where in the files below `folder` a secret stands, a line each; files `but` these. Raises OSError."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path not in but):
        parts = ["\n".join(_lines(part)) for part in _parts(path)]
        for secret in kept:
            lines = "\n".join(secret.lines)
            if any(f"\n{lines}\n" in f"\n{part}\n" for part in parts):
                found.append(f"{path.relative_to(folder).as_posix()}: holds {secret.what}")
    return found


def _unseen(secret: Secret, seen: set[str]) -> Secret:
    """The secret without what it begins and ends with as its stub does, the head of a function for one."""
    lines = list(secret.lines)
    while lines and lines[0] in seen:
        lines.pop(0)
    while lines and lines[-1] in seen:
        lines.pop()
    return Secret(secret.what, tuple(lines))


def _written(variant: listed.Variant, references: dict[str, str]) -> str:
    try:
        return variant.written_over(references.get(variant.answer, ""))
    except ValueError as error:
        raise CourseError(str(error)) from None


def _functions(path: Path) -> Iterator[Secret]:
    """The functions and classes of a check file, each with the lines of its body."""
    source = path.read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield Secret(f'"{node.name}" of {path.name}', _lines(ast.get_source_segment(source, node) or ""))


def _parts(path: Path) -> list[str]:
    """The text of a file; of a notebook the source of each cell."""
    try:
        whole = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return [path.read_bytes().decode("latin-1")]
    if path.suffix != ".ipynb":
        return [whole]
    return [text(cell) for cell in json.loads(whole)["cells"]]


def _lines(source: str) -> tuple[str, ...]:
    lines = (line.strip() for line in source.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))
