"""The verdict: points for each exercise from what was seen of it. Only an explicit pass scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autograder.model.course import Chapter, Exercise
from autograder.model.verdict import Fault, Mark, Outcome, Result, Stop
from autograder.submissions.intake import Submission

NOTHING_SEEN = "Nothing was seen of this exercise."
STOPPED = {
    Stop.CRASHED: "ended its kernel",
    Stop.TIMEOUT: "did not end within the time limit",
    Stop.MEMORY: "used more memory than there is for it",
    Stop.OUTPUT: "wrote more output than a submission may",
}
TOO_BIG = "answered with more than the {} MiB that one answer may have"  # Stop.OUTPUT, when asked


@dataclass
class Seen:
    """What was seen of one submission while its notebook ran and its kernel was asked."""

    outcomes: list[Outcome] = field(default_factory=list)
    stops: dict[str, Stop] = field(default_factory=dict)  # answer id -> why the cell was taken out
    lost: dict[str, Stop] = field(default_factory=dict)  # exercise -> why the kernel was lost when asked about it
    errors: dict[str, str] = field(default_factory=dict)  # answer id -> the error that its cell raised
    out_of_time: bool = False  # the submission's time was up before everything was asked


def judge(chapter: Chapter, submission: Submission, blank: set[str], seen: Seen) -> tuple[Mark, ...]:
    """Return one Mark for each exercise of the chapter, in its order, whatever the submission was."""
    did = {**STOPPED, Stop.OUTPUT: TOO_BIG.format(chapter.limits.reply_bytes >> 20)}
    return tuple(_mark(exercise, submission, exercise.name in blank, seen, did) for exercise in chapter.exercises)


def _mark(exercise: Exercise, submission: Submission, blank: bool, seen: Seen, did: dict[Stop, str]) -> Mark:
    def mark(result: Result, fault: Fault, message: str, points: float = 0.0, misconception: str = "") -> Mark:
        return Mark(exercise.name, points, exercise.max_points, result, fault, message, misconception)

    if submission.refused:
        return mark(Result.INVALID, Fault.STUDENT, submission.refused)
    for answer in exercise.answer_ids:
        if answer in submission.invalid:
            return mark(Result.INVALID, Fault.STUDENT, submission.invalid[answer])
    if blank:
        return mark(Result.BLANK, Fault.STUDENT, "Not attempted: the cell is as it was released.")
    if exercise.manual:
        return mark(Result.MANUAL, Fault.NONE, "Graded by hand.")
    outcomes = [outcome for outcome in seen.outcomes if outcome.exercise == exercise.name]
    lost = exercise.name in seen.lost  # then not all of its tests were run: a part of it earns nothing
    points = 0.0 if lost else exercise.max_points * share(outcomes)
    # what a check says of the answer comes before a check that broke: then the mark stands without that check
    failure = min((outcome for outcome in outcomes if not outcome.passed), key=lambda each: each.broke, default=None)
    if outcomes and failure is None and not lost:
        return mark(Result.PASSED, Fault.NONE, "Passed.", exercise.max_points)
    result, fault, message = _failure(exercise, failure, seen, did)
    if points > 0:
        result = Result.PARTIAL
    return mark(result, fault, message, points, failure.misconception if failure else "")


def _failure(
    exercise: Exercise, failure: Outcome | None, seen: Seen, did: dict[Stop, str]
) -> tuple[Result, Fault, str]:
    for answer in exercise.answer_ids:
        if stop := seen.stops.get(answer):
            return _stopped(stop, f"The cell `{answer}` {STOPPED[stop]}.")
    if stop := seen.lost.get(exercise.name):
        return _stopped(stop, f"When it was asked about `{exercise.name}`, your code {did[stop]}.")
    for answer in exercise.answer_ids:
        if answer in seen.errors and (failure is None or failure.kind == "refused"):
            return Result.CRASHED, Fault.STUDENT, f"The cell `{answer}` raised {seen.errors[answer]}"
    if failure is not None:
        return Result.FAILED, Fault.AUTHOR if failure.broke else Fault.STUDENT, failure.says or NOTHING_SEEN
    if seen.out_of_time:
        return _stopped(Stop.TIMEOUT, "The submission's time was up before this exercise was looked at.")
    return Result.CRASHED, Fault.STUDENT, "The kernel ended too often to look at this exercise."


def _stopped(stop: Stop, message: str) -> tuple[Result, Fault, str]:
    fault = Fault.STUDENT if stop is Stop.CRASHED else Fault.LIMIT
    return Result(stop.value), fault, message


def share(outcomes: Sequence[Outcome]) -> float:
    """The share of an exercise's points that its passed tests earn: 0 to 1."""
    total = sum(outcome.weight for outcome in outcomes)
    return sum(outcome.weight for outcome in outcomes if outcome.passed) / total if total else 0.0
