"""One browser and one JupyterLab for all of these tests, and where pictures of what is seen go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autograder.authoring import build
from autograder.model.course import find

if TYPE_CHECKING:
    from labs import Lab
    from selenium.webdriver import Chrome  # only the group `ci` brings it

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is here has the browser."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found or not shutil.which("chromedriver"):
        pytest.skip("no chromium with chromedriver here: apt-get install chromium chromium-driver")
    return found


@pytest.fixture(scope="session")
def window(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    import browsers

    with browsers.started(chromium, tmp_path_factory.mktemp("profile"), "window-size=1400,1000") as driver:
        yield driver


@pytest.fixture
def browser(window: Chrome) -> Chrome:
    """A tab of its own; what earlier tests had open is closed."""
    before = window.window_handles
    window.switch_to.new_window("tab")
    mine = window.current_window_handle
    for handle in before:
        window.switch_to.window(handle)
        window.close()
    window.switch_to.window(mine)
    window.set_window_size(1400, 1000)
    return window


@pytest.fixture(scope="session")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """`across lab` on two copies of the chapter: as released, and solved."""
    import labs

    notebooks = tmp_path_factory.mktemp("course") / "notebooks"
    notebooks.mkdir()
    course = find()
    (notebooks / f"{labs.CHAPTER}.ipynb").write_text(build.dumps(build.release(course, labs.CHAPTER)), encoding="utf-8")
    (notebooks / "solved.ipynb").write_text(build.dumps(build.solved(course, labs.CHAPTER)), encoding="utf-8")
    with labs.serving(tmp_path_factory.mktemp("home"), notebooks) as started:
        yield started


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of the screen go: $ACROSS_SCREENSHOTS, or pytest's temporary folder."""
    chosen = os.environ.get("ACROSS_SCREENSHOTS")
    folder = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
