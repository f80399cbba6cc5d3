"""The answers that an author knows of: `listed_CHAPTER.toml` beside the checks, a row each; `autograder verify` judges them.

    [average_gradients.wrong]
    adds_towers = { says = "You added the towers", change = ["tf.reduce_mean", "tf.reduce_sum"] }

    [average_gradients.right.by_numpy]
    source = '''
    def average_gradients(tower_gradients): ...
    '''

    [[average_gradients.equivalent]]
    change = ["axis=0", "0"]
    because = "it is the second argument"

    [average_gradients.harmful]
    "tf.print" = "the tensors may not be looked at before all are there"

A wrong answer is named after the misconception that it comes from, and `says` a part of the sentence that it must get. A
student's answer that gets it is called by that name: see `asking.misconception`. It is the reference with the `change`
[old, new], or a whole `source`; `exercise` is the one that must not get full points where that is not the one named like the
answer. An equivalent is a mutant of the reference that is no fault, and why. Without a `change` that is every mutant of the
cell which gets full points, as where any committed guess is right. What `authoring.innocent` adds to right answers changes no
mark, but for what is listed as harmful to an answer, and why.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autograder.model.course import Course, CourseError, near

KEYS = {"says", "change", "source", "exercise"}


@dataclass(frozen=True)
class Variant:
    """An answer that the checks must judge as said: every other answer is the reference's."""

    chapter: str
    answer: str  # grade id of the answer cell
    name: str
    correct: bool
    source: str = ""  # the whole cell; or else
    change: tuple[str, str] = ("", "")  # (old, new) in the reference's source
    says: str = ""  # part of the message that a wrong answer must get
    exercise: str = ""  # that must not get full points; by default the one named like the answer

    def written_over(self, reference: str) -> str:
        """The source of this variant of the cell. Raises ValueError when the reference does not hold `change[0]`."""
        if self.source:
            return self.source.strip("\n")
        old, new = self.change
        if old not in reference:
            raise ValueError(
                f'{self.chapter}, variant "{self.name}": the reference of {self.answer} does not hold {old!r}'
            )
        return reference.replace(old, new)


@dataclass(frozen=True)
class Equivalent:
    """A mutant of the reference that no check can tell from it, because it does the same, or is as good an answer."""

    chapter: str
    answer: str
    change: tuple[str, str] | None  # (old, new): `old` stands once in the reference's source; None: any
    because: str


@dataclass(frozen=True)
class Harmful:
    """An addition, see `authoring.innocent`, that makes a right answer to the exercise a wrong one."""

    answer: str
    addition: str
    because: str


def variants(file: Path) -> list[Variant]:
    """The right and wrong answers that a file lists, see `Course.listed_file`; none if there is no such file.

    Raises CourseError, as `equivalents` does.
    """
    return [each for each in _read(file) if isinstance(each, Variant)]


def equivalents(file: Path) -> list[Equivalent]:
    """The equivalents that a file lists."""
    return [each for each in _read(file) if isinstance(each, Equivalent)]


def harmful(file: Path) -> list[Harmful]:
    """The additions that a file lists as harmful."""
    return [each for each in _read(file) if isinstance(each, Harmful)]


def unlisted(course: Course, name: str) -> str:
    """Which exercises of a chapter have no wrong or no right answer listed, on a line with the mend; empty where each has both.

    Of an imported chapter, whose tests are in its cells, none is asked for. Raises CourseError.
    """
    file, asked = course.listed_file(name), [each.name for each in course.chapter(name).exercises if not each.manual]
    there = {(each.exercise, each.correct) for each in variants(file)}
    bare = ", ".join(each for each in asked if not {(each, True), (each, False)} <= there)
    if not bare or course.source(name).suffix == ".ipynb":
        return ""
    where = f"{file.relative_to(course.root)}: lists no wrong answer, or no right one, of {bare}"
    return f"{where}; add [ANSWER.wrong] and [ANSWER.right], by which `autograder verify` tries the checks"


def must_fit(file: Path, reference: Mapping[str, str], exercises: Collection[str]) -> None:
    """Raise CourseError where a row is of no answer cell or exercise, or changes what does not stand in the `reference`."""
    for each in _read(file):
        if each.answer not in reference:
            raise CourseError(f"{file}: [{each.answer}]: no answer cell is called so; {near(each.answer, reference)}")
        if isinstance(each, Variant):
            where = f"{file}: {each.answer}.{'right' if each.correct else 'wrong'}.{each.name}"
            if each.exercise not in exercises:
                raise CourseError(f"{where}: there is no exercise {each.exercise!r}; {near(each.exercise, exercises)}")
            if each.change[0] not in reference[each.answer]:
                says = f"change: the reference of {each.answer} does not hold {each.change[0]!r}"
                raise CourseError(f"{where}: {says}; write what stands there, or the whole source")


@cache
def _read(file: Path) -> tuple[Variant | Equivalent | Harmful, ...]:
    chapter = file.stem.removeprefix("listed_")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return tuple(each for answer, kinds in content.items() for each in _of(chapter, answer, kinds))
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise CourseError(f"{file.name}: {error}; its form is in autograder/probe/listed.py") from None


def _of(chapter: str, answer: str, kinds: Any) -> Iterator[Variant | Equivalent | Harmful]:
    if not isinstance(kinds, dict) or kinds.keys() - {"wrong", "right", "equivalent", "harmful"}:
        raise ValueError(f"{answer}: {', '.join(kinds)}; there are wrong, right, equivalent and harmful")
    for kind in ("wrong", "right"):
        for name, row in kinds.get(kind, {}).items():
            where = f"{answer}.{kind}.{name}"
            if not isinstance(row, dict) or row.keys() - KEYS or ("change" in row) == ("source" in row):
                raise ValueError(
                    f"{where}: a row has a change or a source, and of {', '.join(sorted(KEYS))} what it needs"
                )
            if (kind == "wrong") != ("says" in row):
                raise ValueError(f"{where}: a wrong answer says what it must be told, a right one nothing")
            change = _pair(where, row.get("change", ("", "")))
            exercise = row.get("exercise", answer)
            yield Variant(
                chapter, answer, name, kind == "right", row.get("source", ""), change, row.get("says", ""), exercise
            )
    for row in kinds.get("equivalent", []):
        if row.keys() - {"change", "because"} or "because" not in row:
            raise ValueError(f"{answer}.equivalent: a row has a because, and perhaps a change")
        yield Equivalent(chapter, answer, _pair(answer, row["change"]) if "change" in row else None, row["because"])
    for addition, because in kinds.get("harmful", {}).items():
        if not isinstance(because, str):
            raise ValueError(f"{answer}.harmful: an addition, and because of what")
        yield Harmful(answer, addition, because)


def _pair(where: str, change: Any) -> tuple[str, str]:
    if len(change) != 2 or not all(isinstance(each, str) for each in change):
        raise ValueError(f"{where}: a change is [old, new]")
    return change[0], change[1]
