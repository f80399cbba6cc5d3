"""How the panel says that each exercise stands, of the notebook as the browser has it and of what is recorded."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from test_validation import STUB, cell

from across._jupyter import panel, resetting
from across._process import kept, recorded

pytestmark = pytest.mark.usefixtures("user")


def changed(name: str, source: str, kind: str = "answer") -> dict[str, Any]:
    """A cell with other source than it was released with."""
    made = cell(STUB, kind, name)
    made.source = source
    return made


def notebook(pick: str = STUB, place: str = STUB, explain: str = STUB) -> dict[str, Any]:
    waiting = "with attempt('place', after=['pick']):\n    pass"
    cells = [changed("pick", pick), changed("pick", "with attempt('pick'):\n    pass", "check")]
    cells += [changed("place", place), changed("place", waiting, "check"), changed("explain", explain, "prose")]
    return {"cells": cells}


def record(path: Path, of: Mapping[str, Any], **entries: dict[str, Any]) -> None:
    """Record of exercises what was said of the answers that a notebook has."""
    graded = {
        each["metadata"]["across"]["exercise"]: each for each in of["cells"] if each["metadata"]["nbgrader"]["grade"]
    }
    digests = {name: recorded.answers_digest(of, graded[name]) for name in entries}
    known = {name: {"answers": digests[name], "digest": "d", "seconds": 1.0, **each} for name, each in entries.items()}
    kept.write(recorded.KIND, path, {"exercises": known})


def states(path: Path, of: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(each["state"], each["says"]) for each in panel.shown(path, of)["exercises"]]


def test_what_nobody_touched_is_not_begun_and_what_is_written_waits_for_a_check(tmp_path: Path):
    path = tmp_path / "a.ipynb"
    shown = panel.shown(path, notebook())
    assert [each["state"] for each in shown["exercises"]] == [panel.NEW] * 3
    assert shown["says"] == "0 of 2 checks pass · 0 of 6 points · read by a person: 1"
    assert (shown["exercises"][0]["cell"], shown["exercises"][0]["worth"]) == ("pick", "2 points")
    after = "first make `pick` pass; this exercise builds on it."
    written = notebook("x = 1", "x = 2", "Because.")
    assert states(path, written) == [(panel.BEGUN, ""), (panel.WAITS, after), (recorded.BY_HAND, "")]


def test_where_no_person_reads_anything_the_panel_speaks_of_checks_alone(tmp_path: Path):
    of = {"cells": notebook()["cells"][:-1]}
    assert panel.shown(tmp_path / "a.ipynb", of)["says"] == "0 of 2 checks pass · 0 of 4 points"


def test_what_validate_said_holds_for_the_answer_of_which_it_was_said(tmp_path: Path):
    path, of = tmp_path / "a.ipynb", notebook("x = 1", "x = 2")
    record(path, of, pick={"state": "passes", "says": ""}, place={"state": "not yet", "says": "place: not yet. No."})
    assert states(path, of)[:2] == [("passes", ""), ("not yet", "not yet. No.")]
    assert panel.shown(path, of)["says"] == "1 of 2 checks pass · 2 of 6 points · read by a person: 1"
    assert states(path, notebook("x = 1", "x = 3"))[:2] == [("passes", ""), (panel.BEGUN, "")]
    assert states(path, notebook("x = 7", "x = 2"))[0] == (panel.BEGUN, "")
    record(path, of, pick={"state": "passes", "says": "", "ticked": True})
    assert states(path, of)[0] == (panel.TICKED, "")


def test_what_a_stopped_validation_did_not_reach_does_not_fail(tmp_path: Path):
    path, of = tmp_path / "a.ipynb", notebook("x = 1")
    says = "pick: You stopped Validate before this one."
    record(path, of, pick={"state": "not yet", "says": says, "ran": False})
    assert states(path, of)[0] == (panel.BEGUN, "You stopped Validate before this one.")


def test_the_pictures_of_a_check_are_kept_with_their_words_until_the_answer_changes_or_the_chapter_is_reset(
    tmp_path: Path,
):
    path, of = tmp_path / "a.ipynb", notebook("x = 1")
    drawn = {"data": {"image/png": base64.b64encode(b"png").decode()}, "metadata": {"image/png": {"alt": "Two bars."}}}
    panel.keep_pictures(path, {"pick": [{"name": "stdout", "text": "✓"}, drawn, *[drawn] * 9]})
    record(path, of, pick={"state": "not yet", "says": "pick: not yet. No."})
    assert panel.shown(path, of)["exercises"][0]["pictures"] == ["Two bars."] * panel.FEW
    assert panel.picture(path, "pick", 0) == b"png"
    with pytest.raises(LookupError):
        panel.picture(path, "pick", 9)
    assert panel.shown(path, notebook("x = 2"))["exercises"][0]["pictures"] == []
    resetting.forget(path)
    with pytest.raises(LookupError):
        panel.picture(path, "pick", 0)


def test_it_says_whether_the_notebook_can_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.ipynb"
    path.write_text("{}")
    assert panel.saves(path)
    monkeypatch.setattr(os, "access", lambda place, mode: place != tmp_path)  # its folder cannot be written
    assert not panel.saves(path)
