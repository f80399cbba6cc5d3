"""Validate waits for a save that is under way, and says what it does while it does it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from across._jupyter.validating import Asked, saved, told_under_way
from across._jupyter.validation import NOT_YET, PASSES, PENDING, TRIED, Standing


async def _saved_while_written(notebook: Path, text: str) -> float:
    start = time.monotonic()
    waiting = asyncio.create_task(saved(notebook))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    notebook.write_text(text, encoding="utf-8")
    await asyncio.wait_for(waiting, 5)
    return time.monotonic() - start


@pytest.mark.parametrize("half", ["", '{"cells": ['])
def test_an_emptied_file_or_half_of_one_is_waited_for_until_it_is_whole(tmp_path: Path, half: str):
    notebook = tmp_path / "a.ipynb"
    notebook.write_text(half, encoding="utf-8")
    assert asyncio.run(_saved_while_written(notebook, '{"cells": []}')) >= 0.3


def test_what_is_never_a_notebook_is_handed_on_after_the_deadline(tmp_path: Path):
    notebook = tmp_path / "a.ipynb"
    notebook.write_text("no JSON", encoding="utf-8")
    asyncio.run(asyncio.wait_for(saved(notebook, seconds=0.2), 5))
    assert notebook.read_text(encoding="utf-8") == "no JSON"


def test_a_missing_file_is_not_waited_for(tmp_path: Path):
    asyncio.run(asyncio.wait_for(saved(tmp_path / "none.ipynb", seconds=60), 5))


def _asked(name: str, *states: str) -> Asked:
    asked = Asked(Path(name))
    asked.note(tuple(Standing(f"e{i}", 2.0, f"e{i}", state, seconds=4.0) for i, state in enumerate(states)))
    return asked


def test_while_it_runs_it_says_what_is_tried_how_long_that_took_the_last_time_and_how_many_are_known():
    asked = _asked("a.ipynb", NOT_YET, TRIED, PENDING)
    asked.since -= 2
    told = told_under_way(asked, asked)
    assert told["now"] == "Exercise e1 is being tried."
    assert told["seconds"] == "2 s; it took 4 s the last time"
    assert told["says"] == "1 of 3 checks are known."
    assert told["exercises"][0]["title"] == "Exercise e0 (2 points)"
    ended = _asked("a.ipynb", NOT_YET, PASSES)
    assert told_under_way(ended, ended)["now"] == "The kernel ends."
    asked.stop.ask()
    assert told_under_way(asked, asked)["now"] == "It is being stopped."


def test_one_that_waits_for_another_notebook_says_so():
    told = told_under_way(Asked(Path("b.ipynb")), _asked("a.ipynb", TRIED))
    assert told["now"] == "It waits: a.ipynb is being validated."
