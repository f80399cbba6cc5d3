"""Innocent additions: what students write beside a right answer, and what may change no mark and no tick.

All of them are laid over every listed right answer and over the reference; where that costs something, each by itself, to name
the one. What would not be innocent in an answer (a print by TensorFlow starts TensorFlow) is listed as harmful, and why.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from autograder.authoring import unboxed
from autograder.authoring.unboxed import Answered, Found
from autograder.model.course import Course
from autograder.probe import listed

__all__ = ["ADDITIONS", "added", "additions", "costs"]

IMPORT = "import tensorflow as tf"  # of a chapter; where it knows no TensorFlow, an answer in it does not either
OF_TENSORFLOW = ("tf.print", "a block around it")
SHAPE = 'getattr({0}, "shape", 0)'
HELPER, INNER = "_helper_of_mine_", "_inner_of_mine"


def costs(course: Course, chapter: str, right: Sequence[tuple[str, Answered]]) -> Iterator[str]:
    """What is wrong with how the `right` answers, each with its name, are judged with what changes nothing beside them."""
    harmful = defaultdict(set[str])
    for each in listed.harmful(course.listed_file(chapter)):
        if each.addition not in ADDITIONS:
            yield f"{each.answer}.harmful: there is no addition {each.addition!r}, but {', '.join(ADDITIONS)}"
        harmful[each.answer].add(each.addition)
    of_course = additions(course, chapter)
    laid = [(name, each, [add for add in of_course if add not in harmful[each.answer]]) for name, each in right]
    laid = [(name, each, adds) for name, each, adds in laid if added(each.source, adds)]
    lost = [row for row, of in zip(laid, _asked(course, chapter, [row[1:] for row in laid]), strict=True) if _lost(of)]
    alone = [(name, each, [add]) for name, each, adds in lost for add in adds]
    found = list(zip(alone, _asked(course, chapter, [row[1:] for row in alone]), strict=True))
    for name, each, _ in lost:
        guilty = [(add, of) for (who, one, (add,)), of in found if (who, one) == (name, each) and _lost(of)]
        for add, of in guilty or [("all that is innocent together", Found((0.0,), ""))]:
            yield (
                f'exercise "{each.exercise}": {name}, which is right, with {add} earns {min(of.earned):.0%}, and the visible '
                f"check says {of.visible or 'that it is right'}; mend the check, or list what it does to this answer"
            )


def additions(course: Course, chapter: str) -> list[str]:
    """The names of what a student of a chapter may write; of TensorFlow's only where it knows TensorFlow."""
    knows = IMPORT in course.source(chapter).read_text(encoding="utf-8")
    return [each for each in ADDITIONS if knows or each not in OF_TENSORFLOW]


def _asked(course: Course, chapter: str, rows: Sequence[tuple[Answered, Sequence[str]]]) -> list[Found]:
    answers = [replace(each, source=added(each.source, adds), seeds=each.seeds[:1]) for each, adds in rows]
    return unboxed.ask(course, chapter, answers)


def _lost(of: Found) -> bool:
    return min(of.earned) < 1.0 or bool(of.visible)


def added(source: str, names: Collection[str]) -> str:
    """The source of a cell with the `ADDITIONS` of these names in each function that it defines; "" where it defines none."""
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        for name, add in ADDITIONS.items():
            if name in names:
                add(tree, function)
    return ast.unparse(ast.fix_missing_locations(tree)) if functions else ""


def _before(statement: str, _tree: ast.Module, function: ast.FunctionDef) -> None:
    """`statement` stands first, with the first argument for `{0}`."""
    arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    function.body[:0] = ast.parse(statement.format(*arguments[:1] or ["None"])).body


def _blocks(_tree: ast.Module, function: ast.FunctionDef) -> None:
    (block,) = ast.parse('with tf.name_scope("mine"):\n    pass').body
    assert isinstance(block, ast.With)
    block.body, function.body = function.body, [block]


def _inner(_tree: ast.Module, function: ast.FunctionDef) -> None:
    (inner, last) = ast.parse(f"def {INNER}():\n    pass\nreturn {INNER}()").body
    assert isinstance(inner, ast.FunctionDef)
    inner.body, function.body = function.body, [inner, last]
    bound = {node.id for node in ast.walk(inner) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if taken := sorted(bound & {each.arg for each in function.args.args}):
        inner.body[:0] = [ast.Nonlocal(taken)]


def _hints(_tree: ast.Module, function: ast.FunctionDef) -> None:
    for argument in function.args.args:
        argument.annotation = ast.Name("object", ast.Load())
    function.returns = ast.Name("object", ast.Load())
    _before('"""What it does, in words of mine."""', _tree, function)


def _default(_tree: ast.Module, function: ast.FunctionDef) -> None:
    if function.args.vararg is None:
        function.args.args.append(ast.arg("of_mine"))
        function.args.defaults.append(ast.Constant(None))


def _helper(tree: ast.Module, function: ast.FunctionDef) -> None:
    given = [*function.args.posonlyargs, *function.args.args]
    if function.args.vararg or function.args.kwarg or function.args.kwonlyargs or function.decorator_list:
        return
    name = HELPER + function.name
    call = ast.Call(ast.Name(name, ast.Load()), [ast.Name(each.arg, ast.Load()) for each in given], [])
    helper = ast.FunctionDef(name, function.args, function.body, [], None, None)  # type: ignore[call-arg]
    tree.body.insert(tree.body.index(function), helper)
    function.body = [ast.Return(call)]


ADDITIONS: dict[str, Callable[[ast.Module, ast.FunctionDef], None]] = {
    "print": partial(_before, 'print("so far", end="")'),
    "tf.print": partial(_before, 'tf.print("so far", {0})'),
    "an assert on a shape": partial(_before, f'assert {SHAPE} == {SHAPE}, "an odd shape"'),
    "a block around it": _blocks,
    "an inner function": _inner,
    "type hints and a docstring": _hints,
    "an argument with a default": _default,
    "a helper": _helper,
}
