"""The verdict: points for each exercise from what was seen of it, held against what was planned.

Only an explicit pass scores: a planned test that has no outcome has failed, however it came to have none. So whoever loses
the checker, delays it or confuses it can only lose points by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from autograder.model.course import Exercise
from autograder.model.rubric import PlannedTest, Rubric
from autograder.model.verdict import REFUSED, Fault, Mark, Outcome, Result, Stop
from autograder.submissions import unanswered
from autograder.submissions.intake import Submission

NOTHING_SEEN = "Nothing was seen of this exercise."
NOT_ATTEMPTED = "Not attempted: the cell is as it was released."
NOT_THERE = (
    "The cell `{}` is not in your notebook. Put your answer into that cell of the chapter's own notebook; hand that in."
)
NONE_IS_THERE = (
    "No answer cell of {} is in your notebook. Copy your answers into the chapter's own notebook, and hand that in."
)
STOPPED = {
    Stop.CRASHED: "ended its kernel",
    Stop.TIMEOUT: "did not end within the time limit",
    Stop.MEMORY: "used more memory than there is for it",
    Stop.OUTPUT: "wrote more output than a submission may",
    Stop.PROCESSES: "ended when it could have no more processes or threads",
}
TOO_BIG = "answered with more than the {} MiB that one answer may have"  # Stop.OUTPUT, when asked


@dataclass
class Seen:
    """What was seen of one submission while its notebook ran and its kernel was asked."""

    outcomes: list[Outcome] = field(default_factory=list)
    stops: dict[str, Stop] = field(default_factory=dict)  # answer id -> why the cell was taken out
    lost: dict[str, Stop] = field(default_factory=dict)  # exercise -> why the kernel was lost when asked about it
    errors: dict[str, str] = field(default_factory=dict)  # answer id -> the error that its cell raised
    slow: set[str] = field(default_factory=set)  # exercises whose check was given up
    out_of_time: bool = False  # the submission's time was up before everything was asked
    # exercise and test -> how it failed, in whichever life: who learns by the next question that a guess was wrong, and
    # ends the kernel, is asked the same again in another life
    failed: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def take(self, outcomes: Sequence[Outcome], but: str) -> None:
        """Take what one life gave; nothing of the exercise `but`, about which it was asked when it ended."""
        for each in outcomes:
            if not each.passed:
                self.failed.setdefault((each.exercise, each.test), each)
        found = [self.failed.get((each.exercise, each.test), each) for each in outcomes]
        again = {each.exercise for each in found}  # from their first test on, if not for the first time
        kept = [each for each in self.outcomes if each.exercise not in again]
        self.outcomes = kept + [each for each in found if each.exercise != but]


def judge(rubric: Rubric, submission: Submission, blank: set[str], seen: Seen) -> tuple[Mark, ...]:
    """Return one Mark for each exercise of the chapter, in its order, whatever the submission was."""
    return tuple(_mark(rubric, each, submission, each.name in blank, seen) for each in rubric.chapter.exercises)


def _mark(rubric: Rubric, exercise: Exercise, submission: Submission, blank: bool, seen: Seen) -> Mark:
    def mark(result: Result, fault: Fault, message: str, points: float = 0.0, name: str = "") -> Mark:
        return Mark(exercise.name, points, exercise.max_points, result, fault, message, name)

    if submission.refused:
        return mark(Result.INVALID, Fault.STUDENT, submission.refused)
    for answer in exercise.answer_ids:
        if answer in submission.invalid:
            return mark(Result.INVALID, Fault.STUDENT, submission.invalid[answer])
    planned = rubric.tests_of(exercise.name)
    if blank and (submission.nothing or not _passes_blank(planned, seen)):
        if gone := unanswered.own_cells(exercise) & set(submission.missing):
            none = len(submission.missing) == len(rubric.chapter.answers)
            says = NONE_IS_THERE.format(rubric.chapter.name) if none else NOT_THERE.format(min(gone))
            return mark(Result.MISSING, Fault.STUDENT, says)
        return mark(Result.BLANK, Fault.STUDENT, NOT_ATTEMPTED)
    if exercise.manual:
        return mark(Result.MANUAL, Fault.NONE, "Graded by hand.")
    outcomes = [outcome for outcome in seen.outcomes if outcome.exercise == exercise.name]
    lost = exercise.name in seen.lost  # a part of it earns nothing
    earned = 0.0 if lost else share(planned, outcomes)
    # what a check says of the answer comes before a check that broke: then the mark stands without that check
    failure = min((outcome for outcome in outcomes if not outcome.passed), key=lambda each: each.broke, default=None)
    if planned and earned == 1.0:
        return mark(Result.PASSED, Fault.NONE, "Passed.", exercise.max_points)
    points = awarded(exercise.max_points, earned, rubric.chapter.step)
    result, fault, message = _failure(rubric, exercise, failure, seen)
    name = failure.misconception if failure and result is Result.FAILED else ""  # else the message is another's
    return mark(Result.PARTIAL if points > 0 else result, fault, message, points, name)


def _passes_blank(planned: Iterable[PlannedTest], seen: Seen) -> bool:
    """Whether nbgrader's own test cells give points for what was left as released: its author has it so."""
    weak = {test.name for test in planned if test.in_box}
    return any(each.test in weak and (each.passed or each.share) for each in seen.outcomes)


