"""Listed answers: rows of a file beside the checks, each whole, none misspelled."""

import ast
from pathlib import Path

import nbgrader_course as nb
import pytest
from small_course import NAME, command

from autograder.authoring import verify
from autograder.model.course import CourseError, find
from autograder.probe import listed
from autograder.probe.listed import Equivalent, Variant

ROWS = """
[mean.wrong]
adds = { says = "You added", change = ["mean", "sum"] }

[mean.right.by_hand]
source = '''
def mean(x):
    return sum(x) / len(x)
'''

[[mean.equivalent]]
change = ["0", "-0"]
because = "it is nothing"

[[mean.equivalent]]
because = "any is right"
"""


@pytest.fixture
def written(tmp_path):
    """Write the listed answers of a chapter; returns the file."""

    def write(chapter: str, content: str) -> Path:
        path = tmp_path / f"listed_{chapter}.toml"
        path.write_text(content, encoding="utf-8")
        return path

    return write


def test_every_row_becomes_an_answer(written):
    file = written("one", ROWS)
    by_hand = "def mean(x):\n    return sum(x) / len(x)\n"
    assert listed.variants(file) == [
        Variant("one", "mean", "adds", False, "", ("mean", "sum"), "You added", "mean"),
        Variant("one", "mean", "by_hand", True, by_hand, ("", ""), "", "mean"),
    ]
    assert listed.equivalents(file) == [
        Equivalent("one", "mean", ("0", "-0"), "it is nothing"),
        Equivalent("one", "mean", None, "any is right"),
    ]


def test_a_chapter_may_list_none(tmp_path):
    assert listed.variants(tmp_path / "listed_none.toml") == []


WRONG = "[{0}.wrong]\nx = {{ says = 'No.', source = 'y' }}\n"
BOTH = WRONG + "[{0}.right]\nx = {{ source = 'y' }}\n"


@pytest.mark.parametrize(
    ("rows", "bare"),
    [
        ("", "double, shift"),
        (WRONG.format("double") + BOTH.format("shift"), "double"),
        (BOTH.format("double"), "shift"),
        (BOTH.format("double") + BOTH.format("shift"), ""),
    ],
)
def test_an_exercise_without_listed_answers_is_told_when_its_chapter_is_built_and_verified(
    own_small, monkeypatch, rows, bare
):
    own_small.listed_file(NAME).write_text(rows, encoding="utf-8")
    mend = "add [ANSWER.wrong] and [ANSWER.right], by which `autograder verify` tries the checks"
    says = f"checks/listed_{NAME}.toml: lists no wrong answer, or no right one, of {bare}; {mend}"
    assert command("build", "--check", root=own_small.root, columns=400).stdout == (f"note: {says}\n" if bare else "")
    monkeypatch.setattr(verify, "_try_unboxed", lambda *_: None)
    assert verify.verify(own_small, NAME, quick=True).notes == [says][: bool(bare)]


def test_none_is_asked_for_of_an_imported_chapter(tmp_path):
    course = nb.imported(nb.put(tmp_path / "nbg", "ps1/ps1.ipynb", *nb.SMALL), tmp_path / "course")
    assert listed.unlisted(course, "ps1") == ""


@pytest.mark.parametrize("chapter", find().chapters)
def test_every_exercise_of_this_course_has_a_wrong_and_a_right_answer_listed(chapter):
    assert listed.unlisted(find(), chapter) == ""


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("[mean.wrong]\nadds = { change = ['a', 'b'] }", "says what it must be told"),
        ("[mean.right]\nadds = { says = 'x', change = ['a', 'b'] }", "a right one nothing"),
        ("[mean.wrong]\nadds = { says = 'x', change = ['a'] }", r"a change is \[old, new\]"),
        ("[mean.wrong]\nadds = { says = 'x' }", "a change or a source"),
        ("[mean.wrong]\nadds = { says = 'x', change = ['a', 'b'], sorce = 'x' }", "a change or a source"),
        ("[mean.wrnog]\nadds = { says = 'x', change = ['a', 'b'] }", "there are wrong, right, equivalent and harmful"),
        ("[[mean.equivalent]]\nchange = ['a', 'b']", "a row has a because"),
        ("mean", "listed_bad.toml"),
    ],
)
def test_a_row_that_is_not_whole_is_the_authors_to_mend(written, row, says):
    file = written("bad", row)
    with pytest.raises(CourseError, match=says):
        listed.variants(file)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            "[maen.wrong]\nadds = { says = 'x', change = ['a', 'b'] }",
            r"listed_odd.toml: \[maen\]: .* did you mean mean\?",
        ),
        ("[[maen.equivalent]]\nbecause = 'x'", r"\[maen\]: no answer cell is called so"),
        (
            "[mean.wrong]\nadds = { says = 'x', change = ['a', 'b'], exercise = 'maen' }",
            "there is no exercise 'maen'; did you",
        ),
        (
            "[mean.right]\nadds = { change = ['sum', 'b'] }",
            "mean.right.adds: change: the reference of mean does not hold 'sum'",
        ),
    ],
)
def test_a_row_that_fits_no_answer_is_named_with_its_file_and_the_mend(written, row, says):
    file = written("odd", row)
    with pytest.raises(CourseError, match=says):
        listed.must_fit(file, {"mean": "a = 1"}, ["mean"])


@pytest.mark.parametrize("chapter", find().chapters)
def test_every_misconception_that_a_check_raises_is_listed(chapter):
    raised = {
        node.args[0].value
        for path in find().check_sources(chapter)
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Misconception"
        if isinstance(node.args[0], ast.Constant)
    }
    assert raised <= {each.name for each in listed.variants(find().listed_file(chapter)) if not each.correct}


def test_a_variant_whose_old_text_is_gone_is_an_authors_fault():
    variant = Variant("ch", "f", "v", False, change=("sum", "mean"))
    assert variant.written_over("x = sum(y)") == "x = mean(y)"
    with pytest.raises(ValueError, match="does not hold 'sum'"):
        variant.written_over("x = max(y)")
