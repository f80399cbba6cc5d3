"""A chapter is an hour: words, lines and the students' hands on TensorFlow."""

import pytest

import house
from autograder.model.course import find

COURSE = find()
READ = [  # words, lines and exercises of a chapter as it was, and the minutes that its reader said a student needs
    ("01", 1477, 88, 7, 70),
    ("03", 1486, 162, 9, 90),
    ("04", 1473, 117, 7, 60),
    ("04", 1438, 107, 7, 77),
    ("04", 1543, 106, 7, 100),
    ("05", 1482, 183, 8, 72),
    ("06", 1532, 146, 6, 75),
    ("06", 1550, 148, 6, 95),
    ("07", 1441, 82, 8, 78),
    ("07", 1541, 105, 8, 95),
    ("08", 1342, 119, 7, 80),
    ("09", 1446, 192, 7, 85),
    ("09", 1550, 208, 7, 105),
    ("10", 1531, 259, 9, 90),
    ("10", 1545, 291, 10, 150),
    ("10", 1544, 292, 10, 200),
    ("11", 1544, 188, 8, 110),
    ("11", 1545, 202, 8, 135),
    ("12", 1537, 211, 8, 130),
    ("12", 1544, 243, 8, 175),
    ("13", 1546, 269, 11, 165),
    ("14", 1508, 313, 8, 150),
]


def test_a_chapter_outside_the_house_figures_says_why_in_its_source_and_no_other_does():
    outside = {name: house.figures(COURSE, name).outside().keys() for name in COURSE.chapters}
    assert {name: house.reasons(COURSE, name).keys() for name in COURSE.chapters} == outside


def test_the_rule_for_minutes_fits_what_readers_said():
    shares = [house.minutes(*read[1:4]) / read[4] for read in READ]
    assert 0.9 < sum(shares) / len(shares) < 1.1
    assert max(abs(share - 1) for share in shares) < 0.41


@pytest.mark.parametrize("chapter", COURSE.chapters)
def test_the_promised_minutes_are_within_a_fifth_of_the_rule_or_of_what_the_last_reader_said(chapter):
    found = house.figures(COURSE, chapter)
    last = [read[4] for read in READ if read[0] == chapter[:2]][-1:]
    assert any(0.8 * needs <= found.promised <= 1.2 * needs for needs in (found.minutes(), *last)), found


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
