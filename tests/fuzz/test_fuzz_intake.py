"""Intake under fire: whatever lies in a student's folder becomes a submission, and what it holds goes all the way."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import classroom
import pytest
from fuzzing import bounded, damaged, examples
from hypothesis import example, given
from hypothesis import strategies as st
from mutants import mutants

from autograder.job import assemble, judge
from autograder.model import course
from autograder.model.rubric import Rubric
from autograder.submissions import intake, unanswered
from autograder.submissions.intake import Found, Submission

TINY = classroom.chapter()
RUBRIC = Rubric(TINY, tests=(), checks="", grader="", environment="")
NAME = classroom.NAME
FILE = f"{NAME}.ipynb"
SOLVED = json.loads(json.dumps(classroom.answered(TINY, pick="def pick(names):\n    return names[0]", why="Because.")))
SEEDS = st.integers(0, 2**48)
TEXT = st.text(st.characters() | st.characters(categories=["Cs", "Cc", "Cf"]), max_size=30)
KEYS = (
    st.sampled_from(["cells", "metadata", "nbgrader", "grade_id", "cell_type", "source", "nbformat", "worksheets"])
    | TEXT
)
WORDS = st.sampled_from(["code", "markdown", "pick", "spread", "why", "check_pick"]) | TEXT
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=30,
)
CELLS = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": WORDS | JSON,
        "source": TEXT | st.lists(TEXT, max_size=3) | JSON,
        "metadata": st.fixed_dictionaries({}, optional={"nbgrader": st.fixed_dictionaries({"grade_id": WORDS | JSON})})
        | JSON,
        "outputs": JSON,
    },
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's folder that every example writes anew."""
    folder = tmp_path_factory.mktemp("class") / "ada"
    (folder / NAME).mkdir(parents=True)
    return folder


def read(place: Path, content: bytes) -> Submission:
    (place / NAME / FILE).write_bytes(content)
    return intake.read(Found("ada", place), TINY)


def assert_goes_all_the_way(submission: Submission) -> None:
    """It is JSON that any file can hold, answers only what was asked, and can be put together and judged."""
    text = json.dumps(asdict(submission), ensure_ascii=False, allow_nan=False).encode()
    assert submission.answers.keys() | submission.invalid.keys() <= TINY.answers.keys()
    assert not submission.answers.keys() & submission.invalid.keys()
    assert len(submission.notes) <= intake.NOTES
    assert all(note.isprintable() or "\ufffd" in note for note in submission.notes)
    said = [*submission.notes, *submission.invalid.values(), submission.refused]
    assert all(len(each) < 1000 and "\0" not in each for each in said)
    assert len(text) < TINY.limits.notebook_bytes
    made = assemble.assemble(submission, TINY)
    assert [cell["cell_type"] for cell in made["cells"]] == [cell["cell_type"] for cell in TINY.release["cells"]]
    assert [cell["metadata"]["nbgrader"] for cell in made["cells"] if "nbgrader" in cell["metadata"]] == [
        cell["metadata"]["nbgrader"] for cell in TINY.release["cells"] if "nbgrader" in cell["metadata"]
    ]
    marks = judge.judge(RUBRIC, submission, unanswered.blank(submission, TINY), judge.Seen())
    assert [mark.exercise for mark in marks] == [exercise.name for exercise in TINY.exercises]
    assert all(mark.points == 0 and mark.message for mark in marks)


@examples(200)
@given(st.binary(max_size=300))
def test_any_bytes_become_a_submission(place, data):
    assert_goes_all_the_way(read(place, data))


@examples(200)
@given(
    JSON
    | st.fixed_dictionaries(
        {"cells": st.lists(CELLS | JSON, max_size=6)}, optional={"metadata": JSON, "nbformat": JSON}
    )
)
def test_any_json_becomes_a_submission(place, value):
    assert_goes_all_the_way(read(place, json.dumps(value).encode()))


@examples(700)
@given(SEEDS)
def test_a_submission_gone_wrong_becomes_a_submission(tmp_path_factory, seed):
    """Nodes of its JSON, its bytes, its encoding or its place."""
    folder = tmp_path_factory.mktemp("odd") / "ada"
    (folder / NAME).mkdir(parents=True)
    [mutant] = mutants(SOLVED, 1, seed)
    mutant.hand_in(folder / NAME / FILE)
    try:
        assert_goes_all_the_way(intake.read(Found("ada", folder), TINY))
    finally:
        shutil.rmtree(folder.parent)


NAMES = st.sampled_from(
    [
        NAME,
        NAME.upper(),
        FILE,
        FILE.upper(),
        f"{NAME}.IPYNB",
        "timestamp.txt",
        "copy.ipynb",
        ".hidden",
        "a b",
        "-rf",
        "*",
        "é",
    ]
) | st.binary(min_size=1, max_size=40).map(lambda raw: os.fsdecode(raw.replace(b"/", b"_").replace(b"\0", b"_")))


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    """What lies in a folder: name -> bytes, a folder, or one word for what it is."""
    content: st.SearchStrategy[Any] = st.sampled_from(["link", "loop", "out", "pipe", "socket"])
    content |= st.sampled_from([json.dumps(SOLVED).encode(), b"", b"2026-03-02 17:40:12 UTC", b"\xff"])
    if depth:
        content |= trees(depth - 1)
    return draw(st.dictionaries(NAMES.filter(lambda name: name not in (".", "..")), content, max_size=4))


def plant(folder: Path, tree: dict[str, Any], rng: Random) -> None:
    for name, content in tree.items():
        path = folder / name
        if isinstance(content, dict):
            path.mkdir()
            plant(path, content, rng)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        elif content == "pipe":
            os.mkfifo(path)
        elif content == "socket":
            os.mknod(path, 0o140644)
        else:
            path.symlink_to({"link": FILE, "loop": path, "out": "/dev/zero"}[content])
        if not path.is_symlink() and rng.random() < 0.2:
            path.chmod(rng.choice((0o000, 0o111, 0o444, 0o777)))


