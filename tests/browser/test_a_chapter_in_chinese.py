"""The course in Chinese, in a real browser: `across lab --lang zh`, and what is ours on the page is Chinese."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import browsers
import labs
import pytest
from labs import (
    CHAPTER,
    LOADS,
    RUNS,
    Lab,
    errors,
    executed,
    has_idle_kernel,
    on_the_start_page,
    opened,
    run_all,
    shown,
    until,
    validated,
)
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from autograder.authoring import build, in_language
from autograder.model.course import find

RUN, VALIDATE = "运行", "验证"  # JupyterLab's menu, and our button
BLANK = "还没有作答"  # what a check says of an answer that nobody wrote
OWN = ("prediction: not attempted yet", "variables_on: not repaired yet")  # the chapter's own sentences are English


@pytest.fixture(scope="module")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """`across lab --lang zh` on a copy of the chapter in both languages."""
    notebooks = tmp_path_factory.mktemp("course") / "notebooks"
    (notebooks / "zh").mkdir(parents=True)
    course = find()
    release = build.release(course, CHAPTER)
    (notebooks / f"{CHAPTER}.ipynb").write_text(build.dumps(release), encoding="utf-8")
    chinese = build.dumps(in_language.chapter(course, "zh", CHAPTER, release))
    (notebooks / "zh" / f"{CHAPTER}.ipynb").write_text(chinese, encoding="utf-8")
    words = in_language.words(course, "zh", [CHAPTER])
    (notebooks / "zh" / ".words.json").write_text(words, encoding="utf-8")
    with labs.serving(tmp_path_factory.mktemp("home"), notebooks, "--lang", "zh") as started:
        yield started


def test_jupyterlab_opens_on_the_start_page_in_chinese_and_the_page_leads_to_the_chinese_chapter(
    browser: Chrome, lab: Lab, screenshots: Path
):
    on_the_start_page(browser, lab)
    browser.save_screenshot(screenshots / "zh_start.png")
    assert shown(browser, ".across-start h1").text == "从这里开始"
    assert [each.text for each in browser.find_elements(By.CSS_SELECTOR, ".jp-DirListing-itemText")] == [
        f"{CHAPTER}.ipynb"
    ]
    assert shown(browser, ".jp-BreadCrumbs-item[title='zh']")
    assert "放置、拷贝和" in shown(browser, ".across-start").text
    assert "处理器核心" in shown(browser, ".across-start").text
    menus = [label.text for label in browser.find_elements(By.CSS_SELECTOR, ".lm-MenuBar-itemLabel")]
    assert RUN in menus
    assert "Run" not in menus
    shown(browser, ".across-start .next a").click()
    until(browser, LOADS, has_idle_kernel, "the chapter, opened from the start page")
    until(browser, LOADS, lambda b: "每个 op 在哪个设备上运行" in b.page_source, "the first cell's prose")
    settings = list((lab.home / ".jupyter").rglob("*.jupyterlab-settings"))
    assert [each for each in settings if "locale" in each.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("width", [390, 1440])
def test_the_start_page_of_all_chapters_is_no_wider_than_its_window(browser: Chrome, lab: Lab, width: int):
    course = find()
    for name in course.chapters:
        if not (lab.notebooks / f"{name}.ipynb").exists():
            (lab.notebooks / f"{name}.ipynb").write_bytes(course.notebook(name).read_bytes())
    base, query = lab.url.split("?", 1)
    browsers.opened(browser, f"{base.removesuffix('/lab')}/across/start?{query}", width)
    wide = until(browser, LOADS, lambda b: b.execute_script("return document.documentElement.scrollWidth"), "the page")
    assert wide <= width
    assert len(browser.find_elements(By.CSS_SELECTOR, ".across-start .chapters li")) == len(course.chapters)


@pytest.mark.slow
def test_prose_checks_and_validate_are_chinese(browser: Chrome, lab: Lab, screenshots: Path):
    path = lab.notebooks / "zh" / f"{CHAPTER}.ipynb"
    opened(browser, lab, f"zh/{CHAPTER}.ipynb")
    until(browser, LOADS, lambda b: "每个 op 在哪个设备上运行" in b.page_source, "the first cell's prose")
    browser.save_screenshot(screenshots / "zh_opened.png")
    run_all(browser, RUN)
    cells = until(browser, RUNS, lambda b: executed(b, path), "every cell of the notebook executed")
    checks = [cell for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade")]
    said = errors(checks)
    assert len(said) == len(checks)
    assert [each for each in said if BLANK not in each and not each.startswith(OWN)] == []
    browser.execute_script(
        "[...document.querySelectorAll('.jp-OutputArea-output')].find(e => e.textContent.includes('" + BLANK + "'))"
        ".scrollIntoView({block: 'center'})"
    )
    browser.save_screenshot(screenshots / "zh_checks.png")
    answer = validated(browser, VALIDATE)
    browser.save_screenshot(screenshots / "zh_validated.png")
    assert answer.count("未开始") == len(checks)  # the answer in prose, too, is as it was released
    assert "8 个检查中通过了 0 个 · 0/23 分" in answer