def _failure(rubric: Rubric, exercise: Exercise, failure: Outcome | None, seen: Seen) -> tuple[Result, Fault, str]:
    for answer in exercise.answer_ids:
        if stop := seen.stops.get(answer):
            return _stopped(stop, f"The cell `{answer}` {STOPPED[stop]}.")
    if stop := seen.lost.get(exercise.name):
        did = TOO_BIG.format(rubric.chapter.limits.reply_bytes >> 20) if stop is Stop.OUTPUT else STOPPED[stop]
        return _stopped(stop, f"When it was asked about `{exercise.name}`, your code {did}.")
    for answer in exercise.answer_ids:
        if answer in seen.errors and (failure is None or failure.kind == REFUSED):
            return Result.CRASHED, Fault.STUDENT, f"The cell `{answer}` raised {seen.errors[answer]}"
    if failure is not None:
        return Result.FAILED, Fault.AUTHOR if failure.broke else Fault.STUDENT, failure.says or NOTHING_SEEN
    if seen.out_of_time:
        return _stopped(Stop.TIMEOUT, "The submission's time was up before all of this exercise was looked at.")
    return Result.CRASHED, Fault.STUDENT, "The kernel ended too often to look at all of this exercise."


def _stopped(stop: Stop, message: str) -> tuple[Result, Fault, str]:
    fault = Fault.STUDENT if stop is Stop.CRASHED else Fault.LIMIT
    return Result(stop.value), fault, message


def awarded(max_points: float, share: float, step: float) -> float:
    """The points of an exercise of which a `share` is earned: in whole steps, rounded down; all of them only for all of it.

    So no answer gets more than its share, and nobody whom a check refused gets full points. A `step` of 0 rounds nothing.
    """
    if share >= 1.0 or not step:
        return max_points * min(share, 1.0)
    steps = math.floor(max_points * share / step + 1e-6)  # three tenths of 1 are three steps of 0.1, not two
    while steps > 0 and round(steps * step, 9) >= max_points:
        steps -= 1
    return round(steps * step, 9)


def share(planned: Iterable[PlannedTest], outcomes: Iterable[Outcome]) -> float:
    """The share of an exercise's points that its tests earn: 0 to 1, and 1.0 only if every planned test has passed.

    A test that has several outcomes earns the least of them.
    """
    earned: dict[str, float] = {}
    failed: set[str] = set()
    for outcome in outcomes:
        earned[outcome.test] = min(1.0 if outcome.passed else outcome.share, earned.get(outcome.test, 1.0))
        failed |= set() if outcome.passed else {outcome.test}
    planned = tuple(planned)
    weights = [(test.weight, earned.get(test.name, 0.0)) for test in planned]
    if weights and all(test.name in earned and test.name not in failed for test in planned):
        return 1.0
    total = sum(weight for weight, _ in weights)
    # never all of it by rounding, nor by tests that weigh nothing
    return min(sum(weight * part for weight, part in weights) / total, 1.0 - 1e-9) if total else 0.0