ODD = (b"a\nb", b"\xff\xfe", b"\x1b[31m", "\u202egnp".encode(), b"..x", b"a\\nb", b"-rf", b"x" * 255)


@examples(200)
@given(trees(), SEEDS)
@example({os.fsdecode(name): {NAME: {}} for name in ODD}, 0)
def test_any_tree_of_files_becomes_a_class_of_submissions(tmp_path_factory, tree, seed):
    folder = tmp_path_factory.mktemp("tree")
    try:
        plant(folder, tree, Random(seed))
        students = intake.collect(folder, TINY)
        assert len({found.student for found in students}) == len(students), "two students became one"
        for found in students:
            submission = intake.read(found, TINY)
            assert submission.student == found.student
            assert found.student.isprintable()
            assert len(found.student.encode()) <= intake.STUDENT_BYTES
            assert not set('/<>&"*?[]') & set(found.student)
            assert not found.student.startswith(".")
            assert_goes_all_the_way(submission)
    finally:
        for path in folder.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        shutil.rmtree(folder)


MOST = TINY.limits.notebook_bytes


def filled(unit: bytes) -> bytes:
    return b'{"cells":[' + b",".join([unit] * ((MOST - 100) // (len(unit) + 1))) + b"]}"


CELL = {"cell_type": "code", "metadata": {"nbgrader": {"grade_id": "pick"}}, "source": "x" * 2500}
LARGE: dict[
    str, Callable[[], bytes]
] = {  # files near the cap that would take hours or all memory if they were believed
    "empty lists": lambda: filled(b"[]"),
    "lists in lists": lambda: filled(b"[" * 90 + b"]" * 90),
    "objects": lambda: filled(b"{}"),
    "numbers of a million digits": lambda: filled(b"9" * 1_000_000),
    "fractions": lambda: filled(b"1.234567e-30"),
    "brackets only": lambda: b"[" * MOST,
    "keys only": lambda: b"{" + b",".join(b'"%d":0' % n for n in range(400_000)) + b"}",
    "one key again and again": lambda: b"{" + b",".join([b'"cells":[]'] * 400_000) + b"}",
    "one answer again and again": lambda: json.dumps({"cells": [CELL] * 2000}).encode()[:MOST],
    "an answer of a million lines": lambda: json.dumps({"cells": [CELL | {"source": ["x"] * 200_000}] * 5}).encode()[
        :MOST
    ],
    "one text": lambda: b'{"cells":"' + b"\\ud800" * ((MOST - 100) // 6) + b'"}',
    "zeros": lambda: b"\0" * MOST,
    "white": lambda: b" " * MOST,
}


OF_EACH_KIND = ("empty lists", "numbers of a million digits", "one key again and again", "an answer of a million lines")


@pytest.mark.parametrize(
    "file", [pytest.param(each, marks=() if each in OF_EACH_KIND else pytest.mark.slow) for each in LARGE]
)
@pytest.mark.whole
def test_a_file_at_the_cap_is_read_within_time_and_memory(place, file):
    data = LARGE[file]()
    assert len(data) <= MOST
    bounded(lambda: assert_goes_all_the_way(read(place, data)), seconds=15, mebibytes=500)


MOST_OF_A_CELL = TINY.limits.cell_bytes
UNITS = {
    "minus": "-",
    "parentheses": "(",
    "sums": "1+",
    "attributes": "a.",
    "calls": "()",
    "not": "not ",
    "lambdas": "lambda:",
    "quotes": "'",
    "continued": "\\\n",
    "branches": "elif 1: pass\n",
    "comparisons": "1<",
    "choices": "1 if 1 else ",
    "items": "a[0]",
    "stars": "*",
    "powers": "2**",
    "nines": "9",
    "commas": "a,",
    "empty lines": "\n",
    "form feeds": "\x0c",
    "tabs and lines": "\t \n",
    "decorators": "@a\n",
    "semicolons": ";",
    "words": "a b ",
    "f-strings": 'f"{',
    "combining": "\u0301",
}


HARD = ("parentheses", "attributes", "lambdas", "quotes", "branches", "commas", "nines", "tabs and lines", "f-strings")


@pytest.mark.parametrize("name", [pytest.param(each, marks=() if each in HARD else pytest.mark.slow) for each in UNITS])
def test_an_answer_that_python_can_hardly_read_is_put_together_within_bounds(name):
    unit = UNITS[name]
    source = (unit * MOST_OF_A_CELL)[: MOST_OF_A_CELL // len(unit.encode()[:2])]
    for each in (source, "a" + source, source + "a", '"""' + source):
        submission = Submission("ada", NAME, dict.fromkeys(TINY.answers, each))
        bounded(lambda submission=submission: assert_put_together(submission), seconds=15, mebibytes=500)


def assert_put_together(submission: Submission) -> None:
    made = assemble.assemble(submission, TINY)
    sources = [course.text(cell) for cell in made["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    assert sources == list(submission.answers.values())
    assert unanswered.blank(submission, TINY) == set()


@examples(300)
@given(SEEDS)
def test_an_answer_of_damaged_python_is_put_together(seed):
    rng = Random(seed)
    source = Path(intake.__file__).read_bytes()
    at = rng.randrange(len(source))
    text = damaged(source[at : at + 2000], rng).decode(errors="replace").replace("\0", "")
    assemble.assemble(submission := Submission("ada", NAME, dict.fromkeys(TINY.answers, text)), TINY)
    unanswered.blank(submission, TINY)
