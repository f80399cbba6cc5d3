"""The golden book: marks, verdicts, faults and sentences are what they were, byte for byte."""

import pytest
from boxed import needs_a_box

import golden
from autograder.model.course import Course, checkout


@needs_a_box
@pytest.mark.whole
def test_the_fixture_courses_marks_are_what_they_were(fixture_course):
    for name, section in golden.graded(fixture_course, fixture_course.chapters):
        assert golden.differences(fixture_course, name, section) == []


@needs_a_box
@pytest.mark.slow
@pytest.mark.parametrize("name", Course.read(checkout()).chapters)
def test_the_courses_marks_are_what_they_were(name):
    course = Course.read(checkout())
    ((_, section),) = golden.graded(course, [name])
    assert golden.differences(course, name, section) == []


def test_a_sentence_that_changes_is_told_with_its_chapter(fixture_course):
    name = fixture_course.chapters[0]
    kept = golden.read(fixture_course)[name]
    told = golden.differences(fixture_course, name, kept.replace("Not attempted", "Never tried", 1))
    assert any(line.startswith("-") and "Not attempted" in line for line in told)
    assert any(line.startswith("+") and "Never tried" in line for line in told)
    assert golden.differences(fixture_course, name, kept) == []


@pytest.mark.parametrize("kind", ["reference", "blank", "wrong 1", "wrong 3", "right 2", "hostile"])
def test_each_chapter_is_tried_in_eight_ways(kind):
    course = Course.read(checkout())
    for name in course.chapters:
        assert f"\n{kind}\n" in f"\n{golden.read(course)[name]}", name
