"""A browser, and where pictures of what it shows go."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found or not shutil.which("chromedriver"):
        pytest.skip("no chromium with chromedriver here: apt-get install chromium chromium-driver")
    return found


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of the screen go: $ACROSS_SCREENSHOTS, or pytest's temporary folder."""
    chosen = os.environ.get("ACROSS_SCREENSHOTS")
    folder = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
