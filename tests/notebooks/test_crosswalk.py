"""What the crosswalk says became of a name is what the installed TensorFlow says, and its page is made from it.

Its programs, for names that no cell has, are run in one fresh process.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys

import pytest

import crosswalk
from autograder.model.course import CourseError, find

COURSE = find()
NAMES = crosswalk.names(COURSE)
TRIED = [each for each in NAMES if each.tried]
RUNNER = """
import json, sys, traceback
import tensorflow as tf
said = {}
for name, program in json.load(sys.stdin).items():
    print(name, file=sys.stderr, flush=True)  # the last one, if it ends the process
    tf.compat.v1.reset_default_graph()
    try:
        exec(compile(program, name, "exec"), {"tf": tf, "v1": tf.compat.v1})
        said[name] = "ran"
    except BaseException:
        said[name] = traceback.format_exc()
json.dump(said, open("said.json", "w"))
"""


@functools.cache
def ran() -> dict[str, list[crosswalk.Place]]:
    return crosswalk.run(COURSE)


@functools.cache
def page() -> str:
    return crosswalk.page(COURSE)


def rows() -> dict[str, str]:
    """What the page says in its last column, by name."""
    return dict(re.findall(r"^\| `tf\.([\w.]+)` .*?\| ([^|]*) \|$", page(), re.MULTILINE))


def test_what_became_of_a_name_is_so():
    import tensorflow as tf

    assert {each.name: crosswalk.became(each.name, tf) for each in NAMES} == {each.name: each.became for each in NAMES}


def test_the_name_of_today_exists():
    import tensorflow as tf

    today = [each.now for each in NAMES if each.now]
    assert [
        now for now in today if not (now.startswith("tf.") and crosswalk.there_is(now.removeprefix("tf."), tf))
    ] == []


def test_a_name_that_is_not_the_same_says_what_to_write_instead():
    assert [each.name for each in NAMES if each.became != "same" and not (each.now or each.note)] == []


def test_every_link_leads_to_a_cell_that_has_the_name_or_the_one_of_today():
    found = {(place.chapter, place.cell): set[str]() for places in ran().values() for place in places}
    for name, places in ran().items():
        for place in places:
            found[place.chapter, place.cell].add(name)
    links = rows()
    assert len(links) == len(NAMES)
    for each in NAMES:
        now = each.now.removeprefix("tf.")
        both = {each.name, now} - {""}
        names = ({each.code} - {""}) | both | {f".{name.rpartition('.')[2]}" for name in both}
        for chapter, cell in re.findall(r"\(\.\./notebooks/(\w+)\.ipynb#cell-id=([\w-]+)\)", links[each.name]):
            released = COURSE.chapter(chapter).release["cells"]
            assert [one["cell_type"] for one in released if one["id"] == cell] == ["code"]
            used = found[chapter, cell]
            assert any(one == name or one.startswith(f"{name}.") for one in used for name in names), (each.name, cell)


def test_each_name_has_a_link_a_program_or_a_reason():
    said = re.compile(r"\]\(\.\./(notebooks|files)/|\]\(#run-by-no-chapter\)|^not here: \w")
    assert [name for name, places in rows().items() if not said.search(places)] == []


def test_a_program_or_a_reason_is_what_each_name_has_that_is_still_there_and_that_no_cell_has():
    bare = {each.name for each in NAMES if not crosswalk.where(each, ran())}
    has = {each.name for each in NAMES if each.tried or each.cannot}
    left = {each.name for each in NAMES if each.became != "gone"} & bare - has
    assert left == set(), "write `tried` or `cannot` into docs/crosswalk.toml"
    assert has - bare == set(), "a cell has these now: remove `tried` or `cannot` from docs/crosswalk.toml"


def test_a_name_of_a_file_beside_a_chapter_links_to_it_and_says_which_tensorflow_it_asks_for():
    said = rows()
    linked = {
        name: re.findall(r"\(\.\./(files/[\w/.]+)\)(?:, [\w ]+ TensorFlow ([\d.]+))?", said[name]) for name in said
    }
    assert [name for name in linked if name.startswith("estimator") and not linked[name]] == []
    assert linked["feature_column.numeric_column"]
    for name, files in linked.items():
        for file, version in files:
            source = (COURSE.root / file).read_text(encoding="utf-8")
            assert name.rpartition(".")[2] in source
            assert f'"tensorflow-cpu=={version}"' in source


def test_a_program_has_its_name_or_the_one_of_today_and_asserts():
    for each in TRIED:
        used = {name: [crosswalk.Place("", "")] for name in crosswalk._used(each.tried)}
        gone = each.became == "gone"
        assert crosswalk.where(crosswalk.Name(each.now.removeprefix("tf."), "same") if gone else each, used), each.name
        assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(each.tried))), each.name
        assert len(each.tried.splitlines()) <= 5, each.name


@pytest.mark.whole
def test_every_program_runs_and_stands_on_the_page(tmp_path):
    """All in one fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps({each.name: each.tried for each in TRIED}),
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((tmp_path / "said.json").read_text()) == {each.name: "ran" for each in TRIED}
    assert [each.name for each in TRIED if each.tried not in page()] == []


def test_the_crosswalk_is_fresh():
    written = (COURSE.root / "docs" / "crosswalk.md").read_text(encoding="utf-8")
    assert written == page(), "docs/crosswalk.md is stale: run `uv run python tools/crosswalk.py`"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("tf.compat.v1.train.Server(spec)", {"train.Server"}),
        ("server.join()", {"server.join", ".join"}),
        ("v1.TFRecordReader().read(names)", {"TFRecordReader.read", ".read"}),
        ("servers[0].join()", {".join"}),
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
