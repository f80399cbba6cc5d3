"""How an answer behaves on inputs that a whole class shares, and which listed wrong answer it behaves like.

A label is never read off a sentence: two rules may fail a check with the same one. It is given where every check of the
exercise ended as it does for the listed answer and, where one failed, the same came back: asked with the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from autograder.model.rubric import PlannedTest

UNLISTED = "unlisted"  # the label of a wrong answer that behaves like none of those that are listed
CLOSE = {"rel_tol": 1e-4, "abs_tol": 1e-9}  # float32 and another order of the same sum


@dataclass(frozen=True)
class Seen:
    """What one test saw of an answer."""

    exercise: str
    test: str
    passed: bool
    kind: str = ""  # see `verdict.Outcome`
    says: str = ""
    shape: str = ""  # digest of all that came back but its numbers; empty if nothing did: see `probe.traces`
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True)
class Known:
    """A listed wrong answer, as it behaves."""

    exercise: str
    name: str
    seen: tuple[Seen, ...]


@dataclass(frozen=True)
class Compared:
    """How a job's answers are compared."""

    seed: int | None = None  # of the inputs that a class shares; None: they are not compared
    listed: tuple[str, ...] = ()  # the exercises with a listed wrong answer
    only: tuple[str, ...] = ()  # to see how a listed answer behaves: nothing is asked but of these exercises

    def asks(self, exercise: str) -> bool:
        """Whether the job is asked about an exercise at all."""
        return not self.only or exercise in self.only

    def exercises(self, failed: Collection[str]) -> list[str]:
        """Which exercises are asked about once more: of those that failed the ones with a listed answer."""
        return list(self.only) or sorted({*self.listed} & set(failed))


NOT_COMPARED = Compared()


def labels(planned: Iterable[PlannedTest], seen: Iterable[Seen], known: Sequence[Known]) -> dict[str, str]:
    """The name of the known answer that each exercise's behaves like, of several all; `UNLISTED` where it is none.

    Only of exercises with known answers.
    """
    tests: dict[str, list[str]] = {}
    for test in planned:
        tests.setdefault(test.exercise, []).append(test.name)
    mine = {(each.exercise, each.test): each for each in seen}
    found = {each.exercise: [] for each in known}
    for each in known:
        theirs = {one.test: one for one in each.seen}
        pairs = [(mine.get((each.exercise, test)), theirs.get(test)) for test in tests.get(each.exercise, ())]
        whole = [(one, other) for one, other in pairs if one is not None and other is not None]
        failed = any(not one.passed for one, _ in whole)
        if failed and len(whole) == len(pairs) and all(alike(*pair) for pair in whole):
            found[each.exercise].append(each.name)
    return {exercise: " or ".join(names) or UNLISTED for exercise, names in found.items()}


def alike(one: Seen, other: Seen) -> bool:
    """Whether one test saw the same of two answers: both passed, or both failed in the same way."""
    if one.passed or other.passed:
        return one.passed and other.passed
    if (one.kind, one.shape, len(one.numbers)) != (other.kind, other.shape, len(other.numbers)):
        return False
    if not one.shape:  # nothing came back: the sentence is all there is
        return one.says == other.says
    return all(math.isclose(mine, theirs, **CLOSE) for mine, theirs in zip(one.numbers, other.numbers, strict=True))
