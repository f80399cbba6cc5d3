"""The verdict: only an explicit pass scores, and every other end is named with whose fault it was."""

from dataclasses import replace

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


def test_a_planned_test_without_an_outcome_has_failed():
    planned = [PlannedTest("f", "test_1.0_passes"), PlannedTest("f", "test_b"), PlannedTest("f", "test_c", 2.0)]
    mark = marks(Seen([passed("f")]), planned=planned)["f"]
    assert (mark.points, mark.result, mark.fault) == (1.0, Result.PARTIAL, Fault.STUDENT)


def test_an_outcome_that_was_not_planned_earns_nothing():
    mark = marks(Seen([passed("f", 9.0)]), planned=[PlannedTest("f", "test_it")])["f"]
    assert (mark.points, mark.result) == (0.0, Result.CRASHED)


def test_an_exercise_without_a_planned_test_earns_nothing():
    assert marks(Seen([passed("f")]), planned=[PlannedTest("g", "test_it")])["f"].points == 0.0


def test_a_test_that_failed_when_it_was_taken_down_has_failed():
    both = [passed("f"), Outcome("f", "test_1.0_passes", False, 1.0, "ValueError: x")]
    for outcomes in (both, both[::-1]):
        assert marks(Seen(outcomes), planned=[PlannedTest("f", "test_1.0_passes")])["f"].points == 0.0


def test_all_but_a_test_that_weighs_nothing_is_not_passed():
    planned = [PlannedTest("f", "test_1.0_passes"), PlannedTest("f", "test_b", 0.0)]
    mark = marks(Seen([passed("f")]), planned=planned)["f"]
    assert mark.result is Result.PARTIAL
    assert mark.points < 4.0


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


def test_all_tests_passed_is_full_marks():
    mark = marks(Seen([passed("f"), passed("f", 3)]))["f"]
    assert (mark.points, mark.result, mark.fault) == (4.0, Result.PASSED, Fault.NONE)


def test_some_tests_passed_is_their_share_by_weight():
    mark = marks(Seen([passed("f", 3), failed("f", 1)]))["f"]
    assert (mark.points, mark.result, mark.message) == (3.0, Result.PARTIAL, "Seen this, expected that.")
    assert mark.misconception == "sum_for_mean"


def test_a_check_that_broke_gives_nothing_and_is_the_authors_fault():
    mark = marks(Seen([passed("f"), failed("f", kind="TypeError: no len()")]))["f"]
    assert (mark.points, mark.result, mark.fault) == (2.0, Result.PARTIAL, Fault.AUTHOR)
    mark = marks(Seen([failed("f", kind="Skipped: not today")]))["f"]
    assert (mark.points, mark.result, mark.fault) == (0.0, Result.FAILED, Fault.AUTHOR)


def test_what_a_check_says_comes_before_a_check_that_broke():
    mark = marks(Seen([failed("f", kind="TypeError: no len()", says="?"), failed("f")]))["f"]
    assert (mark.fault, mark.message) == (Fault.STUDENT, "Seen this, expected that.")


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


def test_no_outcome_is_no_point():
    mark = marks(Seen())["f"]
    assert (mark.points, mark.result) == (0.0, Result.CRASHED)


def test_every_exercise_gets_a_mark_whatever_happened():
    assert list(marks(Seen())) == ["f", "g", "why"]
    assert list(marks(Seen(), refused="not a notebook")) == ["f", "g", "why"]


def test_an_unreadable_file_is_invalid_everywhere():
    got = marks(Seen([passed("f")]), refused="x.ipynb: is not JSON")
    assert {mark.result for mark in got.values()} == {Result.INVALID}
    assert sum(mark.points for mark in got.values()) == 0


def test_a_cell_that_cannot_be_taken_costs_only_its_exercise():
    got = marks(Seen([passed("f"), passed("g")]), invalid={"f": "two cells"})
    assert (got["f"].result, got["f"].points, got["g"].points) == (Result.INVALID, 0.0, 2.0)


def test_an_untouched_stub_is_blank_even_if_a_check_passed():
    mark = marks(Seen([passed("f")]), blank=["f"])["f"]
    assert (mark.result, mark.points) == (Result.BLANK, 0.0)


def test_prose_waits_for_a_person():
    mark = marks(Seen())["why"]
    assert (mark.result, mark.fault, mark.points) == (Result.MANUAL, Fault.NONE, 0.0)


@pytest.mark.parametrize("stop", list(Stop))
def test_a_cell_that_was_stopped_is_named(stop):
    mark = marks(Seen([passed("g")], stops={"f": stop}))["f"]
    assert mark.result == stop.value
    assert mark.fault == (Fault.STUDENT if stop is Stop.CRASHED else Fault.LIMIT)
    assert "`f`" in mark.message


def test_an_exercise_at_which_the_kernel_was_lost_earns_nothing_for_its_first_half():
    mark = marks(Seen([passed("f")], lost={"f": Stop.TIMEOUT}))["f"]
    assert (mark.points, mark.result, mark.fault) == (0.0, Result.TIMEOUT, Fault.LIMIT)


def test_a_cell_that_raised_is_a_crash_if_its_work_is_missing():
    mark = marks(Seen([failed("f", kind="refused", says="`f` is not defined")], errors={"f": "SyntaxError: x"}))["f"]
    assert (mark.result, mark.message) == (Result.CRASHED, "The cell `f` raised SyntaxError: x")


def test_a_cell_that_raised_after_its_work_was_done_keeps_its_marks():
    assert marks(Seen([passed("f")], errors={"f": "ValueError: x"}))["f"].points == 4.0


def test_time_that_was_up_is_a_limit():
    mark = marks(Seen(out_of_time=True))["g"]
    assert (mark.result, mark.fault) == (Result.TIMEOUT, Fault.LIMIT)


def test_an_answer_that_is_too_big_is_told_the_cap():
    mark = marks(Seen(lost={"f": Stop.OUTPUT}))["f"]
    assert (mark.result, mark.fault, mark.points) == (Result.OUTPUT, Fault.LIMIT, 0.0)
    assert "more than the 16 MiB that one answer may have" in mark.message
