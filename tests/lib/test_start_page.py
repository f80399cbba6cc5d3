"""The start page: what it says of each chapter, the order, the next step, and that nothing in a student's file gets through."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbgrader.utils import compute_checksum

from across import diagnosis
from across._jupyter import chapters, lab, machine, progress, start
from across._language import catalogue
from across._process import kept, recorded

KEPT = re.compile("练习 (pick|explain)|notebook|Linux x86_64|TensorFlow")  # what a Chinese page says as it is
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
STUB = 'raise NotImplementedError("your turn")'
NO_CARD = diagnosis.diagnose(diagnosis.Facts()).says


def shows() -> dict[str, str]:
    return {"01_pipes": machine.shows(1, 0), "02_jobs": machine.shows(4, 0)}


FACTS = {
    "system": "Linux x86_64",
    "limits": {"cores": 2},
    "diagnosis": dataclasses.asdict(diagnosis.diagnose(diagnosis.Facts())),
    "chapters": shows(),
}


@pytest.fixture(autouse=True)
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three chapters, the third needing the second, the second the first: its folder of notebooks."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "user"))
    monkeypatch.setenv("ACROSS_COURSE", str(tmp_path))
    (tmp_path / "notebooks").mkdir()
    for name, needs in (("01_pipes", []), ("02_jobs", ["01_pipes"]), ("03_signals", ["02_jobs", "09_absent"])):
        write(tmp_path / "notebooks" / f"{name}.ipynb", needs)
    return tmp_path / "notebooks"


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server speaks Chinese, and so does `across doctor` where it asks it."""
    monkeypatch.setenv(catalogue.VARIABLE, "zh")
    monkeypatch.setitem(FACTS, "chapters", shows())


def write(path: Path, needs: list[str], prose: str = "") -> None:
    """A chapter as released: one exercise with a check, one that a person reads."""
    title = path.stem[3:].capitalize()
    head = nbformat.v4.new_markdown_cell(prose or f"# {title}\n**What are {title}?**\n\nIn about 50 minutes you see.")
    cells = [head]
    for name, kind in (("pick", "answer"), ("check_pick", "check"), ("explain", "prose")):
        make = nbformat.v4.new_markdown_cell if kind == "prose" else nbformat.v4.new_code_cell
        cell = make({"answer": f"def pick(): {STUB}", "check": "pick()", "prose": "*Yours.*"}[kind])
        cell.metadata["nbgrader"] = {
            "grade_id": name, "grade": kind != "answer", "solution": kind != "check", "points": 2.5, "locked": kind == "check",
        }  # fmt: skip
        if kind != "answer":
            cell.metadata["across"] = {
                "exercise": name.removeprefix("check_"),
                "answers": [name.removeprefix("check_")],
            }
        cell.metadata.nbgrader["checksum"] = compute_checksum(cell)
        cells.append(cell)
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"across": {"needs": needs} if needs else {}})
    nbformat.write(notebook, path)


def change(path: Path, name: str, source: str) -> None:
    notebook = nbformat.read(path, as_version=4)
    next(each for each in notebook.cells if each.metadata.get("nbgrader", {}).get("grade_id") == name).source = source
    nbformat.write(notebook, path)


def passes(path: Path, name: str, state: str = recorded.PASSES) -> None:
    """What Validate records when that exercise passes, or stands otherwise."""
    notebook = json.loads(path.read_text())
    graded = next(each for each in notebook["cells"] if each["metadata"].get("across", {}).get("exercise") == name)
    standing: dict[str, Any] = {"state": state, "answers": recorded.answers_digest(notebook, graded)}
    kept.write(recorded.KIND, path, {"exercises": {name: standing}})


def in_chinese(course: Path, name: str, title: str) -> Path:
    """A chapter's notebook in Chinese: what `autograder build` writes of the English one."""
    path = course / "zh" / f"{name}.ipynb"
    path.parent.mkdir(exist_ok=True)
    needs = nbformat.read(course / f"{name}.ipynb", as_version=4).metadata.across.get("needs", [])
    write(path, needs, prose=f"# {title}\n**什么是{title}？**\n\n用 50 分钟，你会看到。")
    return path


def page(facts: dict[str, Any] | None = FACTS) -> BeautifulSoup:
    return BeautifulSoup(start.render(progress.course(), facts, base="/base/", whole=True), "html.parser")


def said(name: str) -> str:
    """What the page says of a chapter."""
    item = next(each for each in page().select(".chapters li") if name in each.get_text())
    return " ".join(item.get_text(" ").split())


