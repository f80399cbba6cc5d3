"""The panel of exercises beside a notebook: what runs now and a stop, a sentence with its picture, a reload, a second tab.

Also in a folder that nobody may write, which a bind mount of bubblewrap makes of it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import labs
import nbformat
import pytest
from labs import (
    LOADS,
    PANEL,
    RUNS,
    SIDE,
    Lab,
    active_cell,
    contrast,
    opened,
    press_validate,
    pressed,
    shown,
    themed,
    until,
    validated,
)
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

DRAWN = "from across import pictures\ndisplay(pictures.bars({'a': 1.0, 'b': 2.0}, unit='s', title='Two'))"
ODD = "<a> *b* c"  # nothing of a student's text is a mark


def cell(source: str, name: str, check: bool) -> nbformat.NotebookNode:
    nbgrader: dict[str, Any] = {"grade_id": f"check_{name}" if check else name, "grade": check, "solution": not check}
    nbgrader |= {"locked": check, "points": 2, "schema_version": 3, "task": False, "cell_type": "code"}
    ours = {"exercise": name, "answers": [name]}
    id_ = nbgrader["grade_id"]
    return nbformat.v4.new_code_cell(source, id=id_, metadata={"nbgrader": nbgrader, "across": ours})


def written(path: Path, mine: str = "for _ in range(100):\n    time.sleep(1)\nmine = 1") -> Path:
    """A chapter: one check that draws and does not pass, one that needs a cell of the student's own, and one after it."""
    no = f"'`quick()` returned 2, not {ODD}'"
    cells = [
        nbformat.v4.new_markdown_cell("# Slow and quick", id="given-0"),
        nbformat.v4.new_code_cell("import time\nfrom across.attempt import attempt, expect", id="given-1"),
        cell("def quick():\n    return 2", "quick", check=False),
        cell(f"{DRAWN}\nwith attempt('quick'):\n    expect(quick() == 1, {no})", "quick", check=True),
        nbformat.v4.new_code_cell(mine, id="mine"),
        cell("def slow():\n    return mine", "slow", check=False),
        cell("with attempt('slow'):\n    slow()", "slow", check=True),
        cell("def last():\n    return 1", "last", check=False),
        cell("with attempt('last', after=['slow']):\n    last()", "last", check=True),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def side(browser: Chrome) -> str:
    found = shown(browser, SIDE)
    return found.text if found else ""


def marks(browser: Chrome) -> list[str]:
    return [each.text.split()[0] for each in browser.find_elements(By.CSS_SELECTOR, f"{SIDE} li")]


def test_what_runs_is_said_and_stopped_and_what_is_known_survives_a_reload_and_is_the_same_in_another_tab(
    browser: Chrome, lab: Lab, screenshots: Path
):
    path = written(lab.notebooks / "slow.ipynb")
    opened(browser, lab, path.name)
    press_validate(browser)
    own = "Your cell 5 runs for exercise slow."
    until(browser, RUNS, lambda b: own in side(b), "the student's cell under way")
    browser.save_screenshot(screenshots / "panel_under_way.png")
    assert "1 of 3 checks are known." in side(browser)
    assert marks(browser) == ["✗", "…", "·"]
    shown(browser, f'{SIDE} a[data-cell="mine"]').click()
    until(browser, LOADS, lambda b: "time.sleep(1)" in active_cell(b), "the student's cell, active")
    browser.get(lab.address(path.name).replace("?reset&", "?"))
    until(browser, LOADS, lambda b: shown(b, PANEL), "the notebook after a reload")
    until(browser, LOADS, lambda b: own in side(b), "the same after a reload")
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    opened(browser, lab, path.name)
    press_validate(browser)  # shows the panel; what is under way is not begun again
    until(browser, LOADS, lambda b: own in side(b), "the same in another tab")
    shown(browser, f"{SIDE} .now button").click()
    until(browser, RUNS, lambda b: "You stopped Validate before this one." in side(b), "the stopped validation")
    browser.close()
    browser.switch_to.window(first)
    until(browser, RUNS, lambda b: "You stopped Validate before this one." in side(b), "what the other tab stopped")
    browser.save_screenshot(screenshots / "panel_stopped.png")
    assert "0 of 3 checks pass · 0 of 6 points" in side(browser)
    quick = browser.find_element(By.CSS_SELECTOR, f"{SIDE} li")
    assert "does not pass yet" in quick.text
    assert f"not yet. quick() returned 2, not {ODD}" in quick.text
    assert quick.find_element(By.CSS_SELECTOR, ".sentence code").text == "quick()"
    image = quick.find_element(By.TAG_NAME, "img")
    until(browser, LOADS, lambda b: b.execute_script("return arguments[0].naturalWidth", image) > 100, "its picture")
    assert "Two" in image.get_attribute("alt")
    assert "first make slow pass" in side(browser)
    quick.find_element(By.TAG_NAME, "a").send_keys(Keys.ENTER)
    until(browser, LOADS, lambda b: "def quick" in active_cell(b), "the cell of the exercise, by keyboard")
    pressed(browser, Keys.ENTER, Keys.END)
    pressed(browser, *"  # x")
    until(browser, LOADS, lambda b: marks(b)[0] == "◐", "an answer that changed since")


@pytest.fixture
def shared(chromium: str, tmp_path: Path) -> Iterator[Lab]:
    """`across lab` on a folder that cannot be written."""
    bwrap = shutil.which("bwrap")
    if not bwrap or subprocess.run([bwrap, "--dev-bind", "/", "/", "true"], check=False).returncode:
        pytest.skip("no bubblewrap here: nothing makes a folder read-only for whoever may do all")
    notebooks = tmp_path / "course" / "notebooks"
    notebooks.mkdir(parents=True)
    written(notebooks / "01_slow.ipynb", mine="mine = 1")
    before = (bwrap, "--dev-bind", "/", "/", "--ro-bind", str(notebooks), str(notebooks))
    with labs.serving(tmp_path, notebooks, before=before) as started:
        yield started


def test_a_notebook_that_cannot_be_saved_is_validated_as_it_is_in_the_browser(
    browser: Chrome, shared: Lab, screenshots: Path
):
    themed(shared, "JupyterLab Dark")
    browser.get(shared.address("01_slow.ipynb"))  # whose toolbar has no room for the kernel's name
    link = f'{SIDE} a[data-cell="quick"]'
    until(browser, LOADS, lambda b: shown(b, link), "the panel, which opens by itself once").click()
    until(browser, LOADS, lambda b: "def quick" in active_cell(b), "the cell of the answer")
    pressed(browser, Keys.ENTER, Keys.ARROW_DOWN, Keys.END, Keys.BACKSPACE, "1")  # in place of the 2 that it returns
    said = validated(browser)
    browser.save_screenshot(screenshots / "panel_read_only.png")
    assert "This folder cannot be written" in said
    assert "3 of 3 checks pass · 6 of 6 points" in said
    assert not shown(browser, ".jp-Dialog-content")
    twice = {"width": 0, "height": 0, "deviceScaleFactor": 2, "mobile": False}  # a word of one colour has pixels enough
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", twice)
    try:
        for css in ("[role=status]", ".told p", ".state"):
            assert contrast(shown(browser, f"{SIDE} {css}").screenshot_as_png) >= 4.5, css
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_in_a_window_as_wide_as_a_phone_the_panel_is_all_that_is_seen_and_leads_back_to_the_cell(
    browser: Chrome, lab: Lab, screenshots: Path
):
    path = written(lab.notebooks / "narrow.ipynb", mine="mine = 1")
    opened(browser, lab, path.name)
    validated(browser)
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        until(browser, LOADS, lambda b: is_all(shown(b, SIDE)), "the panel, as wide as the window")
        browser.save_screenshot(str(screenshots / "narrow_panel.png"))
        shown(browser, f'{SIDE} a[data-cell="slow"]').click()
        until(browser, LOADS, lambda b: "def slow" in active_cell(b), "the cell of the answer")
        until(browser, LOADS, lambda b: is_all(shown(b, PANEL)), "the notebook, as wide as the window")
        browser.save_screenshot(str(screenshots / "narrow_notebook.png"))
        assert not shown(browser, SIDE)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def is_all(seen: WebElement | None) -> bool:
    """Whether it has a window of 390 pixels, but for the tabs at its edges."""
    return bool(seen) and seen.rect["width"] >= 290 and seen.rect["x"] + seen.rect["width"] <= 390
