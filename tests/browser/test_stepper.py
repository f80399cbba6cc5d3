"""A stepper in JupyterLab: the arrow keys move through its pictures, and the notebook's own keys stay out of it.

A folded cell with a long first line makes the notebook no wider than its window.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from labs import LOADS, RUNS, Lab, active_cell, opened, run_all, until
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By

SOURCE = """from across import ring
ring.walk([[(0, 1, 0), (1, 0, 1)], [(0, 1, 1), (1, 0, 0)]], [[3, 1], [2, 5]], title="two devices")"""
FOLDED = "x = 1  # " + "and so on, " * 40
WIDER = "const e = document.querySelector('.jp-WindowedPanel-outer'); return e.scrollWidth - e.clientWidth"


def test_the_arrow_keys_move_through_the_steps_and_a_folded_cell_is_cut_at_the_window(
    browser: Chrome, lab: Lab, screenshots: Path
):
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(SOURCE),
            nbformat.v4.new_code_cell("1 + 1"),
            nbformat.v4.new_code_cell(FOLDED, metadata={"jupyter": {"source_hidden": True}}),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(notebook, lab.notebooks / "steps.ipynb")
    opened(browser, lab, "steps.ipynb")
    until(browser, LOADS, lambda b: b.find_element(By.CSS_SELECTOR, ".jp-PlaceholderText").text, "the folded cell")
    assert browser.execute_script(WIDER) == 0
    run_all(browser)
    slider = until(browser, RUNS, lambda b: b.find_element(By.CSS_SELECTOR, "figure input[type=range]"), "a slider")
    slider.click()
    cell = active_cell(browser).partition("title")[0]
    ActionChains(browser).send_keys(
        Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_LEFT, Keys.ARROW_RIGHT, Keys.ARROW_UP
    ).perform()

    def seen(b: Chrome) -> list[bool]:
        return [each.is_displayed() for each in b.find_elements(By.CSS_SELECTOR, "figure [data-words]")]

    until(browser, LOADS, lambda b: seen(b) == [False, False, True], "the last of three pictures alone")
    said = browser.find_element(By.CSS_SELECTOR, "figure output").text
    browser.save_screenshot(screenshots / "stepper.png")
    assert said == "after step 1 of 0 to 1: 2 pieces were sent, and put in the place of their own"
    assert cell
    assert active_cell(browser).startswith(cell)