def test_a_chapter_says_its_question_minutes_needs_and_points_and_the_page_what_each_shows_here():
    assert said("Jobs") == (
        "no picture yet 02 Jobs What are Jobs? ○ not begun · 50 minutes · after 01 · 2 exercises, 5 points"
    )
    assert "02: runs on 4 logical CPUs (no GPU): placement, copies and errors are real" in page().get_text()
    assert "after 02 and 09 (not here)" in said("Signals")


def test_an_answer_counts_when_it_is_no_longer_the_stub_and_passes_once_validate_said_so(course: Path):
    path = course / "01_pipes.ipynb"
    change(path, "pick", "def pick(): return 1")
    assert "◐ begun" in said("Pipes")
    untold = "1 of 2 exercises answered · 0 of 1 checks pass · 0 of 5 points"
    untold += " · read by a person: 1 · 1 answer waits for Validate"
    assert untold in said("Pipes")
    passes(path, "pick")
    assert said("Pipes").endswith(
        "1 of 1 checks pass · 2.5 of 5 points · read by a person: 1 Go on with exercise explain"
    )
    change(path, "pick", "def pick(): return 2")
    assert untold in said("Pipes")


def test_where_all_that_is_left_is_to_validate_the_next_step_says_so(course: Path):
    path = course / "02_jobs.ipynb"
    change(path, "pick", "def pick(): return 1")
    change(path, "explain", "Because.")
    link = page().select_one(".next a")
    assert link.get_text() == "Validate 02 Jobs: 1 answer waits for Validate"
    assert (link["data-path"], link.get("data-cell")) == ("02_jobs.ipynb", None)
    assert "◐ begun" in said("Jobs")
    passes(path, "pick")
    assert "✓ done" in said("Jobs")


def test_the_next_step_is_the_first_chapter_then_what_was_begun_last_then_what_builds_on_it(course: Path):
    def step() -> tuple[str, str | None]:
        found = progress.next_step(progress.course())
        assert found is not None
        return found.chapter.name, found.exercise.name if found.exercise else None

    assert step() == ("01_pipes", None)
    for name, seconds in (("01_pipes", 2_000_000_000), ("02_jobs", 1_900_000_000)):
        change(course / f"{name}.ipynb", "pick", "def pick(): return 1")
        os.utime(course / f"{name}.ipynb", (seconds, seconds))
    assert step() == ("01_pipes", "explain")  # nobody knows whether `pick` is right: Validate can say so
    passes(course / "01_pipes.ipynb", "pick", recorded.NOT_YET)
    assert step() == ("01_pipes", "pick")
    passes(course / "01_pipes.ipynb", "pick")
    assert step() == ("01_pipes", "explain")
    change(course / "01_pipes.ipynb", "explain", "Because.")
    assert step() == ("02_jobs", "explain")
    change(course / "02_jobs.ipynb", "explain", "Because.")
    passes(course / "02_jobs.ipynb", "pick")
    assert step() == ("03_signals", None)


def test_when_all_is_done_the_page_says_to_hand_in(course: Path):
    for name in ("01_pipes", "02_jobs", "03_signals"):
        change(course / f"{name}.ipynb", "explain", "Because.")
        change(course / f"{name}.ipynb", "pick", "def pick(): return 1")
        passes(course / f"{name}.ipynb", "pick")
    says = " ".join(page().select_one(".next").get_text().split())
    assert says.endswith("hand it in: one file a chapter, its .ipynb.")
    assert "✓ done" in said("Signals")


def test_the_course_is_called_as_it_says_itself_or_what_was_handed_out_says(course: Path):
    def called() -> tuple[str, str]:
        return page().h1.get_text(), page().title.get_text()

    assert called() == ("Start here", "Start here")
    (course.parent / "pyproject.toml").write_text('[tool.across.released]\ncourse = "x"\n')
    assert called() == ("Start here", "Start here")
    (course.parent / "pyproject.toml").write_text('[tool.across.released]\ntitle = "Shells {0} <b>"\n')
    assert called() == ("Shells {0} <b>", "Shells {0} <b>")
    (course.parent / "course.toml").write_text('title = "Pipes and jobs"\n')
    assert called() == ("Pipes and jobs", "Pipes and jobs")


def test_the_picture_of_chapter_03_stands_where_that_chapter_is_and_says_itself_in_words(course: Path):
    assert page().select("figure") == []
    write(course / f"{start.PICTURED}.ipynb", [])
    assert page().select_one("figure svg[role=img]")["aria-label"].startswith("Four ops in the lanes of three GPUs: ")
    assert "From chapter 03" in page().select_one("figcaption").get_text()


