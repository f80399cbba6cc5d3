"""The pages of a class in a real browser: read on a phone, on a screen and on paper, sorted, and shut to all other scripts."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import browsers
import pytest
from browsers import opened
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from autograder.gradebook import late_penalty, record
from autograder.gradebook.record import Recorder
from autograder.model.course import Chapter, Course
from autograder.model.verdict import Evidence, Fault, Halt, Mark, Outcome, Result, Stop, Verdict
from autograder.report import class_page, course_page, feedback
from autograder.report.standing import Standing

NAMES = [
    *"ada bo dmitri lovelaceada_101 maximilian_von_habsburg_lothringen".split(),
    "Ada Lovelace-Byron",
    "Zoë O'Neil",
]
LONG = "`place` returned '/job:localhost/replica:0/task:0/device:CPU:2' for an op that an earlier run had placed elsewhere."
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
SEEN = {  # how each exercise of each student ends, in turns
    Result.PASSED: (1.0, Fault.NONE, "Passed."),
    Result.PARTIAL: (0.5, Fault.STUDENT, LONG),
    Result.FAILED: (0.0, Fault.STUDENT, HOSTILE),
    Result.TIMEOUT: (0.0, Fault.LIMIT, "The cell `place` did not end within the time limit."),
    Result.CRASHED: (0.0, Fault.STUDENT, "The cell `split` raised NameError: name 'x' is not defined"),
    Result.BLANK: (0.0, Fault.STUDENT, "Not attempted: the cell is as it was released."),
    Result.INVALID: (0.0, Fault.STUDENT, "handed in report.pdf; hand in the notebook 01_places.ipynb"),
}


def verdict(chapter: Chapter, student: str, turn: int) -> Verdict:
    marks, outcomes = [], []
    for i, each in enumerate(chapter.exercises):
        result = list(SEEN)[(turn + i * (turn % 3)) % len(SEEN)]
        share, fault, says = SEEN[result]
        if each.manual:
            result, share, fault, says = Result.MANUAL, 0.0, Fault.NONE, "Graded by hand."
        marks.append(Mark(each.name, share * each.max_points, each.max_points, result, fault, says))
        outcomes += [Outcome(each.name, "test_it_is_found_wherever_it_was_computed", share > 0, kind="assert")]
        outcomes += [Outcome(each.name, "test_any_number_of_devices", share == 1, kind="assert", says=says)]
    outcomes += [Outcome("where", "test_a_tensor", False, kind="TypeError: " + HOSTILE)] if turn == 1 else []
    halts = (Halt(Stop.OUTPUT, "place", note="what came confused the driver: 3 frames"),) if turn == 2 else ()
    evidence = Evidence(tuple(outcomes), halts, 1, 4, {}, {"answers": "ab"[turn % 2] * 64})
    return Verdict(student, chapter.name, "d" * 64, tuple(marks), 7, 0.3 + turn, chapter.release, evidence=evidence)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, fixture_course: Course) -> Path:
    """The class's page, the course's with a second chapter, and everyone's; one is late and has a comment."""
    out = tmp_path_factory.mktemp("class")
    chapter = fixture_course.chapter("01_places")
    late_penalty.settle(out, chapter, "2026-03-02T00:00+00:00", "10%", None)
    with Recorder(out, chapter) as recorder:
        recorder.write(verdict(chapter, NAMES[4], 5), "2026-03-01 00:14:00 UTC")  # whose marks then change
        for turn, student in enumerate(NAMES):
            recorder.write(verdict(chapter, student, turn), f"2026-03-0{1 + turn % 2} 00:14:00 UTC")
    with record.book(out, chapter) as book:
        said = "Look at **both** ends, and at the [guide](https://www.tensorflow.org/guide):\n\n- `tf.device`"
        book.find_comment("explain", chapter.name, chapter.name, NAMES[1]).manual_comment = said
        book.db.commit()
    faults = {"xaver": "no space left on the device: " + HOSTILE}
    class_page.write(out, chapter, faults, unmade={"bo": "it took more than 10 seconds"}, absent=["yves", "zacharias"])
    class_ = record.records(out, chapter)
    other = replace(chapter, name="02_moving_to_another_house", title="Moving to another house, and back again")
    course_page.write(out, [Standing(chapter, class_, faults, ["yves"]), Standing(other, class_[2:], {}, ["bo"])])
    for each in record.whole(out, chapter):
        feedback.write(out, chapter, each)
    return out


PAGES = ("report_01_places.html", "report.html", f"feedback/{NAMES[1]}/01_places/01_places.html")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "theme"), browsers.SCREENS)
def test_a_page_is_as_wide_as_the_screen_breaks_no_word_and_can_be_read(browser, out, screenshots, page, width, theme):
    opened(browser, (out / page).as_uri(), width, theme)
    browser.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    found = browsers.stumbled(browser, screenshots / f"{page.replace('/', '_')}_{width}_{theme}.png")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES[:2])
