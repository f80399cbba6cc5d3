"""A chapter is an hour: words, lines and the students' hands on TensorFlow."""

import pytest

import house
from autograder.model.course import find

COURSE = find()


def test_a_chapter_outside_the_house_figures_says_why_in_its_source_and_no_other_does():
    outside = {name: house.figures(COURSE, name).outside().keys() for name in COURSE.chapters}
    assert {name: house.reasons(COURSE, name).keys() for name in COURSE.chapters} == outside


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("def f(x):\n    return tf.add(x, np.ones(1))", {"=", "tf", "np"}),
        ("def f(x):\n    return x + 1", {"="}),
        ("guess = {'a': None}", set()),
        ("def f(x):\n    return x.backing_device", {"=", "x", "tf"}),
        ("options = tf.config.LogicalDeviceConfiguration(1)", {"=", "tf"}),
    ],
)
def test_what_an_answer_calls_is_read_from_its_source(source, calls):
    assert house._calls(source) == calls