def drawn_by(path: Path, png: str = DOT) -> None:
    """The notebook after a run of its first code cell, which drew twice."""
    notebook = nbformat.read(path, as_version=4)
    cell = next(each for each in notebook.cells if each.cell_type == "code")
    for words in ("One <dot>.", "Another."):
        said = {"data": {"image/png": png}, "metadata": {"image/png": {"alt": words}}}
        cell.outputs.append(nbformat.v4.new_output("display_data", **said))
    nbformat.write(notebook, path)


def test_a_box_has_the_first_picture_that_the_students_run_drew_and_else_none(course: Path):
    drawn_by(course / "02_jobs.ipynb")
    boxes = page().select(".chapters li")
    assert [len(each.select("img")) for each in boxes] == [0, 1, 0]
    assert boxes[1].img["alt"] == "Your run drew: One <dot>."
    assert boxes[1].img["src"] == f"data:image/png;base64,{DOT}"
    drawn_by(course / "03_signals.ipynb", "no base64!")
    drawn_by(course / "01_pipes.ipynb", "a")
    assert [bool(each.drawn) for each in progress.course()] == [False, True, False]
    assert not any(each.torn for each in progress.course())


def test_a_copy_of_a_chapter_has_no_box_and_adds_no_hours(course: Path):
    before = page().get_text()
    for copy in ("02_jobs-Copy1", "02_jobs-Copy1-Copy2", "02_jobs (1)"):
        (course / f"{copy}.ipynb").write_bytes((course / "02_jobs.ipynb").read_bytes())
    assert page().get_text() == before


def test_a_bundle_of_one_chapter_has_it_alone(course: Path):
    for name in ("01_pipes", "02_jobs"):
        (course / f"{name}.ipynb").unlink()
    assert "chapters, about" not in page().get_text()
    assert "Begin 03 Signals" in page().select_one(".next").get_text()


def test_a_file_that_is_no_notebook_says_so_and_hides_no_other(course: Path):
    (course / "02_jobs.ipynb").write_text("{")
    assert "This file is no notebook any more." in said("02_jobs")
    assert "What are Pipes?" in said("Pipes")


def test_what_a_notebook_says_is_text_and_never_markup(course: Path):
    write(
        course / "01_pipes.ipynb",
        ["<b>x</b>"],
        prose='# <script>alert("t")</script>\n**Is <img src=x onerror=y> one?**',
    )
    found = page()
    assert found.select("script, img, b") == []
    assert '<script>alert("t")</script>' in found.select_one("h3").get_text()


def test_headings_go_down_one_level_at_a_time_and_a_state_is_told_by_a_word():
    levels = [int(each.name[1]) for each in page().find_all(["h1", "h2", "h3"])]
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))
    assert all(any(word in each.get_text() for word in ("done", "begun")) for each in page().select(".facts"))


@pytest.mark.parametrize(
    ("facts", "words"),
    [(None, "is looking at this machine"), ({}, "across doctor"), (FACTS, f"2 processor cores. {NO_CARD}")],
)
def test_the_page_does_not_wait_for_the_machine_to_be_looked_at(facts, words):
    assert words in " ".join(page(facts).get_text().split())
    assert bool(page(facts).select("[data-looking]")) == (facts is None)


def test_a_doctor_that_fails_or_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch):
    for program in ("import sys; sys.exit(1)", "print('no JSON')", "import time; time.sleep(60)"):
        monkeypatch.setattr(machine, "COMMAND", (sys.executable, "-c", program))
        assert asyncio.run(asyncio.wait_for(machine.facts(seconds=2), 20)) == {}


def test_nothing_is_written_beside_the_notebooks(course: Path):
    before = sorted(course.parent.rglob("*"))
    page()
    passes(course / "01_pipes.ipynb", "pick")
    page()
    assert [each for each in sorted(course.parent.rglob("*")) if "user" not in each.parts] == before


