"""What is innocent changes no answer, and `verify` names the one that cost something."""

import types
from contextlib import nullcontext, redirect_stdout
from io import StringIO

import pytest

from autograder.authoring import innocent, unboxed
from autograder.authoring.unboxed import Answered, Found
from autograder.probe import listed
from fixture import CHAPTER

SOURCE = """
LIMIT = 3

def pick(rows, at):
    for row in rows:
        at = at + 1
        if at > LIMIT:
            return [row, at]
    return None

def every(*rows, by=2):
    yield from rows[::by]
"""
TF = types.SimpleNamespace(name_scope=lambda name: nullcontext(), print=print)


def ran(source):
    names = {"tf": TF}
    with redirect_stdout(StringIO()) as said:
        exec(source, names)
        return names["pick"]([4, 5, 6, 7], 1), list(names["every"](1, 2, 3)), said.getvalue()


@pytest.mark.parametrize("name", innocent.ADDITIONS)
def test_an_addition_leaves_what_an_answer_returns_and_is_there(name):
    source = innocent.added(SOURCE, [name])
    assert ran(source)[:2] == ([6, 4], [1, 3])
    assert source != innocent.added(SOURCE, [])


def test_all_of_them_are_laid_over_one_answer():
    value, every, said = ran(innocent.added(SOURCE, innocent.ADDITIONS))
    assert (value, every) == ([6, 4], [1, 3])
    assert said.count("so far") == 4


def test_nothing_is_added_to_what_is_no_function():
    assert innocent.added("guesses = {'a': 1}", innocent.ADDITIONS) == ""


def costs(monkeypatch, course, lost, harmful=()):
    def ask(course, chapter, answers):
        return [Found((0.5,), "✗ no") if lost(each.source) else Found((1.0,), "") for each in answers]

    monkeypatch.setattr(unboxed, "ask", ask)
    monkeypatch.setattr(listed, "harmful", lambda file: list(harmful))
    return list(innocent.costs(course, CHAPTER, [("reference", Answered("pick", "pick", SOURCE, (1, 2)))]))


def test_what_costs_something_is_named_and_nothing_else(monkeypatch, fixture_course):
    (told,) = costs(monkeypatch, fixture_course, lambda source: "tf.print" in source)
    assert "with tf.print earns 50%, and the visible check says ✗ no" in told
    assert costs(monkeypatch, fixture_course, lambda source: False) == []


def test_what_is_listed_as_harmful_is_not_added(monkeypatch, fixture_course):
    row = listed.Harmful("pick", "tf.print", "it starts TensorFlow")
    assert costs(monkeypatch, fixture_course, lambda source: "tf.print" in source, [row]) == []
    (told,) = costs(monkeypatch, fixture_course, lambda source: False, [listed.Harmful("pick", "tea", "")])
    assert "there is no addition 'tea'" in told


def test_what_only_costs_something_together_is_told_all_the_same(monkeypatch, fixture_course):
    (told,) = costs(monkeypatch, fixture_course, lambda source: "tf.print" in source and "name_scope" in source)
    assert "all that is innocent together" in told


def test_a_course_without_tensorflow_meets_nothing_of_it(monkeypatch, fixture_course):
    monkeypatch.setattr(innocent, "IMPORT", "import sea")
    assert costs(monkeypatch, fixture_course, lambda source: "tf." in source) == []
    (told,) = costs(monkeypatch, fixture_course, lambda source: "assert" in source)
    assert "an assert on a shape" in told
