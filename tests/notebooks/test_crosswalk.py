"""What the crosswalk says became of a name is what the installed TensorFlow says, and its page is made from it."""

from __future__ import annotations

import re

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


def test_every_link_leads_to_a_cell_that_has_the_name_or_the_one_of_today():
    ran = crosswalk.run(COURSE)
    found = {(place.chapter, place.cell): set[str]() for places in ran.values() for place in places}
    for name, places in ran.items():
        for place in places:
            found[place.chapter, place.cell].add(name)
    links = re.findall(r"^\| `tf\.([\w.]+)` .*?\| ([^|]*) \|$", crosswalk.page(COURSE), re.MULTILINE)
    assert len(links) == len(NAMES)
    listed = {each.name: each for each in NAMES}
    for name, places in links:
        each = listed[name]
        names = {each.code, each.name, f".{name.rpartition('.')[2]}", each.now.removeprefix("tf.")} - {""}
        for chapter, cell in re.findall(r"\(\.\./notebooks/(\w+)\.ipynb#cell-id=([\w-]+)\)", places):
            released = COURSE.chapter(chapter).release["cells"]
            assert [one["cell_type"] for one in released if one["id"] == cell] == ["code"]
            used = found[chapter, cell]
            assert any(one == name or one.startswith(f"{name}.") for one in used for name in names), (name, cell)


def test_a_name_that_still_runs_and_is_run_by_a_cell_has_a_link():
    ran = crosswalk.run(COURSE)
    rows = crosswalk.page(COURSE).splitlines()
    for each in NAMES:
        if each.became != "gone" and crosswalk.where(each, ran):
            assert "](../notebooks/" in next(row for row in rows if row.startswith(f"| `tf.{each.name}` |"))


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
