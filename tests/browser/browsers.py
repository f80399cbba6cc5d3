"""Browsers for the tests of what people see."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

FLAGS = (  # one that neither needs a screen nor looks for a network
    "headless=new no-sandbox disable-gpu disable-dev-shm-usage no-first-run disable-background-networking "
    "disable-component-update disable-sync"
)


@contextmanager
def started(chromium: str, profile: Path, *flags: str) -> Iterator[Chrome]:
    """A headless browser with that folder as its profile; ended with the block."""
    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS.split(), *flags, f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_page_load_timeout(60)
    try:
        yield driver
    finally:
        driver.quit()