def test_the_chapters_of_this_course_say_how_long_they_take_and_what_they_need(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACROSS_COURSE", str(Path(__file__).resolve().parents[2]))
    found = progress.course()
    assert [each.name for each in found] == chapters.names()
    assert [each.name for each in found if not each.minutes or not each.exercises or each.torn] == []
    first = [each.name for each in found if not each.needs]
    assert first[0] == found[0].name
    assert len(first) < len(found) / 2


def test_the_needs_of_course_toml_are_chapters_that_come_before_and_miss_none():
    """Of a chapter that builds on none, the course says so by leaving it out: those are named here."""
    root = Path(__file__).resolve().parents[2]
    needs: dict[str, list[str]] = tomllib.loads((root / "course.toml").read_text(encoding="utf-8"))["needs"]
    names = sorted(path.stem for path in (root / "solutions").glob("[0-9][0-9]_*.py"))
    assert [name for name in (*needs, *itertools.chain(*needs.values())) if name not in names] == []
    assert list(needs) == sorted(needs)
    assert [(name, need) for name, found in needs.items() for need in found if need >= name] == []
    assert [name for name, found in needs.items() if not found or found != sorted(set(found))] == []
    assert [name for name in names if name not in needs] == ["01_gpu_setup", "03_device_placement"]


@pytest.mark.usefixtures("chinese")
def test_in_chinese_it_links_to_the_notebooks_that_there_are_and_says_where_there_is_none(course: Path):
    in_chinese(course, "02_jobs", "作业")
    assert said("作业") == ("还没有图 02 作业 什么是作业？ ○ 未开始 · 50 分钟 · 先学 01 · 2 个练习，5 分")
    assert "02：在 4 个逻辑 CPU 上运行（没有 GPU）" in page().get_text()
    assert "○ 未开始 · 只有英文版 · 50 分钟" in said("Pipes")
    assert "先学 02、09（这里没有）" in said("Signals")
    assert [link["data-path"] for link in page().select(".chapters h3 a")] == [
        "01_pipes.ipynb",
        "zh/02_jobs.ipynb",
        "03_signals.ipynb",
    ]
    assert page().select_one(".chapters h3 a[href='/base/lab/tree/zh/02_jobs.ipynb']")
    assert page().select_one("html")["lang"] == "zh-Hans"


@pytest.mark.usefixtures("chinese")
def test_nothing_of_the_chinese_page_is_english_but_what_its_chapters_say(course: Path):
    for name, title in (("01_pipes", "管道"), ("02_jobs", "作业"), ("03_signals", "信号")):
        in_chinese(course, name, title)
    change(course / "zh" / "01_pipes.ipynb", "pick", "def pick(): return 1")
    for facts in (FACTS, None, {}):
        found = page(facts)
        for style in found.select("style, code, kbd"):
            style.extract()
        told = [*found.stripped_strings, *(each["aria-label"] for each in found.select("[aria-label]"))]
        assert [each for each in told if re.search("[a-z]{3}", KEPT.sub("", each))] == []


def test_progress_is_that_of_the_notebook_in_either_language_that_is_furthest(
    course: Path, monkeypatch: pytest.MonkeyPatch
):
    chinese = in_chinese(course, "02_jobs", "作业")
    change(chinese, "pick", "def pick(): return 1")
    passes(chinese, "pick")
    change(course / "02_jobs.ipynb", "pick", "def pick(): return 2")
    assert (
        "1 of 2 exercises answered · 1 of 1 checks pass · 2.5 of 5 points · read by a person: 1 (in the Chinese notebook)"
        in said("Jobs")
    )
    assert "There are answers in the English notebook, too." in said("Jobs")
    link = page().select_one(".next a")
    assert (link["data-path"], link["data-cell"]) == ("zh/02_jobs.ipynb", "explain")
    assert page().select(".chapters h3 a")[1]["data-path"] == "02_jobs.ipynb"
    monkeypatch.setenv(catalogue.VARIABLE, "zh")
    assert "练习已作答 1/2 · 检查已通过 1/1 · 得分 2.5/5 " in said("作业")
    change(course / "02_jobs.ipynb", "explain", "Because.")
    passes(course / "02_jobs.ipynb", "pick")
    assert "✓ 已完成" in said("作业")
    assert "练习已作答 2/2 · 检查已通过 1/1 · 得分 2.5/5 · 由老师批阅：1（在英文 notebook 里）" in said("作业")


@pytest.mark.parametrize(("language", "hidden", "begins"), [("en", True, False), ("zh", False, True)])
def test_the_file_browser_shows_the_notebooks_of_one_language(course: Path, monkeypatch, language, hidden, begins):
    in_chinese(course, "02_jobs", "作业")
    monkeypatch.setenv(catalogue.VARIABLE, language)
    options = lab.arguments(course, browser=False, port=1)
    assert ("--ContentsManager.hide_globs=zh" in options) == hidden
    assert ("--ContentsManager.preferred_dir=zh" in options) == begins
    assert "--ContentsManager.hide_globs=*.lock" in options
