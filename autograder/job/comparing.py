"""What is asked of a kernel once more, with the inputs of the whole class: no mark rests on it, and no answer is shown.

It says which listed answer a wrong one behaves like: see `model.behaviour`. The checker that has asked about everything does it
last; a second one would be forked, boxed and make its devices for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from autograder.job.messages import Compare
from autograder.model.behaviour import Compared
from autograder.model.rubric import Rubric
from autograder.model.verdict import Outcome


def asked_again(compared: Compared, outcomes: Iterable[Outcome]) -> list[str]:
    """The exercises that are compared: where a check has found something wrong, and did not break."""
    if compared.seed is None:
        return []
    return compared.exercises({each.exercise for each in outcomes if not (each.passed or each.broke)})


def planned(compared: Compared, rubric: Rubric, failed: Iterable[str]) -> Compare | None:
    """What a checker does when its tests have ended, if anything.

    `failed`: the exercises that have in a job's earlier lives, without those that were given up: asked again, these would end
    the kernel again.
    """
    most = compared.exercises({test.exercise for test in rubric.tests})
    if compared.seed is None or not most:
        return None
    before = compared.exercises(set(failed))
    return Compare(seed=compared.seed, always=_numbers(rubric, before), failed=_numbers(rubric, most))


def _numbers(rubric: Rubric, exercises: Collection[str]) -> list[int]:
    return [number for number, test in enumerate(rubric.tests) if test.exercise in exercises]
