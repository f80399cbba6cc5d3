"""Whose answers to an exercise are alike beyond what the class and the course have in common: it proves nothing.

An answer is a set of shapes: each node of its syntax tree with the three levels below it, one name standing for every name
that it binds. Other names, comments, statements that do nothing, another order or another loop leave most of them as they
were. A shape of the release, of the reference or of a listed answer counts nothing, nor does one that MANY wrote; any other
as many bits as it is rare. Two are alike who share BITS, and MOST of what the one with fewer has. Prose is its sequences of
four words.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from across._process.global_names import NAME, UNREADABLE, parsed
from autograder.gradebook import evidence
from autograder.gradebook.tables import Gradebook
from autograder.model import course
from autograder.model.course import Chapter
from autograder.probe import listed

BITS = 60.0  # ten shapes that two of 120 have alone; less is too short to tell
MOST = 0.9  # of the bits of the one who has fewer: tests/autograder/test_similar.py measures what both find
MANY = 0.3  # of the class: what so many wrote is no evidence
DEPTH = 3
LONGEST = 20_000  # characters of an answer that is looked at
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list")  # lists in these are looked at alone
TURNED = (ast.Compare, ast.BinOp)  # `a < b` is `b > a`, and `x * y` is `y * x`
CELLS = re.compile(r"^# %%.*$", re.MULTILINE)  # of jupytext's percent format, in which solutions are written

Shapes = frozenset[int]


@dataclass(frozen=True)
class Pair:
    """Two students whose answers are alike."""

    students: tuple[str, str]
    share: float  # of what the one with fewer bits has, 0 to 1
    bits: float  # that both have


@dataclass(frozen=True)
class Alike:
    """What there is to say of an exercise."""

    exercise: str
    answers: int
    told: int  # of these, that have BITS of their own; fewer than two: it is too short to tell
    pairs: tuple[Pair, ...]  # the nearest first

    @property
    def groups(self) -> dict[tuple[str, ...], list[Pair]]:
        """Students who are alike, some of them by others only, with the pairs among them."""
        joined: dict[str, set[str]] = {}
        for pair in self.pairs:
            group = set[str]().union(*(joined.get(student, {student}) for student in pair.students))
            joined |= dict.fromkeys(group, group)
        found: dict[tuple[str, ...], list[Pair]] = defaultdict(list)
        for pair in self.pairs:
            found[tuple(sorted(joined[pair.students[0]]))].append(pair)
        return dict(found)


def of_class(book: Gradebook, out: Path, chapter: Chapter) -> list[Alike]:
    """What there is to say of each exercise that two or more answered, from what OUT keeps."""
    handed_in, basis = evidence.latest(book, chapter.name)
    given = [course.text(cell) for cell in chapter.release["cells"]] + list(_of_the_course(out, basis))
    cells = [cell for cell in chapter.release["cells"] if "nbgrader" in cell["metadata"]]
    prose = {cell["metadata"]["nbgrader"]["grade_id"] for cell in cells if cell["cell_type"] == "markdown"}
    known = frozenset[int]().union(*map(shapes, given), *map(phrases, given))
    stubs, made = chapter.answers, []
    for exercise in chapter.exercises:
        answers: dict[str, Shapes] = {}
        for student, submission in handed_in.items():
            own = {each: submission.answers.get(each, "").strip() for each in exercise.answer_ids}
            read = [phrases(own[each]) if each in prose else shapes(own[each]) for each in own]
            if any(text not in ("", stubs.get(each, "").strip()) for each, text in own.items()):
                answers[student] = frozenset[int]().union(*read)
        if len(answers) > 1:
            made.append(compared(exercise.name, answers, known))
    return made


def _of_the_course(out: Path, basis: str) -> Iterator[str]:
    """What the course itself says, cell by cell and answer by answer: the source with the reference, and what is listed."""
    kept = evidence.read_basis(out, basis)
    found = {name: Path(out) / evidence.FOLDER / digest for name, digest in kept.files.items()} if kept else {}
    cells: list[str] = []
    for path in (path for name, path in found.items() if name.startswith("solutions/") and path.is_file()):
        text = path.read_text(encoding="utf-8")
        cells += [course.text(each) for each in json.loads(text)["cells"]] if text[:1] == "{" else CELLS.split(text)
    yield from cells
    for path in (path for name, path in found.items() if Path(name).name.startswith("listed_")):
        for each in listed.variants(path):
            old, new = each.change
            yield from [each.source] if each.source else (cell.replace(old, new) for cell in cells if old in cell)


def compared(exercise: str, answers: Mapping[str, Shapes], known: Shapes) -> Alike:
    """The students whose answers are alike; `known` is what the course itself says.

    Not every two are compared, only who share one of the shorter's rarest shapes: without it they would not share MOST.
    """
    holders: dict[int, list[str]] = defaultdict(list)
    for student, found in answers.items():
        for shape in found - known:
            holders[shape].append(student)
    most = max(2.0, MANY * len(answers))
    bits = {shape: math.log2(len(answers) / len(by)) for shape, by in holders.items() if len(by) <= most}

    def worth(shapes: Iterable[int]) -> float:
        return math.fsum(bits.get(shape, 0.0) for shape in shapes)

    own = {student: worth(found) for student, found in answers.items()}
    told = sorted((student for student in answers if own[student] >= BITS), key=lambda each: (own[each], each))
    place = {student: number for number, student in enumerate(told)}
    pairs = []
    for one in told:
        rest, perhaps = (1 - MOST) * own[one], set[str]()
        for shape in sorted(answers[one] & bits.keys(), key=lambda each: len(holders[each])):
            perhaps.update(holders[shape])
            rest -= bits[shape]
            if rest < 0:
                break
        for other in perhaps:
            if place.get(other, -1) > place[one]:
                shared = worth(answers[one] & answers[other])
                if shared >= max(BITS, MOST * own[one]):
                    pairs.append(Pair((min(one, other), max(one, other)), shared / own[one], shared))
    pairs.sort(key=lambda pair: (-round(pair.bits, 6), pair.students))
    return Alike(exercise, len(answers), len(told), tuple(pairs))


@lru_cache(maxsize=1 << 14)  # who watches a class has most answers read again with each that comes
def shapes(source: str) -> Shapes:
    """The shapes of a piece of Python; none where it cannot be read."""
    found: set[int] = set()
    try:
        tree = parsed(source if len(source) <= LONGEST else "")
        _walk(tree, _bound(tree), found)
    except UNREADABLE:
        return frozenset()
    return frozenset(found)


@lru_cache(maxsize=1 << 12)
def phrases(text: str) -> Shapes:
    """The sequences of four words in a text."""
    words = [word.casefold() for word in NAME.findall(text[:LONGEST])]
    return frozenset(map(hash, zip(words, words[1:], words[2:], words[3:], strict=False)))


def _bound(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
    return names


def _walk(node: ast.AST, bound: set[str], found: set[int]) -> list[int]:
    """The node itself, then with one level below it and so on, blocks of statements left out; what is a shape is `found`."""
    if isinstance(node, ast.AugAssign):  # `a += b` is `a = a + b`
        node = ast.Assign([node.target], ast.BinOp(node.target, node.op, node.value))
    parts: list[list[int]] = []
    for name, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, ast.AST) and not isinstance(each, ast.expr_context):
                part = _walk(each, bound, found)
                if name not in BLOCKS or not isinstance(value, list):
                    parts.append(part)
    if isinstance(node, TURNED):
        parts.sort()
    made = [hash(_label(node, bound))]
    for depth in range(DEPTH):
        made.append(hash((made[0], *(part[depth] for part in parts))) if parts else made[0])
    if parts and isinstance(node, ast.expr | ast.stmt | ast.comprehension) and not isinstance(node, ast.FunctionDef):
        found.update(made[1:])
    return made


def _label(node: ast.AST, bound: set[str]) -> str:
    match node:
        case ast.Name(id=name):
            return "_" if name in bound else name
        case ast.Constant(value=value):
            return repr(value)
        case ast.Attribute(attr=name):
            return f".{name}"
        case ast.keyword(arg=name):
            return f"{name}="
        case ast.Gt() | ast.GtE():
            return ast.Lt.__name__ if isinstance(node, ast.Gt) else ast.LtE.__name__
    return type(node).__name__
