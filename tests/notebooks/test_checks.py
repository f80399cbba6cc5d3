"""Each chapter's checks judge as they promise: the reference, every listed variant, the blank notebook, odd values.

What `autograder verify` shows through the whole grading path, here in seconds, for every chapter there is. Of a chapter whose
checks docs/checks.md vouches for as they are, one listed answer of each kind stands for those of its exercise; all: -m slow.
"""

from functools import cache

import judging
import pytest

from autograder.authoring import checks_page, verify
from autograder.model.course import find
from autograder.probe import listed

COURSE = find()
CHAPTERS = COURSE.chapters
EXERCISES = [(name, each.name) for name in CHAPTERS for each in COURSE.chapter(name).exercises if not each.manual]
VARIANTS = [(name, variant) for name in CHAPTERS for variant in listed.variants(COURSE.listed_file(name))]
VERIFIED = {name for name, digest in checks_page.digests(COURSE).items() if digest == verify.digest(COURSE, name)}
FIRSTS = [each for name in CHAPTERS for each in judging.firsts(listed.variants(COURSE.listed_file(name)))]


once = cache(judging.judged)


def judged(chapter, whole=False):
    return once(chapter, whole or chapter not in VERIFIED)


def said_of(chapter, variant):
    """What was said of a listed answer, by test, once for each seed; and what it was taken for."""
    found = judged(chapter, variant not in FIRSTS)
    for seed in judging.VARIANT_SEEDS:
        key = f"{variant.answer}/{variant.name}/{seed}"
        yield found[key][variant.exercise], found["taken"][key]


def those(correct):
    return [
        pytest.param(*each, marks=[pytest.mark.slow] if each[0] in VERIFIED and each[1] not in FIRSTS else [])
        for each in VARIANTS
        if each[1].correct is correct
    ]


def called(each: object) -> str | None:
    return f"{each.answer}-{each.name}" if isinstance(each, listed.Variant) else None


@pytest.mark.parametrize(("chapter", "exercise"), EXERCISES)
def test_the_reference_passes_on_every_seed(chapter, exercise):
    assert judged(chapter)["reference"][exercise] == []


@pytest.mark.parametrize(("chapter", "exercise"), EXERCISES)
def test_every_test_of_a_blank_answer_fails(chapter, exercise):
    found = judged(chapter)
    assert len(found["blank"][exercise]) == len(found["tests"][exercise]) > 0


@pytest.mark.parametrize(("chapter", "variant"), those(correct=False), ids=called)
def test_a_listed_misconception_fails_with_its_sentence(chapter, variant):
    for said, _ in said_of(chapter, variant):
        assert variant.says in next(iter(said), "")


@pytest.mark.parametrize(("chapter", "variant"), those(correct=False), ids=called)
def test_a_listed_misconception_is_not_taken_for_another(chapter, variant):
    of_the_exercise = [each for name, each in VARIANTS if (name, each.exercise) == (chapter, variant.exercise)]
    told = {each.name: each.says for each in of_the_exercise if not each.correct}
    for _, (taken,) in said_of(chapter, variant):
        assert variant.says in told[taken]  # by another's name only where both are told the same


@pytest.mark.parametrize(("chapter", "variant"), those(correct=True), ids=called)
def test_a_right_answer_in_another_way_passes(chapter, variant):
    for said, _ in said_of(chapter, variant):
        assert said == []


@pytest.mark.parametrize(("chapter", "exercise"), EXERCISES)
def test_every_exercise_lists_two_misconceptions_and_another_right_way(chapter, exercise):
    listed = [variant.correct for name, variant in VARIANTS if (name, variant.exercise) == (chapter, exercise)]
    assert listed.count(False) >= 2
    assert listed.count(True) >= 1


@pytest.mark.parametrize("odd", judging.ODD)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_an_odd_value_gets_a_sentence_and_nothing_else(chapter, odd):
    said = [each for messages in judged(chapter)[f"odd/{odd}"].values() for each in messages]
    assert [each for each in said if each.startswith("AUTHOR") or "assert" in each] == []
