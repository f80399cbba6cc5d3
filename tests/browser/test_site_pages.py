"""The site in a real browser: read on a phone and on a screen, light and dark, by the keyboard, and searched."""

from __future__ import annotations

import functools
import http.server
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import browsers
import pytest
from browsers import opened
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from autograder.model.course import find
from course_site import built

CHAPTER = "03_device_placement"
PAGES = ("index.html", f"chapters/{CHAPTER}.html", f"about/{CHAPTER}.html", "zh/index.html")
LEVELS = "return [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((each) => +each.nodeName[1])"
SEARCHED = 30.0  # seconds; a deadline


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two chapters without outputs."""
    out = tmp_path_factory.mktemp("site") / "site"
    built.build(find(), out, names=["01_gpu_setup", CHAPTER], execute=False)
    return out


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    """The address of the site."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(10)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "theme"), browsers.SCREENS)
def test_a_page_is_as_wide_as_the_screen_breaks_no_word_and_can_be_read(browser, site, screenshots, page, width, theme):
    opened(browser, f"{site}/{page}", width, theme)
    found = browsers.stumbled(browser, screenshots / f"site_{page.replace('/', '_')}_{width}_{theme}.png")
    assert not found, "\n".join(found)


def test_the_source_of_a_check_is_folded_and_unfolds_by_the_keyboard(browser, site):
    opened(browser, f"{site}/chapters/{CHAPTER}.html", 1280)
    imports, check, *_ = browser.find_elements(By.CSS_SELECTOR, "div.cell details.hide")
    assert not imports.find_element(By.CSS_SELECTOR, ".cell_input").is_displayed()
    assert check.find_element(By.TAG_NAME, "summary").accessible_name == "Show its source"
    source = check.find_element(By.CSS_SELECTOR, ".cell_input")
    assert not source.is_displayed()
    check.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    WebDriverWait(browser, SEARCHED).until(lambda _: source.is_displayed())
    assert "with attempt(" in source.text


def test_code_that_is_wider_than_a_phone_is_reached_by_the_keyboard(browser, site):
    opened(browser, f"{site}/chapters/{CHAPTER}.html", 390)
    wide, reached = browser.execute_script(
        "const each = [...document.querySelectorAll('pre')].filter((pre) => pre.scrollWidth > pre.clientWidth);"
        "return [each.length, each.filter((pre) => pre.tabIndex === 0).length]"
    )
    assert wide == reached > 0


@pytest.mark.parametrize("served", [True, False])
@pytest.mark.parametrize(
    ("language", "words", "seen"), [("", "pinned", "pinned"), ("zh/", "拷贝", "拷贝"), ("zh/", "默认设备", "设备")]
)
def test_a_search_leads_to_the_chapter_and_shows_a_line_around_what_it_found(
    browser, folder, site, language, words, seen, served
):
    opened(browser, f"{site if served else folder.as_uri()}/{language}index.html", 1280)
    browser.find_element(By.CSS_SELECTOR, "input[name=q]").send_keys(words, Keys.ENTER)
    there = f"#search-results li:has(a[href*='chapters/{CHAPTER}.html']) .context"
    said = WebDriverWait(browser, SEARCHED).until(
        lambda driver: next((e.text for e in driver.find_elements(By.CSS_SELECTOR, there) if e.is_displayed()), "")
    )
    assert seen in said.lower()


def test_the_same_page_in_the_other_language_is_reached_by_the_keyboard_and_so_is_the_way_back(browser, site):
    opened(browser, f"{site}/chapters/{CHAPTER}.html", 1280)
    for page, title in ((f"zh/chapters/{CHAPTER}.html", "设备放置"), (f"chapters/{CHAPTER}.html", "Device placement")):
        for _ in range(40):
            ActionChains(browser).send_keys(Keys.TAB).perform()
            if browser.execute_script("return document.activeElement.matches('nav.languages a')"):
                break
        browser.switch_to.active_element.send_keys(Keys.ENTER)
        WebDriverWait(browser, SEARCHED).until(lambda driver, page=page: driver.current_url == f"{site}/{page}")
        assert browser.find_element(By.TAG_NAME, "h1").text.startswith(title)


@pytest.mark.parametrize("page", PAGES[:3])
def test_headings_are_in_order_and_nothing_is_loaded_from_elsewhere(browser, site, page):
    opened(browser, f"{site}/{page}", 1280)
    levels = browser.execute_script(LEVELS)
    assert levels[0] == 1
    assert [(one, two) for one, two in itertools.pairwise(levels) if two > one + 1] == []
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert loaded
    assert [name for name in loaded if not name.startswith((site, "data:"))] == []
