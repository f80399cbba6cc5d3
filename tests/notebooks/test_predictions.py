"""A prediction gives no truth away before all of it is written: then "recorded before it was measured" is true."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

from across import expecting
from across.attempt import NotAttempted, NotYet, attempt, read
from autograder.model.course import find, text

COURSE = find()
WIDEST = 88  # characters of a line that is surely seen at 1440 pixels with the panel of exercises open


def cells(chapter: str) -> dict[str, str]:
    """Grade id -> source of each cell of a chapter as it is handed out."""
    found = COURSE.chapter(chapter).release["cells"]
    return {id: text(cell) for cell in found if (id := cell["metadata"].get("nbgrader", {}).get("grade_id"))}


def predictions(chapter: str) -> Iterator[tuple[str, str]]:
    """The answer as it is handed out and the check of each prediction of a chapter."""
    of = cells(chapter)
    checks = {name.removeprefix("check_"): source for name, source in of.items() if name.startswith("check_")}
    yield from ((of[name], check) for name, check in checks.items() if 'done="recorded' in check)


def lines_of(check: str, *names: str) -> list[int]:
    """The lines of a check that call one of these functions."""
    calls = [node for node in ast.walk(ast.parse(check)) if isinstance(node, ast.Call)]
    return [each.lineno for each in calls if ast.unparse(each.func).removeprefix("expecting.") in names]


@pytest.mark.parametrize("chapter", [name for name in COURSE.chapters if any(predictions(name))])
def test_nothing_is_printed_or_drawn_before_all_guesses_are_read(chapter: str):
    for _, check in predictions(chapter):
        assert lines_of(check, "entries"), check
        assert min(lines_of(check, "print", "display")) > lines_of(check, "entries")[0], check


def test_what_is_to_be_filled_in_in_chapter_01_is_seen_beside_the_panel():
    assert max(map(len, cells("01_gpu_setup")["prediction"].splitlines())) <= WIDEST


@pytest.mark.parametrize(("filled", "raised"), [({}, NotAttempted), ({"CPUs": 2}, NotYet)])
def test_one_key_alone_learns_no_truth_in_chapter_01(
    filled: dict[str, Any], raised: type[Exception], capsys: pytest.CaptureFixture[str]
):
    stub, check = cells("01_gpu_setup")["prediction"], cells("01_gpu_setup")["check_prediction"]
    names: dict[str, Any] = {each.__name__: each for each in (attempt, read, NotAttempted)}  # and nothing that measures
    exec(stub, names | {"expecting": expecting}, names)
    names |= {"expecting": expecting, "prediction": names["prediction"] | filled}
    with pytest.raises(raised, match=r"Replace each None|in it \['GPUs of 1,-1,0'\] is None; expected a whole number"):
        exec(check, names)
    assert capsys.readouterr().out == ""
