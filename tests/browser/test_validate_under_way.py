"""While Validate runs, the page says which check is tried and what the others said; one may go to a cell, or stop it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from labs import LOADS, RUNS, Lab, opened, press_validate, shown, until
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

VIEW = ".across-under-way"


def cell(source: str, name: str, check: bool) -> nbformat.NotebookNode:
    nbgrader: dict[str, Any] = {"grade_id": f"check_{name}" if check else name, "grade": check, "solution": not check}
    nbgrader |= {"locked": check, "points": 2, "schema_version": 3, "task": False, "cell_type": "code"}
    return nbformat.v4.new_code_cell(source, metadata={"nbgrader": nbgrader, "across": {"exercise": name}})


@pytest.fixture
def slow(lab: Lab, tmp_path: Path) -> Path:
    """A chapter whose second check does not end."""
    cells = [
        nbformat.v4.new_code_cell("import time\nfrom across.attempt import attempt, expect"),
        cell("def quick():\n    return 2", "quick", check=False),
        cell("with attempt('quick'):\n    expect(quick() == 1, '`quick()` returned 2')", "quick", check=True),
        cell("def slow():\n    return 1", "slow", check=False),
        cell("with attempt('slow'):\n    time.sleep(100)", "slow", check=True),
        cell("def last():\n    return 1", "last", check=False),
        cell("with attempt('last'):\n    last()", "last", check=True),
    ]
    path = lab.notebooks / "slow.ipynb"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def test_what_validate_does_is_said_meanwhile_and_it_can_be_stopped(
    browser: Chrome, lab: Lab, slow: Path, screenshots: Path
):
    opened(browser, lab, slow.name)
    press_validate(browser)
    until(
        browser,
        RUNS,
        lambda b: (v := shown(b, VIEW)) and "Exercise slow is being tried." in v.text,
        "what is under way",
    )
    view = shown(browser, VIEW)
    assert view is not None
    browser.save_screenshot(str(screenshots / "validate_under_way.png"))
    assert "1 of 3 checks are known." in view.text
    assert "quick: not yet. `quick()` returned 2" in view.text
    assert [each.text.split()[0] for each in view.find_elements(By.CSS_SELECTOR, "li")] == ["✗", "…", "·"]
    view.find_element(By.CSS_SELECTOR, 'a[data-cell="quick"]').click()
    selected = "return document.querySelector('.jp-Notebook-cell.jp-mod-active').textContent.includes('def quick')"
    until(browser, LOADS, lambda b: b.execute_script(selected), "the cell of the answer")
    assert shown(browser, ".jp-Dialog-content") is None
    view.find_element(By.TAG_NAME, "button").click()
    dialog = until(browser, RUNS, lambda b: shown(b, ".jp-Dialog-content"), "Validate's answer")
    browser.save_screenshot(str(screenshots / "validate_stopped.png"))
    assert "slow: did not run. You stopped it before." in dialog.text
    assert "last: did not run. You stopped it before." in dialog.text
    assert "quick: not yet. `quick()` returned 2" in dialog.text
    assert not browser.find_elements(By.CSS_SELECTOR, VIEW)
