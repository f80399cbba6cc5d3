"""A browser, and pages in it as a phone, a screen and paper show them."""

from __future__ import annotations

import base64
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


READ = (Path(__file__).parent / "read_page.js").read_text(encoding="utf-8")
SCREENS = [(390, "dark"), (1280, "light")]  # no colour depends on a width, and no width on a theme


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


def opened(browser: Chrome, address: str, width: int, theme: str = "light", media: str = "") -> None:
    """Open a page on a screen of that width."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get(address)


def stumbled(browser: Chrome, picture: Path) -> list[str]:
    """Where a reader of the page stumbles: what is too wide, broken or pale. A picture of the whole page is kept."""
    wide = browser.execute_script("return window.innerWidth")
    height = min(browser.execute_script("return document.documentElement.scrollHeight"), 12000)
    clip = {"x": 0, "y": 0, "width": wide, "height": height, "scale": 1}
    seen = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    picture.write_bytes(base64.b64decode(seen["data"]))
    return browser.execute_script(READ)
