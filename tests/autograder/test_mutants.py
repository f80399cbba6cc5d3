"""Mutants: each is one fault in a cell that still compiles, and none is the reference in other words."""

import ast

import pytest

from autograder.authoring import build, mutants
from autograder.model.course import CourseError, find

pytest.importorskip("cosmic_ray", reason="cosmic_ray is not installed: uv sync --group ci")

SPLIT = """def split(a, b, devices):
    with tf.device(devices[0]):
        left = tf.matmul(a, b)
    return tf.reduce_mean(left, axis=0)
"""


def made(source):
    return {(mutant.operator, mutant.source) for mutant in mutants.mutants("split", source)}


@pytest.mark.parametrize(
    ("operator", "old", "new"),
    [
        ("ScopeLeftOut", "with tf.device(devices[0]):", "if True:"),
        ("LastForFirst", "devices[0]", "devices[-1]"),
        ("ArgumentsSwapped", "tf.matmul(a, b)", "tf.matmul(b, a)"),
        ("KeywordLeftOut", "(left, axis=0)", "(left)"),
        ("Lookalike", "reduce_mean", "reduce_sum"),
        ("StatementLeftOut", "left = tf.matmul(a, b)", "pass"),
        ("ReturnsNone", "return tf.reduce_mean(left, axis=0)", "return None"),
        ("NumberReplacer", "axis=0", "axis= 1"),  # cosmic-ray's, with its space
    ],
)
def test_a_fault_of_each_kind_is_made(operator, old, new):
    assert (operator, SPLIT.replace(old, new)) in made(SPLIT)


def test_another_device_is_named_in_text_and_in_pieces_of_text():
    assert ("AnotherDevice", 'x = "/CPU:1"\n') in made('x = "/CPU:0"\n')
    assert ("AnotherDevice", 'x = "/GPU:0"\n') in made('x = "/CPU:0"\n')


@pytest.mark.parametrize("same", ["x = min(a, b)", "x = max(a, b)"])
def test_the_order_of_what_has_none_is_no_fault(same):
    assert not [source for operator, source in made(same) if operator == "ArgumentsSwapped"]


def test_a_docstring_left_out_is_no_fault():
    assert not [source for _, source in made('def f():\n    """Says."""\n    return 1\n') if "Says" not in source]


def test_characters_of_several_bytes_before_a_fault_do_not_move_it():
    source = 'é = "ü"; y = f(a, b)\n'
    assert ("ArgumentsSwapped", source.replace("a, b", "b, a")) in made(source)


@pytest.mark.parametrize("chapter", find().chapters)
def test_every_mutant_of_a_reference_compiles_and_differs_from_all_others(chapter):
    by_hand = {a for each in find().chapter(chapter).exercises if each.manual for a in each.answer_ids}
    for answer, source in build.solution_source(find(), chapter).items():
        found = [] if answer in by_hand else mutants.mutants(answer, source)
        trees = [ast.dump(ast.parse(mutant.source)) for mutant in found]
        assert len(set(trees) | {ast.dump(ast.parse(source))} if found else ()) == len(trees) + bool(found)
        assert all(line[0] in " +-" for mutant in found for line in mutant.diff.splitlines())


def test_a_change_names_the_mutant_that_it_makes_and_no_other():
    (mutant,) = [each for each in mutants.mutants("split", SPLIT) if each.operator == "Lookalike"]
    assert mutants.same(mutant, "split", ("reduce_mean", "reduce_sum"))
    assert not mutants.same(mutant, "split", ("axis=0", "axis=1"))
    assert not mutants.same(mutant, "other", ("reduce_mean", "reduce_sum"))
    assert not mutants.same(mutant, "split", ("a", "b")), "what stands there twice names nothing"
    assert mutants.same(mutant, "split", None), "without a change: every mutant of the cell"


def test_without_cosmic_ray_the_mend_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cosmic_ray.mutating", None)
    with pytest.raises(CourseError, match="uv sync --extra verify"):
        mutants.mutants("split", SPLIT)
