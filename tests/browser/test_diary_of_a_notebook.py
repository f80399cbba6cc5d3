"""`across lab --diary` in a browser: at which exercise one was is written down, in one file of the user's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import labs
import pytest
from labs import LOADS, PANEL, Lab, opened, shown, until
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from test_exercises_beside_the_notebook import written


@pytest.fixture
def with_diary(chromium: str, tmp_path: Path) -> Iterator[Lab]:
    """`across lab --diary` on a chapter."""
    notebooks = tmp_path / "course" / "notebooks"
    notebooks.mkdir(parents=True)
    written(notebooks / "01_slow.ipynb", mine="mine = 1")
    with labs.serving(tmp_path, notebooks, "--diary") as started:
        yield started


def test_the_exercise_whose_cell_is_selected_and_what_its_check_says_are_written_down(browser: Chrome, with_diary: Lab):
    file = with_diary.home / ".local/share/jupyter/across/diary.jsonl"

    def noted(_: Chrome) -> list[tuple[str, str, str]]:
        lines = file.read_text().splitlines() if file.is_file() else []
        return [(each["event"], each["exercise"], each.get("state", "")) for each in map(json.loads, lines)]

    opened(browser, with_diary, "01_slow.ipynb")
    until(browser, LOADS, lambda b: ("at", "", "") in noted(b), "that one reads")
    cell = "//*[contains(@class, 'jp-Cell')][contains(., 'def quick')]//*[contains(@class, 'jp-InputArea-prompt')]"
    until(browser, LOADS, lambda b: b.find_element(By.XPATH, cell).click() or True, "the answer's cell")
    until(browser, LOADS, lambda b: ("at", "quick", "") in noted(b), "the exercise")
    labs.run_all(browser)
    until(browser, LOADS, lambda b: ("said", "quick", "not yet") in noted(b), "what its check said")
    assert shown(browser, PANEL)
    assert "your diary is" in (with_diary.home / "log").read_text()
