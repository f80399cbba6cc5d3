"""Validate waits for a save that is under way."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from across._jupyter.validating import saved


async def _saved_while_written(notebook: Path, text: str) -> float:
    start = time.monotonic()
    waiting = asyncio.create_task(saved(notebook))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    notebook.write_text(text, encoding="utf-8")
    await asyncio.wait_for(waiting, 5)
    return time.monotonic() - start


def test_an_emptied_file_is_waited_for_until_it_is_filled(tmp_path: Path):
    notebook = tmp_path / "a.ipynb"
    notebook.write_text("", encoding="utf-8")
    assert asyncio.run(_saved_while_written(notebook, '{"cells": []}')) >= 0.3


def test_half_a_file_is_waited_for(tmp_path: Path):
    notebook = tmp_path / "a.ipynb"
    notebook.write_text('{"cells": [', encoding="utf-8")
    assert asyncio.run(_saved_while_written(notebook, '{"cells": []}')) >= 0.3


def test_what_is_never_a_notebook_is_handed_on_after_the_deadline(tmp_path: Path):
    notebook = tmp_path / "a.ipynb"
    notebook.write_text("no JSON", encoding="utf-8")
    asyncio.run(asyncio.wait_for(saved(notebook, seconds=0.2), 5))
    assert notebook.read_text(encoding="utf-8") == "no JSON"


def test_a_missing_file_is_not_waited_for(tmp_path: Path):
    asyncio.run(asyncio.wait_for(saved(tmp_path / "none.ipynb", seconds=60), 5))
