"""A chapter in Notebook 7, which `across lab` serves beside JupyterLab: folded sources, pictures, checks and Validate."""

from __future__ import annotations

import re

import pytest
from labs import CHAPTER, LOADS, RUNS, Lab, run_all, until, validated
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

IDLE = '.jp-Notebook-ExecutionIndicator[data-status="idle"]'
NUMBER = re.compile(r"\[\d+\]:")
PICTURES = ".jp-OutputArea-output img[alt]"


def address(lab: Lab) -> str:
    base, query = lab.url.split("?", 1)
    return f"{base.removesuffix('/lab')}/notebooks/{CHAPTER}.ipynb?{query}"


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
