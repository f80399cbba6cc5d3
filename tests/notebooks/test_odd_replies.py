"""Every probe of every check is given odd replies, over the typed protocol: no check breaks by one, none passes by one."""

import os
from functools import cache

import judging
import odd_replies
import pytest

from autograder.model.course import find

TIMES = max(1, int(float(os.environ.get("ACROSS_FUZZ", "1"))))
FEWEST = 12  # odd replies to a test that asks at all


@cache
def tried(chapter: str) -> dict:
    return judging.answer_of(odd_replies.__file__, chapter, str(TIMES))


@pytest.mark.parametrize("chapter", find().chapters)
def test_no_check_breaks_by_what_it_is_answered(chapter):
    assert tried(chapter)["broke"] == []


@pytest.mark.parametrize("chapter", find().chapters)
def test_no_check_passes_by_an_odd_reply(chapter):
    assert tried(chapter)["passed"] == []


@pytest.mark.parametrize("chapter", find().chapters)
def test_every_test_of_the_chapter_was_tried(chapter):
    counts = tried(chapter)["tried"]
    assert {test: count for test, count in counts.items() if count < FEWEST} == {}


def test_what_looks_at_nothing_first_is_seen(tmp_path, monkeypatch):
    def trusting(student):
        (got,) = student.call_once("double", 3)
        assert f"{got:g}" == "6", "expected 6"

    from autograder.probe import asking

    played = odd_replies.Played(trusting, asking.in_process({"double": lambda x: [2 * x]}))
    assert played.message(0, [[6]]) == ""
    assert played.message(0, [["6"]]).startswith("AUTHOR ValueError")
    assert played.message(0, None).startswith("Your notebook answered with None")
    assert played.message(0, [None]).startswith("AUTHOR TypeError")
