"""How the cells of a chapter look: a check is a button, what was not attempted is grey, and to open is not to change."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from labs import (
    CHAPTER,
    LOADS,
    PANEL,
    RUNS,
    Lab,
    active_cell,
    contrast,
    opened,
    pressed,
    run_all,
    shown,
    themed,
    until,
)
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from test_exercises_beside_the_notebook import written

BUTTON = f"{PANEL} .across-check-run"
SENTENCE = f"{PANEL} .across-open .jp-OutputArea-output"
THEMES = ("JupyterLab Light", "JupyterLab Dark")
UNSAVED = ".lm-TabBar-tab.jp-mod-current.jp-mod-dirty"
COLOUR = "return getComputedStyle(arguments[0]).backgroundColor"


def is_grey(colour: str) -> bool:
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return max(red, green, blue) - min(red, green, blue) <= 12


@pytest.fixture
def chapter(lab: Lab) -> Path:
    """The beginning of a chapter as it is released: its imports, a stub, and its check."""
    released = nbformat.read(lab.notebooks / f"{CHAPTER}.ipynb", as_version=4)
    wanted = [each for each in released.cells if each.id in ("where", "check_where")]
    released.cells = [nbformat.v4.new_code_cell("from across.attempt import attempt"), *wanted]
    next(each for each in wanted if each.id == "check_where").source = "with attempt('where'):\n    where(1)"
    path = lab.notebooks / "looked_at.ipynb"
    nbformat.write(released, path)
    return path


def test_a_folded_check_is_a_button_that_runs_it_what_is_not_attempted_is_grey_and_nothing_was_unsaved_before(
    browser: Chrome, lab: Lab, chapter: Path, screenshots: Path
):
    themed(lab, THEMES[0])
    opened(browser, lab, chapter.name)
    button = until(browser, LOADS, lambda b: b.find_element(By.CSS_SELECTOR, BUTTON), "a check's button")
    assert not browser.find_elements(By.CSS_SELECTOR, UNSAVED)
    assert button.text == "▶ Check where"
    browser.save_screenshot(str(screenshots / "check_folded.png"))
    run_all(browser)
    said = until(browser, RUNS, lambda b: shown(b, SENTENCE), "what the check says")
    browser.execute_script("arguments[0].dataset.before = 1", said)
    browser.find_element(By.CSS_SELECTOR, BUTTON).send_keys(Keys.ENTER)
    until(
        browser, RUNS, lambda b: shown(b, f"{SENTENCE}:not([data-before])"), "what it says when its button is pressed"
    )
    for theme in THEMES:
        if theme != THEMES[0]:
            until(browser, LOADS, is_saved, "the notebook saved")
            themed(lab, theme)
            opened(browser, lab, chapter.name)
        said = until(browser, LOADS, lambda b: shown(b, SENTENCE), "what the check says, as it was saved")
        browser.save_screenshot(str(screenshots / f"not_attempted_{theme[-5:].strip()}.png"))
        assert "where: not attempted yet" in said.text
        assert is_grey(browser.execute_script(COLOUR, said)), theme
        assert contrast(said.screenshot_as_png) >= 4.5, theme
        assert contrast(browser.find_element(By.CSS_SELECTOR, BUTTON).screenshot_as_png) >= 4.5, theme


def test_the_code_in_what_a_check_says_is_shown_as_code(browser: Chrome, lab: Lab, screenshots: Path):
    path = written(lab.notebooks / "said.ipynb", mine="mine = 1")
    for theme in THEMES:
        themed(lab, theme)
        opened(browser, lab, path.name)
        run_all(browser)
        sentence = f"{PANEL} .across-said .jp-OutputArea-output"
        said = until(browser, RUNS, lambda b, css=sentence: shown(b, css), "what the check says")
        until(browser, LOADS, lambda b, css=sentence: shown(b, f"{css} code"), "its code")
        browser.save_screenshot(str(screenshots / f"check_says_{theme[-5:].strip()}.png"))
        assert "not yet. quick() returned 2, not <a> *b* c" in said.text
        assert said.find_element(By.TAG_NAME, "code").text == "quick()"
        assert contrast(said.screenshot_as_png) >= 4.5, theme


def test_a_checks_button_judges_the_answer_that_is_on_the_screen(browser: Chrome, lab: Lab, screenshots: Path):
    path = written(lab.notebooks / "on_the_screen.ipynb", mine="mine = 1")
    notebook = nbformat.read(path, as_version=4)
    next(each for each in notebook.cells if each.id == "check_quick").metadata["jupyter"] = {"source_hidden": True}
    nbformat.write(notebook, path)
    opened(browser, lab, path.name)
    press_check(browser)
    until(browser, RUNS, lambda b: "this kernel has run nothing yet" in outputs(b), "what is to be run first")
    assert is_grey(browser.execute_script(COLOUR, shown(browser, SENTENCE)))
    run_all(browser)
    until(
        browser, RUNS, lambda b: "quick() returned 2" in outputs(b), "what the check says of the answer that was there"
    )
    in_the_answer(browser, Keys.BACKSPACE, "1")  # in place of the 2 that it returns; the cell is not run
    press_check(browser)
    until(
        browser, RUNS, lambda b: "quick: looks right so far" in outputs(b), "what it says of the one that is there now"
    )
    in_the_answer(browser, *" +")
    press_check(browser)
    until(browser, RUNS, lambda b: "the cell of your answer raised an error" in outputs(b), "that it could not be run")
    browser.save_screenshot(screenshots / "check_of_an_error.png")
    assert "looks right" not in outputs(browser)


def press_check(browser: Chrome) -> None:
    until(browser, LOADS, lambda b: b.find_element(By.CSS_SELECTOR, BUTTON).click() or True, "the check's button")


def in_the_answer(browser: Chrome, *keys: str) -> None:
    """Type at the end of `quick`."""
    cells = f"{PANEL} .jp-CodeCell"
    answer = next(each for each in browser.find_elements(By.CSS_SELECTOR, cells) if "def quick" in each.text)
    answer.find_element(By.CSS_SELECTOR, ".cm-content").click()
    until(browser, LOADS, lambda b: "def quick" in active_cell(b), "the cell of the answer")
    ActionChains(browser).key_down(Keys.CONTROL).send_keys(Keys.END).key_up(Keys.CONTROL).perform()
    pressed(browser, *keys, Keys.ESCAPE)


def outputs(browser: Chrome) -> str:
    return " ".join(each.text for each in browser.find_elements(By.CSS_SELECTOR, f"{PANEL} .jp-OutputArea-output"))


def is_saved(browser: Chrome) -> bool:
    ActionChains(browser).key_down(Keys.CONTROL).send_keys("s").key_up(Keys.CONTROL).perform()
    return not browser.find_elements(By.CSS_SELECTOR, UNSAVED)
