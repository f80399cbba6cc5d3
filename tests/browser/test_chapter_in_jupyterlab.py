"""A chapter in a real browser: it opens in the JupyterLab of `across lab`, runs, and Validate says the truth about it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import browsers
import pytest
from PIL import Image
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from autograder.authoring import build
from autograder.model.course import find

pytestmark = pytest.mark.browser

CHAPTER = "03_device_placement"
STARTS, LOADS, RUNS = 120.0, 60.0, 180.0  # seconds; deadlines
ERROR = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'
SCROLL = f"""
const said = [...document.querySelectorAll('{ERROR}')].find(each => each.textContent.includes('not attempted'));
if (said) said.scrollIntoView({{block: 'center'}});
return Boolean(said);
"""
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address with the token, and the folder that it serves."""

    url: str
    notebooks: Path
    home: Path  # of its user: settings

    def address(self, notebook: str) -> str:
        """Where `notebook` opens, in a workspace without leftovers."""
        base, query = self.url.split("?", 1)
        return f"{base}/tree/{notebook}?reset&{query}"


@pytest.fixture(scope="session")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """`across lab` on two copies of the chapter: as released, and solved."""
    home = tmp_path_factory.mktemp("home")
    notebooks = tmp_path_factory.mktemp("course") / "notebooks"
    notebooks.mkdir()
    course = find()
    chapter = course.full_name(CHAPTER)
    (notebooks / f"{chapter}.ipynb").write_text(build.dumps(build.release(course, chapter)), encoding="utf-8")
    (notebooks / "solved.ipynb").write_text(build.dumps(build.solved(course, chapter)), encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from across.cli import main; main()", "lab", "--no-browser", "--port", str(port)]
    user = {"HOME": str(home), "JUPYTER_DATA_DIR": str(home / ".local/share/jupyter")}
    env = {**os.environ, "ACROSS_COURSE": str(notebooks.parent), **user}
    log = home / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(command, cwd=home, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        yield Lab(_url(server, log), notebooks, home)
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        finally:
            _kill_group(server.pid)


def _url(server: subprocess.Popen[bytes], log: Path) -> str:
    """The address that JupyterLab prints, once it serves."""
    until = time.monotonic() + STARTS
    while time.monotonic() < until and server.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:\d+/lab\?token=\w+", log.read_text(errors="replace")):
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"across lab did not start:\n{log.read_text(errors='replace')[-3000:]}")


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


@pytest.fixture
def browser(chromium: str, tmp_path: Path) -> Iterator[Chrome]:
    with browsers.started(chromium, tmp_path / "profile", "window-size=1400,1000") as driver:
        yield driver


def until(browser: Chrome, seconds: float, seen: Callable[[Chrome], Any], what: str) -> Any:
    """Wait until `seen` gives something; an element that JupyterLab just replaced is looked for again."""
    return WebDriverWait(browser, seconds, 0.1, [WebDriverException]).until(
        seen, f"{what}: not seen in {seconds:.0f} s"
    )


def shown(browser: Chrome, css: str) -> WebElement | None:
    return next((element for element in browser.find_elements(By.CSS_SELECTOR, css) if element.is_displayed()), None)


def opened(browser: Chrome, lab: Lab, notebook: str) -> None:
    browser.get(lab.address(notebook))
    until(browser, LOADS, has_idle_kernel, f"an idle kernel for {notebook}")


def has_idle_kernel(browser: Chrome) -> bool:
    name = shown(browser, f"{PANEL} .jp-KernelName")
    idle = shown(browser, f'{PANEL} .jp-Notebook-ExecutionIndicator[data-status="idle"]')
    return bool(idle and name and name.text.startswith("Python 3"))


def run_all(browser: Chrome, run: str = "Run") -> None:
    menu = f'//*[contains(@class, "lm-MenuBar-itemLabel") and text()="{run}"]'
    until(browser, LOADS, lambda b: b.find_element(By.XPATH, menu).click() or True, "the menu Run")
    item = '.lm-Menu-item[data-command="runmenu:run-all"]'
    until(browser, LOADS, lambda b: b.find_element(By.CSS_SELECTOR, item).click() or True, "Run All Cells")


def executed(browser: Chrome, path: Path) -> list[dict[str, Any]] | None:
    """The code cells of the notebook as JupyterLab has just saved it; None until all of them are executed."""
    if not has_idle_kernel(browser):
        return None
    ActionChains(browser).key_down(Keys.CONTROL).send_keys("s").key_up(Keys.CONTROL).perform()
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except ValueError:  # it is being written
        return None
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    return code if all(cell["execution_count"] for cell in code) else None


def validated(browser: Chrome, validate: str = "Validate") -> str:
    """Press Validate; what its dialog says."""
    button = f'//jp-button[contains(., "{validate}")] | //button[contains(., "{validate}")]'
    until(browser, LOADS, lambda b: b.find_element(By.XPATH, button).click() or True, "the button Validate")
    dialog = until(browser, RUNS, lambda b: shown(b, ".jp-Dialog-content"), "Validate's answer")
    return dialog.text


def errors(cells: list[dict[str, Any]]) -> list[str]:
    return [output["evalue"] for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]


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


def contrast(screenshot: bytes) -> float:
    """Of the text on a picture with its background, by WCAG 2: 1 to 21. Text is what differs most from the commonest."""
    with Image.open(io.BytesIO(screenshot)) as picture:
        colours = picture.convert("RGB").getcolors(1 << 24)  # (how many pixels, colour)
    background = _luminance(max(colours)[1])
    seen = [_luminance(colour) for count, colour in colours if count >= 20]  # fewer are an edge's
    return max((max(background, each) + 0.05) / (min(background, each) + 0.05) for each in seen)


def _luminance(colour: tuple[int, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_run_all_on_the_blank_chapter_runs_every_cell_and_what_a_check_says_can_be_read(
    browser: Chrome, lab: Lab, screenshots: Path, theme: str
):
    themed(lab, theme)
    path = lab.notebooks / "blank.ipynb"
    path.write_bytes((lab.notebooks / f"{CHAPTER}.ipynb").read_bytes())
    opened(browser, lab, path.name)
    run_all(browser)
    cells = until(browser, RUNS, lambda b: executed(b, path), "every cell of the blank notebook executed")
    checks = [cell for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade")]
    assert len(errors(checks)) == len(checks)
    assert errors([cell for cell in cells if cell not in checks]) == []
    until(browser, LOADS, lambda b: b.execute_script(SCROLL), "the sentence of a check on the screen")
    sentence = next(each for each in browser.find_elements(By.CSS_SELECTOR, ERROR) if "not attempted" in each.text)
    picture = sentence.screenshot_as_png
    (screenshots / f"sentence_{theme[-5:].strip()}.png").write_bytes(picture)
    browser.save_screenshot(screenshots / f"blank_ran_{theme[-5:].strip()}.png")
    assert contrast(picture) >= 4.5


def pressed(browser: Chrome, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


def focused(browser: Chrome) -> str:
    return browser.execute_script("return document.activeElement.textContent.trim()")


def active_cell(browser: Chrome) -> str:
    """The source of the notebook's active cell, if it is on the screen."""
    cell = shown(browser, f"{PANEL} .jp-Cell.jp-mod-active")
    if cell is None:
        return ""
    inside = "const r = arguments[0].getBoundingClientRect(); return r.top >= 0 && r.top < window.innerHeight"
    return cell.text if browser.execute_script(inside, cell) else ""


def test_validate_on_the_blank_chapter_lists_every_exercise_and_leads_to_it_by_keyboard(
    browser: Chrome, lab: Lab, screenshots: Path
):
    path = lab.notebooks / f"{CHAPTER}.ipynb"
    released = json.loads(path.read_text(encoding="utf-8"))
    opened(browser, lab, path.name)
    said = validated(browser)
    browser.save_screenshot(screenshots / "blank_validated.png")
    graded = [cell for cell in released["cells"] if cell["metadata"].get("nbgrader", {}).get("grade")]
    assert len(browser.find_elements(By.CSS_SELECTOR, ".across-validation li")) == len(graded)
    for cell in graded:
        exercise = cell["metadata"]["across"]["exercise"]
        assert f"Exercise {exercise} ({cell['metadata']['nbgrader']['points']:g} point" in said
        assert f"{exercise}: " in said
    assert "with attempt(" not in said  # no source of a check
    assert "code cells ran in a fresh kernel" in said
    failed = browser.find_elements(By.CSS_SELECTOR, ".jp-Dialog-content pre, .jp-Dialog-content a")
    assert failed
    for place in failed[:4]:
        assert contrast(place.screenshot_as_png) >= 4.5, place.text
    assert focused(browser) == "Exercise where (2 points)"
    pressed(browser, Keys.TAB, Keys.TAB)
    assert focused(browser) == "Exercise prediction (1 point)"
    pressed(browser, Keys.ENTER)
    until(
        browser, LOADS, lambda b: "ReadVariableOp" in active_cell(b), "the cell of the exercise, active on the screen"
    )
    browser.save_screenshot(screenshots / "led_to_the_exercise.png")
    assert not browser.find_elements(By.CSS_SELECTOR, ".jp-Dialog-content")
    again = validated(browser)
    assert "No cell ran." in again
    assert "checks were not run again: nothing that they use has changed." in again
    button = '//*[contains(@class, "jp-Dialog-button")][contains(., "Run all again")]'
    browser.find_element(By.XPATH, button).click()
    anew = "return [...document.querySelectorAll('.jp-Dialog-content')].some(each => each.textContent.includes('cells ran'))"
    until(browser, RUNS, lambda b: b.execute_script(anew), "the answer of a run of all")
    pressed(browser, Keys.ESCAPE)
    until(browser, LOADS, lambda b: not shown(b, ".jp-Dialog-content"), "the dialog gone")


def themed(lab: Lab, theme: str) -> None:
    settings = lab.home / ".jupyter/lab/user-settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"theme": theme}), encoding="utf-8")


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_the_start_page_opens_first_is_used_by_keyboard_alone_and_is_current_when_one_comes_back(
    browser: Chrome, lab: Lab, screenshots: Path, theme: str
):
    themed(lab, theme)
    name = theme[-5:].strip()
    path = lab.notebooks / f"{CHAPTER}.ipynb"
    released = path.read_bytes()
    browser.get(lab.url.replace("?", "?reset&"))
    until(browser, LOADS, lambda b: shown(b, ".across-start h1"), "the start page")
    until(browser, LOADS, lambda b: not shown(b, ".across-start[data-looking]"), "what this machine shows")
    browser.save_screenshot(screenshots / f"start_{name}.png")
    assert "runs on 4" in shown(browser, ".across-start .chapters").text
    for css in (".next a", ".chapters h3", ".facts", ".legend"):
        assert contrast(shown(browser, f".across-start {css}").screenshot_as_png) >= 4.5, css
    until(browser, LOADS, lambda b: pressed(b, Keys.TAB) or focused(b).startswith("Begin"), "the next step by Tab")
    assert focused(browser) == "Begin 03 Device placement"
    pressed(browser, Keys.ENTER)
    until(browser, LOADS, has_idle_kernel, "the chapter, opened from the start page")
    try:
        notebook = json.loads(released)
        answer = next(cell for cell in notebook["cells"] if cell["id"] == "where")
        answer["source"] = "def where(tensor):\n    return tensor.backing_device"
        path.write_text(json.dumps(notebook), encoding="utf-8")
        button = '//jp-button[contains(., "Start page")]'
        until(browser, LOADS, lambda b: b.find_element(By.XPATH, button).click() or True, "the button Start page")
        until(browser, LOADS, lambda b: "1 of 9 exercises answered" in shown(b, ".across-start").text, "the answer")
        assert "Go on with 03 Device placement: exercise where" in shown(browser, ".across-start .next").text
    finally:
        path.write_bytes(released)


def test_nothing_but_validate_is_offered_of_nbgrader(browser: Chrome, lab: Lab):
    opened(browser, lab, f"{CHAPTER}.ipynb")
    tabs = [tab.get_attribute("title") or "" for tab in browser.find_elements(By.CSS_SELECTOR, ".lm-TabBar-tab")]
    labels = [label.text for label in browser.find_elements(By.CSS_SELECTOR, ".lm-MenuBar-itemLabel")]
    assert "Run" in labels
    assert not [name for name in (*tabs, *labels) if "nbgrader" in name.lower() or "assignment" in name.lower()]
