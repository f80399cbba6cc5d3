"""Validate's slices are enough: every solved chapter passes with what its checks need, and nothing of a blank one does."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinds import chapters

from across._jupyter.validation import BY_HAND, OPEN, PASSES, validate
from autograder.authoring import build
from autograder.model.course import find

pytestmark = pytest.mark.usefixtures("warm_kernels")


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "user"))


@chapters
def test_a_chapter_passes_solved_and_nothing_of_it_blank(tmp_path: Path, chapter: str):
    path = tmp_path / f"{chapter}.ipynb"
    path.write_text(build.dumps(build.release(find(), chapter)), encoding="utf-8")
    blank = validate(path)
    assert [each.exercise for each in blank.exercises if each.state == PASSES] == []
    assert [each.exercise for each in blank.exercises if each.state == OPEN]
    path.write_text(build.dumps(build.solved(find(), chapter)), encoding="utf-8")
    solved = validate(path)
    assert [each.says for each in solved.exercises if each.state not in (PASSES, BY_HAND)] == []
    assert solved.ran < solved.cells
    assert validate(path).ran == 0
