"""What the crosswalk says became of a name is what the installed TensorFlow says, and its page is made from it."""

from __future__ import annotations

import pytest

from autograder.authoring import crosswalk
from autograder.model.course import CourseError, find

COURSE = find()
NAMES = crosswalk.names(COURSE)


@pytest.mark.parametrize("each", NAMES, ids=[each.name for each in NAMES])
def test_what_became_of_a_name_is_so(each):
    import tensorflow as tf

    assert crosswalk.became(each.name, tf) == each.became


@pytest.mark.parametrize("each", [each for each in NAMES if each.now], ids=lambda each: each.name)
def test_the_name_of_today_exists(each):
    import tensorflow as tf

    assert each.now.startswith("tf.")
    assert crosswalk.there_is(each.now.removeprefix("tf."), tf)


def test_a_name_that_is_not_the_same_says_what_to_write_instead():
    assert [each.name for each in NAMES if each.became != "same" and not (each.now or each.note)] == []


def test_the_crosswalk_is_fresh():
    written = (COURSE.root / "docs" / "crosswalk.md").read_text(encoding="utf-8")
    page = crosswalk.page(COURSE)
    assert written == page, "docs/crosswalk.md is stale: run `python -m autograder.authoring.crosswalk`"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("tf.compat.v1.train.Server(spec)", {"train.Server"}),
        ("server.join()", {"server.join", ".join"}),
        ("v1.Session(config=config)", {"Session", ".config"}),
        ("# tf.Session is gone", set()),
        ("'tf.Session'", set()),
        ("%matplotlib inline", set()),
    ],
)
def test_names_are_read_from_code_only(source, names):
    used = set(crosswalk._used(source))
    assert names <= used
    assert bool(used) == bool(names)


def test_a_part_of_a_name_is_no_use_of_it():
    ran = {
        "train.Server.create_local_server": [crosswalk.Place("07_a", "b")],
        "nn.relu6": [crosswalk.Place("07_a", "c")],
    }
    assert crosswalk.where(crosswalk.Name("train.Server", "v1"), ran)
    assert not crosswalk.where(crosswalk.Name("nn.relu", "same"), ran)


def test_a_row_that_says_something_else_is_refused(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "crosswalk.toml").write_text('["tf.Session"]\nbecame = "lost"\n')

    class Elsewhere:
        root = tmp_path

    with pytest.raises(CourseError, match="became 'lost'"):
        crosswalk.names(Elsewhere())  # pyright: ignore[reportArgumentType]
