"""What `verify` has graded in the sandbox: each answer as a submission like a student's, with the seed of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from autograder.authoring import mutants
from autograder.authoring.mutants import Mutant
from autograder.model.course import Chapter, Exercise
from autograder.probe import listed
from autograder.probe.listed import Variant

LISTED = 2  # the seed of listed answers: without a box they are told their sentences with the first

Answers = dict[str, str]  # grade id -> source


@dataclass(frozen=True, eq=False)
class Trial:
    """One answer to a chapter, graded with one seed."""

    kind: str  # "reference", "blank", "wrong", "right", "mutant"
    name: str
    seed: int
    answers: Answers = field(repr=False)
    of: Variant | Mutant | None = None


def looked_at_with(chapter: Chapter, reference: Answers, answer: str, source: str) -> Answers:
    """`source` as `answer`, and the reference in each cell that an exercise which looks at `answer` looks at as well.

    Every other cell stays blank: its exercises ask nothing, and so a trial costs what its own exercise costs.
    """
    needed = {each for exercise in chapter.exercises if answer in exercise.answer_ids for each in exercise.answer_ids}
    return {each: text for each, text in reference.items() if each in needed} | {answer: source}


def known(
    exercises: Sequence[Exercise], file: Path, reference: Answers, seeds: int, filled: Callable[[str, str], Answers]
) -> Iterator[Trial]:
    """The reference with `seeds` seeds, a blank notebook, and the answers to `exercises` that `file` lists, once each.

    `reference` is the source of each cell, `filled(answer, source)` all answers of who gives this one.
    """
    names = {exercise.name for exercise in exercises}
    for seed in range(1, seeds + 1):
        yield Trial("reference", "", seed, reference)
    yield Trial("blank", "", 1, {})
    for variant in listed.variants(file):
        if variant.exercise in names:
            answers = filled(variant.answer, variant.written_over(reference[variant.answer]))
            kind = "right" if variant.correct else "wrong"
            yield Trial(kind, f"{variant.answer}: {variant.name}", LISTED, answers, variant)


def trials_of(
    chapter: Chapter, exercises: Sequence[Exercise], file: Path, reference: Answers, seeds: int
) -> Iterator[Trial]:
    """What is `known` of `exercises`, and a mutant of each answer that is checked, one fault at a time."""
    filled = partial(looked_at_with, chapter, reference)
    yield from known(exercises, file, reference, seeds, filled)
    checked = {answer for exercise in exercises if not exercise.manual for answer in exercise.answer_ids}
    for answer, source in reference.items():
        if answer in checked:
            for number, mutant in enumerate(mutants.mutants(answer, source)):
                yield Trial("mutant", f"{answer} {number}", 1, filled(answer, mutant.source), mutant)
