"""What answers are worth without a box, on many seeds: those that an author lists, the reference, and such without a thought.

A wrong rule earns half at most, an answer without a thought nothing, a right one everything. A wrong one is told what it must
be, and no test judges an answer now so, now so. The visible check passes what is right; what it passes that is wrong is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring import unboxed
from autograder.authoring.unboxed import Answered, Found
from autograder.model.course import Exercise
from autograder.model.verdict import ENDS
from autograder.probe import listed
from autograder.submissions.unanswered import own_cells

__all__ = ["FEW", "HALF", "Tried", "faults", "flakes", "ticked", "tried"]

FEW = 3  # seeds for what is told of an answer, and for one without a thought
HALF = 0.5  # of an exercise's points: what a wrong rule earns at most, on any seed


@dataclass(frozen=True)
class Tried:
    """One answer that is asked."""

    kind: str  # "reference", "trivial", "wrong", "right"
    name: str
    asked: Answered
    says: str = ""  # what a wrong one is told


def tried(exercises: Sequence[Exercise], file: Path, reference: Mapping[str, str], seeds: int) -> list[Tried]:
    """What is asked of the `exercises`; `file` lists answers, `reference` is the source of each cell."""
    names = {exercise.name for exercise in exercises}
    many, few = tuple(range(1, seeds + 1)), tuple(range(1, min(FEW, seeds) + 1))
    made = []
    for exercise in exercises:
        for answer in () if exercise.manual else sorted(own_cells(exercise)):
            made.append(Tried("reference", answer, Answered(exercise.name, answer, reference[answer], few)))
            for value, source in unboxed.trivial(reference[answer]):
                name = f"{answer}: return {value}"
                made.append(Tried("trivial", name, Answered(exercise.name, answer, source, few)))
    for variant in listed.variants(file):
        if variant.exercise in names:
            source = variant.written_over(reference[variant.answer])
            asked = Answered(variant.exercise, variant.answer, source, many)
            kind = "right" if variant.correct else "wrong"
            made.append(Tried(kind, f"{variant.answer}: {variant.name}", asked, variant.says))
    return made


def faults(checks: str, each: Tried, of: Found) -> Iterator[str]:
    """What is wrong in how one answer was judged by the file `checks`."""
    at = f'{checks}, exercise "{each.asked.exercise}": '
    most, least = max(of.earned, default=0.0), min(of.earned, default=0.0)
    seed = each.asked.seeds[of.earned.index(most)]
    if each.kind == "trivial" and most > 0:
        yield f"{at}the answer without a thought, {each.name}, earns {most:.0%} with seed {seed}; mend the check"
    if each.kind == "wrong" and most > HALF:
        yield (
            f"{at}the wrong rule {each.name} earns {most:.0%} with seed {seed}, and may {HALF:.0%}; ask what tells it from "
            "the right one on every seed, or weigh that more"
        )
    if each.kind in ("reference", "right"):
        if of.visible:
            yield f"{at}the visible check refuses what is right, {each.kind} {each.name}: {of.visible}; mend the visible check"
        if least < 1:
            seed = each.asked.seeds[of.earned.index(least)]
            told = next((one.says for one in of.said if one.seed == seed and not one.passed), "")
            yield f"{at}{each.kind} {each.name} is right and earns {least:.0%} with seed {seed} ({told}); mend the check"
    for one in of.said:
        if one.kind not in ENDS:
            yield (
                f"{checks}, {one.test.name}: met {one.kind} on the {each.kind} {each.name} with seed {one.seed}; a check says "
                "a sentence, whatever it is given"
            )
    first = each.asked.seeds[0]  # on others it may be told of what it kept from the first
    told = [one.says for one in of.said if one.seed == first and not one.passed]
    if each.kind == "wrong" and told and not any(each.says in says for says in told):
        says = f"{each.name} is not told {each.says!r} with seed {first}, but {told[0]!r}"
        yield f"{at}{says}; mend the check or what it `says`"


def ticked(each: Tried, of: Found) -> bool:
    """Whether the visible check passes a listed wrong answer: what the notebook ticks, grading refuses."""
    return each.kind == "wrong" and not of.visible


def flakes(each: Tried, of: Found) -> Iterator[str]:
    """The tests that judge a listed answer now so, now so on the first few seeds, a line each."""
    said = [one for one in of.said if one.seed in each.asked.seeds[:FEW] and each.kind in ("wrong", "right")]
    for test in dict.fromkeys(one.test.name for one in said):
        passed = [one.passed for one in said if one.test.name == test]
        if any(passed) and not all(passed):
            times = f"passed {sum(passed)}, failed {len(passed) - sum(passed)}"
            yield f"{test} judges one answer ({each.kind} {each.name}) now so, now so: {times}"
