"""Each chapter's checks judge as they promise: reference, first listed answers, a blank notebook, odd values and replies.

What all listed answers and mutants are told, `autograder verify` shows, for sources as they are. Here is seen, too, what
changed beneath the checks: one process for each chapter, without a box; nightly for those whose kind another one shows.
"""

import os
from functools import cache

import judging
import odd_replies
import pytest
from kinds import chapters

from autograder.model.course import find
from autograder.probe import asking, listed

COURSE = find()
TIMES = max(1, int(float(os.environ.get("ACROSS_FUZZ", "1"))))
FEWEST = 12  # odd replies to a test that asks at all


@cache
def judged(chapter):
    return judging.judged(chapter, TIMES)


@chapters
def test_the_reference_passes(chapter):
    assert {name: said for name, said in judged(chapter)["reference"].items() if said} == {}


@chapters
def test_every_test_of_a_blank_answer_fails(chapter):
    found = judged(chapter)
    assert {name: len(said) for name, said in found["blank"].items()} == {
        name: len(tests) for name, tests in found["tests"].items()
    }


@chapters
def test_the_first_misconception_of_each_exercise_fails_with_its_sentence(chapter):
    told = {
        (variant.answer, variant.name): judged(chapter)["listed"][f"{variant.answer}/{variant.name}"]
        for variant in judging.firsts(listed.variants(COURSE.listed_file(chapter)))
        if not variant.correct
    }
    says = {(each.answer, each.name): each.says for each in listed.variants(COURSE.listed_file(chapter))}
    assert {name: said for name, said in told.items() if says[name] not in next(iter(said), "")} == {}


@chapters
def test_the_first_right_answer_in_another_way_passes(chapter):
    right = [
        f"{each.answer}/{each.name}"
        for each in judging.firsts(listed.variants(COURSE.listed_file(chapter)))
        if each.correct
    ]
    assert {name: said for name in right if (said := judged(chapter)["listed"][name])} == {}


@pytest.mark.parametrize("chapter", COURSE.chapters)
def test_every_exercise_lists_two_misconceptions_and_another_right_way(chapter):
    known = listed.variants(COURSE.listed_file(chapter))
    for exercise in COURSE.chapter(chapter).exercises:
        correct = [each.correct for each in known if each.exercise == exercise.name]
        assert exercise.manual or (correct.count(False) >= 2 and correct.count(True) >= 1), exercise.name


@chapters
def test_an_odd_value_gets_a_sentence_and_nothing_else(chapter):
    said = [(odd, each) for odd in judging.ODD for of in judged(chapter)[f"odd/{odd}"].values() for each in of]
    assert [each for each in said if each[1].startswith("AUTHOR") or "assert" in each[1]] == []


@chapters
def test_no_check_breaks_or_passes_by_an_odd_reply(chapter):
    replies = judged(chapter)["replies"]
    assert (replies["broke"], replies["passed"]) == ([], [])
    assert {test: count for test, count in replies["tried"].items() if count < FEWEST} == {}


def test_what_looks_at_nothing_first_is_seen():
    def trusting(student):
        (got,) = student.call_once("double", 3)
        assert f"{got:g}" == "6", "expected 6"

    played = odd_replies.Played(trusting, asking.in_process({"double": lambda x: [2 * x]}))
    assert played.message(0, [[6]]) == ""
    assert played.message(0, [["6"]]).startswith("AUTHOR ValueError")
    assert played.message(0, None).startswith("Your notebook answered with None")
    assert played.message(0, [None]).startswith("AUTHOR TypeError")
