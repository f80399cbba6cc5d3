"""The verdict: only an explicit pass scores, and every other end is named with whose fault it was."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.authoring.worth import HALF
from autograder.job.judge import Seen, awarded, judge
from autograder.model.course import Chapter, Exercise, Limits
from autograder.model.rubric import PlannedTest, Rubric
from autograder.model.verdict import Fault, Outcome, Result, Stop
from autograder.submissions.intake import Submission

CHAPTER = Chapter(
    "90_small",
    "Small",
    {"cells": []},
    (
        Exercise("f", "check_f", ("f",), 4.0),
        Exercise("g", "check_g", ("g",), 2.0),
        Exercise("why", "why", ("why",), 1.0, True),
    ),
    Limits(),
)


def marks(seen, blank=(), planned=None, **submission):
    """The marks; what is planned is what was seen, with one test of g, unless it is said."""
    planned = planned or [
        *[PlannedTest(each.exercise, each.test, each.weight) for each in seen.outcomes],
        *[PlannedTest(name, "test_it") for name in "fg" if name not in {each.exercise for each in seen.outcomes}],
    ]
    rubric = Rubric(CHAPTER, tuple(planned), "checks", "grader", "here")
    handed_in = Submission("ada", "90_small", **submission)
    return {mark.exercise: mark for mark in judge(rubric, handed_in, set(blank), seen)}


def passed(exercise, weight=1.0):
    return Outcome(exercise, f"test_{weight}_passes", True, weight)


def failed(exercise, weight=1.0, kind="assert", says="Seen this, expected that."):
    return Outcome(exercise, f"test_{weight}_fails", False, weight, kind, says, "sum_for_mean")


ONE = [PlannedTest("f", "test_1.0_passes")]
TAKEN_DOWN = [passed("f"), Outcome("f", "test_1.0_passes", False, 1.0, "ValueError: x")]
UNDEFINED = failed("f", kind="refused", says="`f` is not defined")
TOO_BIG = "When it was asked about `f`, your code answered with more than the 16 MiB that one answer may have."


def seen(*outcomes: Outcome, of: str = "f", told: tuple[Any, ...], known: Any = None, **more: Any):
    """A case: what was seen, and what is told of the mark of exercise `of`; else `known` of the submission or the plan."""
    return Seen([*outcomes], **more), known or {}, of, told


CASES = {
    "all passed": seen(passed("f"), passed("f", 3), told=(4.0, Result.PASSED, Fault.NONE)),
    "some passed": seen(
        passed("f", 3),
        failed("f", 1),
        told=(3.0, Result.PARTIAL, Fault.STUDENT, "Seen this, expected that.", "sum_for_mean"),
    ),
    "nothing": seen(told=(0.0, Result.CRASHED)),
    "not all that was planned": seen(
        passed("f"),
        known={"planned": [*ONE, PlannedTest("f", "test_b"), PlannedTest("f", "test_c", 2.0)]},
        told=(1.0, Result.PARTIAL, Fault.STUDENT),
    ),
    "not planned": seen(passed("f", 9.0), known={"planned": [PlannedTest("f", "test_it")]}, told=(0.0, Result.CRASHED)),
    "none is planned": seen(passed("f"), known={"planned": [PlannedTest("g", "test_it")]}, told=(0.0,)),
    "failed when taken down": seen(*TAKEN_DOWN, known={"planned": ONE}, told=(0.0,)),
    "failed, then passed": seen(*TAKEN_DOWN[::-1], known={"planned": ONE}, told=(0.0,)),
    "all but what weighs nothing": seen(
        passed("f"), known={"planned": [*ONE, PlannedTest("f", "test_b", 0.0)]}, told=(3.75, Result.PARTIAL)
    ),
    "a check broke": seen(failed("f", kind="Skipped: not today"), told=(0.0, Result.FAILED, Fault.AUTHOR)),
    "a check broke, others did not": seen(
        passed("f"), failed("f", kind="TypeError: no len()"), told=(2.0, Result.PARTIAL, Fault.AUTHOR)
    ),
    "a check broke, another says what is wrong": seen(
        failed("f", kind="TypeError: no len()", says="?"),
        failed("f"),
        told=(0.0, Result.FAILED, Fault.STUDENT, "Seen this, expected that."),
    ),
    "its cell cannot be taken": seen(passed("f"), known={"invalid": {"f": "two"}}, told=(0.0, Result.INVALID)),
    "another's cell cannot be taken": seen(passed("g"), known={"invalid": {"f": "two"}}, of="g", told=(2.0,)),
    "an untouched stub that passes": seen(passed("f"), known={"blank": ["f"]}, told=(0.0, Result.BLANK)),
    "prose": seen(of="why", told=(0.0, Result.MANUAL, Fault.NONE)),
    "its kernel was lost": seen(passed("f"), lost={"f": Stop.TIMEOUT}, told=(0.0, Result.TIMEOUT, Fault.LIMIT)),
    "its cell raised": seen(
        UNDEFINED,
        errors={"f": "SyntaxError: x"},
        told=(0.0, Result.CRASHED, Fault.STUDENT, "The cell `f` raised SyntaxError: x"),
    ),
    "its cell raised when its work was done": seen(passed("f"), errors={"f": "ValueError: x"}, told=(4.0,)),
    "the time was up": seen(of="g", out_of_time=True, told=(0.0, Result.TIMEOUT, Fault.LIMIT)),
    "too big an answer": seen(lost={"f": Stop.OUTPUT}, told=(0.0, Result.OUTPUT, Fault.LIMIT, TOO_BIG)),
}


@pytest.mark.parametrize("case", CASES)
def test_only_an_explicit_pass_scores_and_every_other_end_is_named(case):
    found, known, exercise, told = CASES[case]
    mark = marks(found, **known)[exercise]
    assert (mark.points, mark.result, mark.fault, mark.message, mark.misconception)[: len(told)] == told


PLANNED = st.lists(st.tuples(st.sampled_from("fg"), st.floats(0.0, 5.0)), min_size=1, max_size=8).map(
    lambda found: [PlannedTest(exercise, f"test_{n}", weight) for n, (exercise, weight) in enumerate(found)]
)


@given(
    planned=PLANNED,
    results=st.lists(st.booleans(), min_size=8, max_size=8),
    kept=st.integers(0, 8),
    lost=st.sampled_from([None, *Stop]),
    late=st.booleans(),
)
def test_losing_the_checker_never_raises_a_mark(planned, results, kept, lost, late):
    """Whatever suffix of the outcomes is missing, and however it was lost, no exercise gets more."""
    outcomes = [
        Outcome(test.exercise, test.name, result, test.weight, "" if result else "assert", "No.")
        for test, result in zip(planned, results, strict=False)
    ]
    whole = marks(Seen(list(outcomes)), planned=planned)
    at = planned[min(kept, len(planned) - 1)].exercise
    seen = Seen(outcomes[:kept], lost={at: lost} if lost and kept < len(planned) else {}, out_of_time=late)
    for name, mark in marks(seen, planned=planned).items():
        assert mark.points <= whole[name].points
        assert mark.result is not Result.PASSED or whole[name].result is Result.PASSED


def test_an_answer_whose_cell_is_not_in_the_notebook_is_missing_and_not_blank():
    answers = {"g": "", "why": ""}
    mark = marks(Seen(), blank="fg", answers=answers, missing=("f",))
    assert (mark["f"].result, mark["f"].points, mark["g"].result) == (Result.MISSING, 0.0, Result.BLANK)
    assert mark["f"].message.startswith("The cell `f` is not in your notebook.")


def test_the_name_of_a_mistake_is_of_the_sentence_that_the_student_reads():
    said = failed("f"), replace(failed("f", says="And that."), misconception="another")
    assert marks(Seen([*said]))["f"].misconception == "sum_for_mean"
    for gone in ({"stops": {"f": Stop.TIMEOUT}}, {"lost": {"f": Stop.CRASHED}}):
        assert marks(Seen([*said], **gone))["f"].misconception == ""


SHARES = st.floats(0.0, 1.0)
POINTS = st.floats(0.01, 50.0)
STEPS = st.sampled_from([0.0, 0.001, 0.1, 0.25, 0.5, 1.0, 3.0])


@given(most=POINTS, share=SHARES, step=STEPS)
def test_a_part_is_whole_steps_and_never_more_than_its_share(most, share, step):
    points = awarded(most, share, step)
    assert 0.0 <= points <= most * share + 1e-6 * step
    assert (points == most) == (share == 1.0) or not step
    if step and share < 1.0:
        assert points / step == pytest.approx(round(points / step))
    if share <= HALF:  # what `verify` lets a wrong rule earn, holds for what is recorded, too
        assert points <= most * HALF + 1e-9


@given(most=POINTS, shares=st.tuples(SHARES, SHARES), step=STEPS)
def test_who_earns_more_gets_no_less(most, shares, step):
    assert awarded(most, min(shares), step) <= awarded(most, max(shares), step)


@pytest.mark.parametrize(("most", "step"), [(7.7, 0.7), (0.3, 0.1), (0.7, 0.1), (2.0, 0.25), (3.3, 1.1), (0.1, 0.25)])
def test_nobody_gets_full_points_by_a_float(most, step):
    """Eleven steps of 0.7 are a little less than 7.7 before they are rounded, and 7.7 afterwards."""
    assert awarded(most, 1.0 - 1e-9, step) == pytest.approx(max(0.0, most - step))


def test_a_part_is_a_mark_that_a_student_can_be_told():
    seven = [PlannedTest("f", f"test_{n}") for n in range(7)]
    passed = [Outcome("f", f"test_{n}", True) for n in range(6)]
    assert marks(Seen(passed), planned=seven)["f"].points == 3.25  # six sevenths of 4 are 3.43
    mark = marks(Seen([passed[0], failed("f", 99.0)]))["f"]
    assert (mark.points, mark.result) == (0.0, Result.FAILED)  # 0.04 of 4


def test_every_exercise_gets_a_mark_whatever_happened():
    assert list(marks(Seen())) == ["f", "g", "why"]
    assert list(marks(Seen(), refused="not a notebook")) == ["f", "g", "why"]


def test_an_unreadable_file_is_invalid_everywhere():
    got = marks(Seen([passed("f")]), refused="x.ipynb: is not JSON")
    assert {mark.result for mark in got.values()} == {Result.INVALID}
    assert sum(mark.points for mark in got.values()) == 0


@pytest.mark.parametrize("stop", list(Stop))
def test_a_cell_that_was_stopped_is_named(stop):
    mark = marks(Seen([passed("g")], stops={"f": stop}))["f"]
    assert mark.result == stop.value
    assert mark.fault == (Fault.STUDENT if stop is Stop.CRASHED else Fault.LIMIT)
    assert "`f`" in mark.message
