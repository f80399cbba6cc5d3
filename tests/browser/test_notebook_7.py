"""A chapter in Notebook 7, which `across lab` serves beside JupyterLab: folded sources, pictures, checks and Validate."""

from __future__ import annotations

import re

import nbformat
import pytest
from labs import CHAPTER, LOADS, RUNS, SIDE, Lab, active_cell, run_all, shown, until, validated
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

IDLE = '.jp-Notebook-ExecutionIndicator[data-status="idle"]'
NUMBER = re.compile(r"\[\d+\]:")
PICTURES = ".jp-OutputArea-output img[alt]"


def address(lab: Lab, name: str = CHAPTER) -> str:
    base, query = lab.url.split("?", 1)
    return f"{base.removesuffix('/lab')}/notebooks/{name}.ipynb?{query}"


def ended(browser: Chrome) -> bool:
    """Whether the last cell has a number."""
    return bool(
        NUMBER.fullmatch(browser.find_elements(By.CSS_SELECTOR, ".jp-CodeCell .jp-InputPrompt")[-1].text.strip())
    )


@pytest.mark.slow
def test_a_chapter_runs_and_is_validated_in_notebook_7(browser: Chrome, lab: Lab, screenshots):
    browser.get(address(lab))
    until(browser, LOADS, lambda b: b.find_element(By.CSS_SELECTOR, IDLE), "an idle kernel")
    until(browser, LOADS, lambda b: b.find_elements(By.CSS_SELECTOR, ".jp-InputPlaceholder"), "folded sources")
    run_all(browser)
    said = "//*[contains(@class, 'jp-OutputArea')]//*[contains(text(), 'not attempted yet')]"
    until(browser, RUNS, lambda b: b.find_elements(By.XPATH, said), "a check's sentence")
    until(browser, RUNS, lambda b: len(b.find_elements(By.CSS_SELECTOR, PICTURES)) > 5, "pictures with alt text")
    until(browser, RUNS, ended, "the end of the run")
    browser.save_screenshot(str(screenshots / "notebook_7.png"))
    assert validated(browser).count("not begun") == 9
    browser.save_screenshot(str(screenshots / "notebook_7_validated.png"))


def test_on_a_phone_validate_is_in_the_toolbar_and_the_panel_as_wide_as_the_window(
    browser: Chrome, lab: Lab, screenshots
):
    of_answer = {"grade_id": "one", "points": 1, "schema_version": 3, "cell_type": "code", "task": False}
    cells = [
        nbformat.v4.new_code_cell("from across.attempt import attempt"),
        *(
            nbformat.v4.new_code_cell(
                source,
                metadata={
                    "nbgrader": of_answer | {"grade_id": id_, "grade": check, "solution": not check, "locked": check},
                    "across": {"exercise": "one", "answers": ["one"]},
                },
            )
            for id_, source, check in (("one", "one = 1", False), ("check_one", "with attempt('one'):\n    one", True))
        ),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), lab.notebooks / "seven.ipynb"
    )
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.get(address(lab, "seven"))
        until(browser, LOADS, lambda b: b.find_element(By.CSS_SELECTOR, IDLE), "an idle kernel")
        assert "1 of 1 checks pass" in validated(browser)
        until(
            browser,
            LOADS,
            lambda b: b.find_element(By.CSS_SELECTOR, SIDE).rect["width"] >= 380,
            "the panel, as wide as the window",
        )
        browser.save_screenshot(str(screenshots / "notebook_7_narrow.png"))
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        browser.find_element(By.CSS_SELECTOR, f"{SIDE} a[data-cell='one']").click()
        until(browser, LOADS, lambda b: "one = 1" in active_cell(b), "the cell of the answer")
        assert not shown(browser, SIDE)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
