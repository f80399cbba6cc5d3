"""What is moved by hand: by arrow keys in JupyterLab, whose own keys stay out of it; by a finger; and without scripts."""

from __future__ import annotations

from pathlib import Path

import browsers
import nbformat
import pytest
from labs import LOADS, RUNS, Lab, active_cell, opened, run_all, until
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By

from across import hands, placement

SOURCE = """from across import hands
hands.draw_lines({"twice": lambda n, size: 2 * n * size, "a part": lambda n, size: size / n},
                 {"devices": [2, 4, 8], "MB": [1, 10, 100]}, title="MODEL: two rules", y="seconds", start=(4, 10), log=True)"""


def words(browser: Chrome) -> str:
    return browser.find_element(By.CSS_SELECTOR, "figure output").text


@pytest.fixture
def page(tmp_path: Path) -> str:
    found = eval(SOURCE.partition("\n")[2], {"hands": hands})
    text = found._repr_mimebundle_()[0]["text/html"]
    (tmp_path / "page.html").write_text(f'<!doctype html><meta charset="utf-8">{text}', encoding="utf-8")
    return (tmp_path / "page.html").as_uri()


def test_arrow_keys_move_the_lines_in_jupyterlab_and_no_cell(browser: Chrome, lab: Lab, screenshots: Path):
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(SOURCE), nbformat.v4.new_code_cell("1 + 1")],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(notebook, lab.notebooks / "hands.ipynb")
    opened(browser, lab, "hands.ipynb")
    run_all(browser)
    until(browser, RUNS, lambda b: b.find_element(By.CSS_SELECTOR, "figure input").is_displayed(), "sliders")
    assert words(browser) == "seconds: twice 80, a part 2.5; devices 4, MB 10"
    first, second = browser.find_elements(By.CSS_SELECTOR, "figure input")
    first.click()
    cell = active_cell(browser).partition("title")[0]
    before = browser.find_element(By.TAG_NAME, "polyline").get_attribute("points")
    ActionChains(browser).send_keys(Keys.END, Keys.TAB, Keys.HOME).perform()
    until(browser, LOADS, lambda b: words(b) == "seconds: twice 16, a part 0.125; devices 8, MB 1", "the last devices")
    assert browser.find_element(By.TAG_NAME, "polyline").get_attribute("points") != before
    assert second.get_attribute("aria-valuetext") == "1"
    browser.save_screenshot(screenshots / "hands.png")
    assert cell
    assert active_cell(browser).startswith(cell)


def test_a_finger_on_the_chart_moves_along_it_and_the_table_follows_a_slider(browser: Chrome, page: str):
    browsers.opened(browser, page, 390)
    svg = browser.find_element(By.TAG_NAME, "svg")
    finger = ActionBuilder(browser, mouse=PointerInput("touch", "finger"))
    finger.pointer_action.move_to(svg, 150, 0).pointer_down().pointer_up()
    finger.perform()
    assert words(browser) == "seconds: twice 160, a part 1.25; devices 8, MB 10"
    browser.find_elements(By.TAG_NAME, "input")[1].send_keys(Keys.END)
    told = "MODEL: two rules, in seconds, at MB 100. twice 400 at 2, 1.6e+03 at 8; a part 50 at 2, 12.5 at 8."
    assert svg.find_element(By.XPATH, "../img").get_attribute("alt") == told
    browser.find_element(By.TAG_NAME, "summary").click()
    cells = [each.text for each in browser.find_elements(By.TAG_NAME, "td")]
    assert cells == ["2", "400", "50", "4", "800", "25", "8", "1.6e+03", "12.5"]


def test_without_scripts_there_are_the_picture_the_sentence_and_a_table(browser: Chrome, page: str):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browsers.opened(browser, page, 1280)
        images = browser.find_elements(By.TAG_NAME, "img")
        assert [each.is_displayed() for each in images] == [True, False]
        assert not any(each.is_displayed() for each in browser.find_elements(By.TAG_NAME, "input"))
        browser.find_element(By.TAG_NAME, "summary").click()
        assert "2.5" in browser.find_element(By.TAG_NAME, "table").text
        assert words(browser).startswith("seconds: twice 80")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


CPUS = ("CPU:0", "CPU:1", "CPU:2")


@pytest.fixture
def lanes(tmp_path: Path) -> str:
    def ran(device: str) -> placement.Trace:
        x = placement.Op("x", "Input", "CPU:0", "float32", (2, 4), kind="input")
        stays = placement.Op("read", "ReadVariableOp", "CPU:0", "float32", (2, 4), ("x",))
        moves = placement.Op("product", "MatMul", device, "float32", (2, 4), ("x", "read"))
        return placement.Trace((x, stays, moves), CPUS)

    found = hands._placed(ran("CPU:0"), [ran(device) for device in CPUS], "Two ops", CPUS)
    text = found._repr_mimebundle_()[0]["text/html"]
    (tmp_path / "lanes.html").write_text(f'<!doctype html><meta charset="utf-8">{text}', encoding="utf-8")
    return (tmp_path / "lanes.html").as_uri()


@pytest.mark.parametrize("kind", ["mouse", "touch"])
def test_an_op_is_dragged_to_another_lane_and_one_that_tensorflow_holds_goes_back(
    browser: Chrome, lanes: str, kind: str
):
    browsers.opened(browser, lanes, 390, "dark")
    assert words(browser) == "TensorFlow's placement: 0 copies, 0 bytes"
    read, product = browser.find_elements(By.CSS_SELECTOR, "[role=slider]")
    hand = ActionBuilder(browser, mouse=PointerInput(kind, kind))
    hand.pointer_action.move_to(product).pointer_down().move_by(60, 2).move_by(60, 2).pointer_up()
    hand.perform()
    assert words(browser) == "MatMul product on CPU:1. SIMULATED: 2 copies, 64 bytes"
    assert browser.find_element(By.CSS_SELECTOR, "svg text").text == "Two ops (SIMULATED)"
    group = browser.find_element(By.CSS_SELECTOR, "svg[role=group]")
    assert group.get_attribute("aria-label") == "Two ops: SIMULATED: 2 copies, 64 bytes"
    read.send_keys(Keys.ARROW_RIGHT)
    assert words(browser).startswith(
        "RECORDED: ReadVariableOp read, pinned to CPU:1, ran on CPU:0. SIMULATED: 2 copies"
    )
    product.send_keys(Keys.ARROW_LEFT)
    assert words(browser).endswith("TensorFlow's placement: 0 copies, 0 bytes")
