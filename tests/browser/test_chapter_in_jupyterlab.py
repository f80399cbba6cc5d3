"""A chapter in a real browser: it opens in the JupyterLab of `across lab`, runs, and Validate says the truth about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from labs import (
    CHAPTER,
    LOADS,
    PANEL,
    RUNS,
    SIDE,
    Lab,
    active_cell,
    contrast,
    errors,
    executed,
    focused,
    has_idle_kernel,
    on_the_start_page,
    opened,
    pressed,
    run_all,
    shown,
    themed,
    until,
    validated,
)
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # a PNG
THEMES = ("JupyterLab Light", "JupyterLab Dark")
ERROR = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'
SCROLL = f"""
const said = [...document.querySelectorAll('{ERROR}')].find(each => each.textContent.includes('not attempted'));
if (said) said.scrollIntoView({{block: 'center'}});
return Boolean(said);
"""


def test_the_solved_chapter_runs_to_its_end_and_validate_says_that_it_passes(
    browser: Chrome, lab: Lab, screenshots: Path
):
    path = lab.notebooks / "solved.ipynb"
    opened(browser, lab, path.name)
    browser.save_screenshot(screenshots / "solved_opened.png")
    run_all(browser)
    cells = until(browser, RUNS, lambda b: executed(b, path), "every cell of the solved notebook executed")
    browser.save_screenshot(screenshots / "solved_ran.png")
    assert errors(cells) == []
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"])
    said = validated(browser)
    browser.save_screenshot(screenshots / "solved_validated.png")
    assert "passes all the tests" in said
    kept = next((lab.home / ".local/share/jupyter/across/measured").glob("solved-*.json"))
    assert set(json.loads(kept.read_text())) == {"prediction"}  # its kernel knew which notebook it runs


def test_a_picture_is_seen_before_any_cell_is_run(browser: Chrome, lab: Lab, screenshots: Path):
    opened(browser, lab, f"{CHAPTER}.ipynb")
    image = until(
        browser, LOADS, lambda b: shown(b, f"{PANEL} .jp-MarkdownOutput img"), "the picture of the first cell"
    )
    until(browser, LOADS, lambda b: b.execute_script("return arguments[0].naturalWidth", image) > 0, "what is in it")
    assert image.accessible_name.startswith("Devices as lanes")
    browser.save_screenshot(screenshots / "opening.png")


def test_run_all_on_the_blank_chapter_runs_every_cell_and_what_a_check_says_can_be_read_in_both_themes(
    browser: Chrome, lab: Lab, screenshots: Path
):
    themed(lab, THEMES[0])
    path = lab.notebooks / "blank.ipynb"
    path.write_bytes((lab.notebooks / f"{CHAPTER}.ipynb").read_bytes())
    opened(browser, lab, path.name)
    run_all(browser)
    cells = until(browser, RUNS, lambda b: executed(b, path), "every cell of the blank notebook executed")
    checks = [cell for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade")]
    assert len(errors(checks)) == len(checks)
    assert errors([cell for cell in cells if cell not in checks]) == []
    for theme in THEMES:
        if theme != THEMES[0]:
            themed(lab, theme)
            opened(browser, lab, path.name)  # as it was saved
        until(browser, LOADS, lambda b: b.execute_script(SCROLL), "the sentence of a check on the screen")
        sentence = next(each for each in browser.find_elements(By.CSS_SELECTOR, ERROR) if "not attempted" in each.text)
        picture = sentence.screenshot_as_png
        (screenshots / f"sentence_{theme[-5:].strip()}.png").write_bytes(picture)
        browser.save_screenshot(screenshots / f"blank_ran_{theme[-5:].strip()}.png")
        assert contrast(picture) >= 4.5


def test_validate_on_the_blank_chapter_lists_every_exercise_and_leads_to_it_by_keyboard(
    browser: Chrome, lab: Lab, screenshots: Path
):
    path = lab.notebooks / f"{CHAPTER}.ipynb"
    released = json.loads(path.read_text(encoding="utf-8"))
    opened(browser, lab, path.name)
    said = validated(browser)
    browser.save_screenshot(screenshots / "blank_validated.png")
    graded = [cell for cell in released["cells"] if cell["metadata"].get("nbgrader", {}).get("grade")]
    lines = browser.find_elements(By.CSS_SELECTOR, f"{SIDE} li")
    assert len(lines) == len(graded)
    for cell, line in zip(graded, lines, strict=True):
        assert cell["metadata"]["across"]["exercise"] in line.text
        assert f"{cell['metadata']['nbgrader']['points']:g} point" in line.text
        assert "not begun" in line.text
    assert "0 of 8 checks pass · 0 of 23 points" in said
    assert "with attempt(" not in said  # no source of a check
    assert "code cells ran in a fresh kernel" in said
    link = f"{SIDE} li a"
    for place in browser.find_elements(By.CSS_SELECTOR, f"{link}, {SIDE} .state, {SIDE} .told p")[:6]:
        assert contrast(place.screenshot_as_png) >= 4.5, place.text
    browser.execute_script("document.querySelector(arguments[0]).focus()", link)
    assert focused(browser) == "where"
    pressed(browser, Keys.TAB, Keys.TAB)
    assert focused(browser) == "prediction"
    pressed(browser, Keys.ENTER)
    until(
        browser, LOADS, lambda b: "ReadVariableOp" in active_cell(b), "the cell of the exercise, active on the screen"
    )
    browser.save_screenshot(screenshots / "led_to_the_exercise.png")
    again = validated(browser)
    assert "No cell ran." in again
    assert "checks were not run again: nothing that they use has changed." in again
    anew = '//*[contains(@class, "across-exercises")]//button[text()="Run all again"]'
    browser.find_element(By.XPATH, anew).click()
    until(browser, RUNS, lambda b: "cells ran" in shown(b, SIDE).text, "the answer of a run of all")


@pytest.mark.parametrize("theme", THEMES)
def test_the_start_page_opens_first_and_can_be_read(browser: Chrome, lab: Lab, screenshots: Path, theme: str):
    themed(lab, theme)
    on_the_start_page(browser, lab)
    browser.save_screenshot(screenshots / f"start_{theme[-5:].strip()}.png")
    assert "runs on 4" in shown(browser, ".across-start").text
    assert shown(browser, ".across-start figure svg")
    for css in (".next a", ".chapters h3", ".facts", ".legend"):
        assert contrast(shown(browser, f".across-start {css}").screenshot_as_png) >= 4.5, css


def test_the_start_page_is_used_by_keyboard_alone_and_is_current_when_one_comes_back(browser: Chrome, lab: Lab):
    path = lab.notebooks / f"{CHAPTER}.ipynb"
    released = path.read_bytes()
    on_the_start_page(browser, lab)
    until(browser, LOADS, lambda b: pressed(b, Keys.TAB) or focused(b).startswith("Begin"), "the next step by Tab")
    assert focused(browser) == "Begin 03 Device placement"
    pressed(browser, Keys.ENTER)
    until(browser, LOADS, has_idle_kernel, "the chapter, opened from the start page")
    try:
        notebook = json.loads(released)
        answer = next(cell for cell in notebook["cells"] if cell["id"] == "where")
        answer["source"] = "def where(tensor):\n    return tensor.backing_device"
        drew = {"data": {"image/png": DOT}, "metadata": {"image/png": {"alt": "A dot."}}}
        answer["outputs"] = [{"output_type": "display_data", **drew}]
        path.write_text(json.dumps(notebook), encoding="utf-8")
        button = '//jp-button[contains(., "Start page")]'
        until(browser, LOADS, lambda b: b.find_element(By.XPATH, button).click() or True, "the button Start page")
        until(browser, LOADS, lambda b: "1 of 9 exercises answered" in shown(b, ".across-start").text, "the answer")
        box = "const i = document.querySelector('.across-start img'); return i && i.naturalWidth && i.alt"
        assert until(browser, LOADS, lambda b: b.execute_script(box), "what the run drew") == "Your run drew: A dot."
        assert "Go on with 03 Device placement: exercise split" in shown(browser, ".across-start .next").text
    finally:
        path.write_bytes(released)


def test_nothing_but_validate_is_offered_of_nbgrader(browser: Chrome, lab: Lab):
    opened(browser, lab, f"{CHAPTER}.ipynb")
    tabs = [tab.get_attribute("title") or "" for tab in browser.find_elements(By.CSS_SELECTOR, ".lm-TabBar-tab")]
    labels = [label.text for label in browser.find_elements(By.CSS_SELECTOR, ".lm-MenuBar-itemLabel")]
    assert "Run" in labels
    assert not [name for name in (*tabs, *labels) if "nbgrader" in name.lower() or "assignment" in name.lower()]
