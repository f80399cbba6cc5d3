"""A chapter is an hour: words, lines and the students' hands on TensorFlow, printed for every chapter there is."""

import pytest
from rich.console import Console

import house
from autograder.model.course import find

COURSE = find()


@pytest.mark.parametrize("chapter", COURSE.chapters)
def test_a_chapter_outside_the_house_figures_says_why_in_its_source(chapter):
    outside = house.figures(COURSE, chapter).outside()
    assert outside.keys() <= house.reasons(COURSE, chapter).keys(), outside


def test_no_chapter_excuses_what_is_within_the_figures():
    for chapter in COURSE.chapters:
        assert house.reasons(COURSE, chapter).keys() == house.figures(COURSE, chapter).outside().keys(), chapter


def test_the_table_has_a_row_for_every_chapter(capsys):
    with capsys.disabled():
        Console(width=160).print(house.table(COURSE))
    assert house.table(COURSE).row_count == len(COURSE.chapters)


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
