"""The house figures of each chapter: how much there is to read, and how much of TensorFlow is in the answers.

uv run python tools/house.py       # a table; what is outside the house's figures in red

Its minutes are counted: one for 100 words, one for 4 lines, 5 for an exercise, optional parts and all. That fits what readers
said a student needs within two fifths, and on the whole within a tenth (tests/notebooks/test_house_figures.py).

A chapter that is outside on purpose says why in the header of its source: `#   # house: words: two tables of registers`.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from autograder.authoring import build
from autograder.model.course import Course, find, text

OF_TENSORFLOW = frozenset({"backing_device", "device", "type"})  # of its tensors and ops: their attributes
HEADING = re.compile(r"^(#{1,6}) +(.+?) *#*$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(
    r"\bIn\s+(?:about\s+)?(\d+)\s+minutes|\band\s+(\d+)\s+for\s+an\s+optional|\bAnother\s+(\d+)\s+minutes"
)
WORD = re.compile(r"[^\W_][\w'’-]*")
LIMITS = {  # name -> (least, most)
    "words": (0, 1550),  # about 1,300 in the open, and what is folded
    "lines": (0, 240),
    "median_cell": (2, 6),
    "longest_cell": (0, 25),
    "longest_prose": (0, 80),
    "answers_in_tensorflow": (0.5, 1.0),
}


@dataclass(frozen=True)
class Figures:
    """What there is in one chapter, as a student gets it; answers as the author solves them."""

    words: int  # of prose, folded hints too
    lines: int  # of code to read: cells that are neither answers nor checks; not blank
    median_cell: float  # lines of a code cell that is neither
    longest_cell: int
    longest_prose: int  # words of a cell
    answers_in_tensorflow: float  # share of the coded answers, guesses aside, that call TensorFlow
    exercises: int
    promised: int  # minutes, those of optional parts too

    def minutes(self) -> float:
        """How long a student needs for it, by the rule."""
        return minutes(self.words, self.lines, self.exercises)

    def outside(self) -> dict[str, float]:
        """The figures that are not the house's, by name."""
        found = {name: getattr(self, name) for name in LIMITS}
        return {name: value for name, value in found.items() if not LIMITS[name][0] <= value <= LIMITS[name][1]}


def minutes(words: int, lines: int, exercises: int) -> float:
    """How long a student needs for so much to read and to answer: the rule."""
    return words / 100 + lines / 4 + 5 * exercises


def heading_slips(cells: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What is wrong with the order of a notebook's headings: one of the first level, first, and no level left out."""
    before = 0
    for cell in cells:
        if cell["cell_type"] != "markdown":
            continue
        for marks, title in HEADING.findall(FENCE.sub("", text(dict(cell)))):
            level = len(marks)
            if level == 1 and before:
                yield f"{title!r}: a second heading of the first level; make it ## or lower"
            elif level > before + 1:
                yield f"{title!r}: {'#' * level} follows {'#' * before or 'nothing'}; a level is left out"
            before = level
    if not before:
        yield "there is no heading; begin with `# Title`"


def figures(course: Course, chapter: str) -> Figures:
    """Count one chapter. Raises CourseError."""
    prose, code = [], []
    for cell in course.chapter(chapter).release["cells"]:
        if cell["cell_type"] == "markdown":
            prose.append(len(WORD.findall(re.sub(r"</?\w+>", " ", text(cell)))))
        elif not cell["metadata"].get("nbgrader"):
            code.append(sum(bool(line.strip()) for line in text(cell).splitlines()))
    read = course.chapter(chapter).release["cells"]
    promises = PROMISE.findall("\n".join(text(cell) for cell in read if cell["cell_type"] == "markdown"))
    by_hand = {each.name for each in course.chapter(chapter).exercises if each.manual}
    sources = [source for name, source in build.solution_source(course, chapter).items() if name not in by_hand]
    coded = [calls for calls in map(_calls, sources) if calls]
    return Figures(
        words=sum(prose),
        lines=sum(code),
        median_cell=statistics.median(code),
        longest_cell=max(code),
        longest_prose=max(prose),
        answers_in_tensorflow=sum(bool(calls & {"tf", "v1"}) for calls in coded) / max(1, len(coded)),
        exercises=len(course.chapter(chapter).exercises),
        promised=sum(int(number) for promise in promises for number in promise if number),
    )


def reasons(course: Course, chapter: str) -> dict[str, str]:
    """Why a chapter is outside, by figure, as its source says."""
    return dict(build.WHY.findall(course.source(chapter).read_text(encoding="utf-8")))


def table(course: Course) -> Table:
    """A row for each chapter."""
    made = Table("chapter", *(name.replace("_", " ") for name in LIMITS), "minutes", "promised", "outside, because")
    for chapter in course.chapters:
        found, why = figures(course, chapter), reasons(course, chapter)
        outside = found.outside()
        cells = [f"[red]{value:.3g}" if name in outside else f"{value:.4g}" for name, value in _values(found)]
        cells += [f"{found.minutes():.0f}", f"{found.promised}"]
        made.add_row(chapter, *cells, "; ".join(f"{name}: {why.get(name, '?')}" for name in outside))
    return made


def _values(found: Figures) -> list[tuple[str, float]]:
    return [(name, getattr(found, name)) for name in LIMITS]


def _calls(source: str) -> set[str]:
    """The names whose attributes a cell uses: {"=", "tf", "np"}; {"="} if it uses none; empty for a guess.

    An attribute that only TensorFlow's tensors and ops have counts as "tf".
    """
    nodes = list(ast.walk(ast.parse(source)))
    if not any(isinstance(node, ast.FunctionDef | ast.Call) for node in nodes):
        return set()
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    named = {node.value.id for node in attributes if isinstance(node.value, ast.Name)}
    return {"=", *named} | {"tf" for node in attributes if node.attr in OF_TENSORFLOW}


if __name__ == "__main__":
    Console(width=160).print(table(find()))