def test_on_paper_tables_repeat_their_heads_keep_rows_whole_and_hide_nothing(browser, out, screenshots, page):
    opened(browser, (out / page).as_uri(), 1280, "dark", media="print")
    style = "return [...document.querySelectorAll(arguments[0])].map((each) => getComputedStyle(each)[arguments[1]])"
    assert set(browser.execute_script(style, "thead", "display")) == {"table-header-group"}
    assert set(browser.execute_script(style, "tbody tr", "breakInside")) == {"avoid"}
    assert set(browser.execute_script(style, ".tools", "display")) == {"none"}
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    hidden = "return [...document.querySelectorAll('section td')].filter((each) => !each.checkVisibility()).length"
    assert browser.execute_script(hidden) == 0
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    (screenshots / f"{page}.pdf").write_bytes(base64.b64decode(printed["data"]))


@pytest.mark.parametrize("page", PAGES)
def test_tables_and_pictures_say_what_they_are(browser, out, page):
    opened(browser, (out / page).as_uri(), 1280)
    tables = browser.find_elements(By.CSS_SELECTOR, ".report table")
    assert bool(tables) == (page in PAGES[:2])
    for table in tables:
        assert table.find_element(By.TAG_NAME, "caption").get_attribute("textContent").strip()
        assert table.find_elements(By.CSS_SELECTOR, "thead th")
        for head in table.find_elements(By.TAG_NAME, "th"):
            assert head.get_attribute("scope") in ("col", "row")
    for picture in browser.find_elements(By.TAG_NAME, "svg"):
        assert picture.get_attribute("aria-label") or picture.get_attribute("aria-hidden") == "true"


def rows(browser: Chrome) -> list[str]:
    return [
        row.find_element(By.TAG_NAME, "th").text
        for row in browser.find_elements(By.CSS_SELECTOR, "#everyone tbody tr")
        if row.is_displayed()
    ]


@pytest.mark.parametrize(("page", "head"), [(PAGES[0], "points"), (PAGES[1], "total")])
def test_a_click_on_a_head_sorts_and_who_has_no_points_stays_last(browser, out, page, head):
    opened(browser, (out / page).as_uri(), 1280)
    everyone = rows(browser)
    cell = next(
        each for each in browser.find_elements(By.CSS_SELECTOR, "#everyone thead th") if each.text.startswith(head)
    )
    column = browser.execute_script("return arguments[0].cellIndex", cell)
    points = (
        f"return [...document.querySelectorAll('#everyone tbody tr')].map((row) => row.cells[{column}].dataset.value)"
    )
    for direction, sign in (("ascending", 1), ("descending", -1)):
        cell.find_element(By.TAG_NAME, "button").click()
        assert cell.get_attribute("aria-sort") == direction
        found = browser.execute_script(points)
        known = [float(each) for each in found if each]
        assert known == sorted(known, key=lambda each: sign * each)
        assert len(set(known)) > 2
        assert all(found[: len(known)])
    assert sorted(rows(browser)) == sorted(everyone)


def test_a_phone_filters_sorts_and_finds_too(browser, out):
    opened(browser, (out / PAGES[0]).as_uri(), 390)
    show, sort = (Select(browser.find_element(By.CLASS_NAME, name)) for name in ("show", "sort"))
    show.select_by_value("none")
    assert rows(browser) == ["xaver", "yves", "zacharias"]
    assert browser.find_element(By.TAG_NAME, "output").text == f"3 of {len(NAMES) + 3}"
    show.select_by_value("")
    browser.find_element(By.CLASS_NAME, "find").send_keys("LOVELACE")
    assert rows(browser) == ["Ada Lovelace-Byron", "lovelaceada_101"]
    sort.select_by_visible_text("name, from the top down")
    assert rows(browser) == ["lovelaceada_101", "Ada Lovelace-Byron"]


INTRUDE = """
const [wanted, done] = arguments;
const seen = new Set();
document.addEventListener("securitypolicyviolation", (event) => {
  seen.add(event.effectiveDirective);
  if (wanted.every((each) => seen.has(each))) done([...seen]);
});
const add = (tag, set) => document.body.append(Object.assign(document.createElement(tag), set));
add("script", { textContent: "document.title = 'owned'" });
add("script", { src: "https://example.org/x.js" });
add("img", { src: "https://example.org/x.png" });
add("iframe", { src: "https://example.org/" });
add("base", { href: "https://example.org/" });
document.body.insertAdjacentHTML("beforeend", "<b onclick=\\"document.title = 'owned'\\">x</b><style>b{color:red}</style>");
document.body.lastElementChild.previousElementSibling.click();
fetch("https://example.org/").catch(() => {});
"""


@pytest.mark.parametrize("page", PAGES)
def test_the_policy_lets_no_other_script_run_and_nothing_load(browser, out, page):
    opened(browser, (out / page).as_uri(), 1280)
    before = browser.title
    wanted = ["script-src-elem", "script-src-attr", "img-src", "frame-src", "connect-src", "base-uri"]
    wanted += ["style-src-elem"] if page in PAGES[:2] else []
    browser.set_script_timeout(30)
    assert set(browser.execute_async_script(INTRUDE, wanted)) >= set(wanted)
    assert browser.title == before
    assert "owned" not in before
