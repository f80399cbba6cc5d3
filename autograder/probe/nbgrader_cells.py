"""`nbgrader_tests()`: the test cells of an imported nbgrader notebook, each a test of its own, run in the student's kernel.

    from autograder.probe.nbgrader_cells import nbgrader_tests

    TestCells = nbgrader_tests()                       # all of them
    TestCells = nbgrader_tests(but=["mean", "median"])   # but those that have a trusted check in this file

This is weak. A test cell, with its hidden tests, runs where the student's code has run before it: that code may read it, and
may claim whatever outcome it likes. What holds is what is around it: the box, the limits, and that nothing counts for a pass
but a word of the cell's own last line, asked for once more with a token that was not there before.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from IPython.core.inputtransformer2 import TransformerManager

from autograder.model.course import CourseError, near
from autograder.model.test_cells import TestCell
from autograder.probe import wire
from autograder.probe.asking import Student, kept, probe

HIDDEN = "Not yet: a hidden test of the cell `{}` fails."
FAILS = "Not yet: the cell `{}` fails at `{}`."
NO_END = "Not yet: the cell `{}` does not come to its end."
SHOWN = 200  # characters of a line
MOST = 1e15  # points: what is more is no number of them, and perhaps none that a float holds


class Partial(AssertionError):  # noqa: N818
    """A test that gives a part of the points: the last value of its cell was a number of them."""

    def __init__(self, share: float, says: str) -> None:
        super().__init__(says)
        self.share = share


class Collected:
    """The test cells of the chapter whose checks are collected, and what a running job says of them: set by the checker."""

    cells: tuple[TestCell, ...] = ()
    file: str = ""
    keep: Mapping[
        str, Sequence[str]
    ] = {}  # by grade id: names that cells further down bind, which a test must not change


COLLECTED = Collected()


def nbgrader_tests(but: Iterable[str] = ()) -> type:
    """Make tests of the chapter's test cells, but of those with these grade ids. Raises CourseError for an unknown one."""
    known = {cell.grade_id: cell for cell in COLLECTED.cells}
    left_out = set(but)
    if strange := sorted(left_out - known.keys()):
        raise CourseError(f"{COLLECTED.file}: but={strange[0]!r} is no test cell; {near(strange[0], known)}")
    made: dict[str, Any] = {}
    for cell in COLLECTED.cells:
        if cell.grade_id not in left_out:
            test = _test(cell, any(other.hidden for other in COLLECTED.cells))
            made[test.__name__] = test
    return type("TestCells", (), made)


def _test(cell: TestCell, secretive: bool) -> Callable[[Any, Student], None]:
    source = TransformerManager().transform_cell(cell.source)

    def test(self: object, student: Student) -> None:
        _judge(cell, secretive, *_asked(cell, source, student))

    test.__name__ = f"test_{cell.grade_id}"
    test.exercise, test.weight, test.cell = cell.grade_id, 1.0, cell  # type: ignore[attr-defined]
    return test


def _asked(cell: TestCell, source: str, student: Student) -> tuple[object, bool]:
    """What the kernel says of the cell, and whether the cell's end was reached, by a second question that answers in turn."""
    first, second = secrets.token_hex(16), secrets.token_hex(16)
    keep = list(COLLECTED.keep.get(cell.grade_id, ()))
    quiet = cell.source.rstrip().endswith(";")
    said = student.ask(_run_cell, source=source, name=cell.grade_id, keep=keep, token=first, quiet=quiet)
    reached = student.ask(_end_reached, token=second)
    # an array has no one ==
    words = [each if type(each) is str else "" for each in reached] if type(reached) is list else []
    if words[1:] != [second]:  # an answer came that was not asked for: nor is the next one
        raise wire.WireError("the answers are out of step with the questions")
    return said, words == [first, second]


def _judge(cell: TestCell, secretive: bool, said: object, reached: bool) -> None:
    """Raise AssertionError where the cell did not pass. Nothing that the kernel says is shown where a test is hidden."""
    if type(said) is not dict:
        raise AssertionError(NO_END.format(cell.grade_id))
    if not reached or said.get("ended") is not True:
        line, error = said.get("line"), said.get("error")
        shown = cell.shown(line) if type(line) is int else ""
        text = FAILS.format(cell.grade_id, shown[:SHOWN]) if shown else NO_END.format(cell.grade_id)
        if type(line) is int and line in cell.hidden:
            text = HIDDEN.format(cell.grade_id)
        if not secretive and type(error) is str:
            text += f" {error[:SHOWN]}"
        raise AssertionError(text)
    points = said.get("points")
    if points is None:
        return
    if type(points) not in (int, float) or not -MOST < points < MOST:  # nor is nan
        raise AssertionError(NO_END.format(cell.grade_id))
    if cell.points and points < cell.points:
        share = max(0.0, points) / cell.points
        raise Partial(share, f"Part of it holds: {max(0.0, float(points)):g} of {cell.points:g} points.")


@probe
def _run_cell(student, source, name, keep, token, quiet):
    import ast

    names, file = student._namespace, f"<tests {name}>"
    before = {each: names[each] for each in keep if each in names}
    kept["reached"] = ""
    line = value = None
    try:
        body = ast.parse(source, file).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), file, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), file, "eval"), names)
        kept["reached"] = token
    except BaseException as error:
        frame = error.__traceback__
        while frame is not None:
            line = frame.tb_lineno if frame.tb_frame.f_code.co_filename == file else line
            frame = frame.tb_next
        if isinstance(error, SyntaxError) and error.filename == file:
            line = error.lineno
        return {"ended": False, "line": line, "error": f"{type(error).__name__}: {str(error)[:2000]}"}
    finally:
        names.update(before)
    if quiet or isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        return {"ended": True, "points": None}
    return {"ended": True, "points": float(value)}  # pyright: ignore[reportArgumentType]


@probe
def _end_reached(student, token):
    return [kept.get("reached"), token]
