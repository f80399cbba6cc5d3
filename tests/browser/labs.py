"""The JupyterLab of `across lab` in a browser: started on a folder, a notebook opened, run, saved and validated in it."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import serving as jupyter
from PIL import Image
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

CHAPTER = "03_device_placement"
LOADS, RUNS = 60.0, 180.0  # seconds; deadlines
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
SIDE = ".across-exercises"


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


@contextmanager
def serving(home: Path, notebooks: Path, *options: str, before: Sequence[str] = ()) -> Iterator[Lab]:
    """`across lab` on a folder of notebooks, for a user whose home is `home`; ended with the block. `before` its command."""
    command = [*before, sys.executable, "-c", "from across.cli import main; main()", "lab", "--no-browser"]
    user = {"HOME": str(home), "JUPYTER_DATA_DIR": str(home / ".local/share/jupyter")}
    env = {**os.environ, "ACROSS_COURSE": str(notebooks.parent), **user}
    with jupyter.serving([*command, "--port", str(jupyter.free_port()), *options], home, env, home / "log") as url:
        yield Lab(url, notebooks, home)


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


def on_the_start_page(browser: Chrome, lab: Lab) -> None:
    browser.get(lab.url.replace("?", "?reset&"))
    until(browser, LOADS, lambda b: shown(b, ".across-start h1"), "the start page")
    until(browser, LOADS, lambda b: not shown(b, ".across-start[data-looking]"), "what this machine shows")


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


def press_validate(browser: Chrome, validate: str = "Validate") -> None:
    button = f'//jp-button[contains(., "{validate}")] | //button[contains(., "{validate}")]'
    until(browser, LOADS, lambda b: b.find_element(By.XPATH, button).click() or True, "the button Validate")


def validated(browser: Chrome, validate: str = "Validate") -> str:
    """Press Validate; what the panel says when it has ended."""
    press_validate(browser, validate)
    until(browser, RUNS, lambda b: shown(b, f"{SIDE} .told p"), "Validate's answer")
    return browser.find_element(By.CSS_SELECTOR, SIDE).text


def errors(cells: list[dict[str, Any]]) -> list[str]:
    return [output["evalue"] for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]


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


def themed(lab: Lab, theme: str) -> None:
    settings = lab.home / ".jupyter/lab/user-settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"theme": theme}), encoding="utf-8")
