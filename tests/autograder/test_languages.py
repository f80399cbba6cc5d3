"""The course in other languages: nothing of what is translated is missing or stale, and no language decides a mark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import classroom
import nbformat
import nbgrader_course as nb
import pytest
from bs4 import BeautifulSoup
from small_course import NAME, SOURCE, command

from across._language import catalogue
from autograder.authoring import catalogues, importing, in_language, messages
from autograder.gradebook import record
from autograder.gradebook.record import Recorder
from autograder.job.grade import Job
from autograder.model import stubs
from autograder.model.course import Course, CourseError, find
from autograder.report import feedback, words
from autograder.submissions import intake

COURSE = find(Path(__file__).parents[2])
TRANSLATED = ("01_gpu_setup", "02_gpu_memory", "03_device_placement")
TINY = classroom.chapter()


@pytest.fixture(scope="module")
def every() -> list[catalogues.Words]:
    return catalogues.of_course(COURSE, "zh")


def test_nothing_of_the_translated_chapters_is_missing_stale_or_broken(every: list[catalogues.Words]):
    assert [name for name in COURSE.chapters if catalogues.is_translated(COURSE, "zh", name)] >= list(TRANSLATED)
    told = [
        f"{each.name}: {what}: {line!r}"
        for each in map(catalogues.state, every)
        for what, lines in (("missing", each.missing), ("stale", each.stale), ("broken", each.broken))
        for line in lines
    ]
    assert told == [], "run `autograder translate`, and edit these .po files"


def test_of_the_other_chapters_it_is_counted_what_is_to_be_done(every: list[catalogues.Words]):
    states = {each.name: each for each in map(catalogues.state, every)}
    for name in COURSE.chapters:
        begun = catalogues.is_translated(COURSE, "zh", name)
        assert (states[f"solutions/zh/{name}.po"].later > 0) is not begun


def test_the_notebooks_of_other_languages_are_as_their_sources_have_them():
    assert in_language.write(COURSE, check=True) == [], "run `autograder build`"


@pytest.mark.parametrize("name", TRANSLATED)
def test_a_chinese_notebook_differs_from_the_english_one_by_its_prose_alone(name: str):
    english, chinese = (
        json.loads((COURSE.root / "notebooks" / folder / f"{name}.ipynb").read_text(encoding="utf-8"))
        for folder in ("", "zh")
    )
    assert chinese["metadata"]["across"].pop("language") == "zh"
    assert chinese["metadata"] == english["metadata"]  # the digest of the release, too
    changed = 0
    for ours, theirs in zip(english["cells"], chinese["cells"], strict=True):
        for cell in (ours, theirs):
            if cell["cell_type"] == "markdown" and "nbgrader" in cell["metadata"]:
                del cell["metadata"]["nbgrader"]["checksum"]
        if ours["cell_type"] == "markdown":
            assert theirs["source"] != ours["source"], ours["source"]
            changed += 1
            theirs["source"] = ours["source"]
        assert theirs == ours
    assert changed > 20


def handed_in(folder: Path, student: str, notebook: dict, chapter: str) -> intake.Submission:
    place = folder / student / chapter
    place.mkdir(parents=True)
    (place / f"{chapter}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return intake.read(intake.Found(student, folder / student), COURSE.chapter(chapter))


@pytest.mark.parametrize("name", TRANSLATED)
def test_a_blank_chinese_notebook_is_the_same_submission_as_a_blank_english_one(tmp_path: Path, name: str):
    english, chinese = (
        json.loads((COURSE.root / "notebooks" / folder / f"{name}.ipynb").read_text(encoding="utf-8"))
        for folder in ("", "zh")
    )
    ours, theirs = handed_in(tmp_path, "ada", english, name), handed_in(tmp_path, "li", chinese, name)
    assert (ours.language, theirs.language) == ("en", "zh")
    assert theirs.answers == ours.answers
    assert (theirs.notes, theirs.invalid, theirs.refused) == (ours.notes, ours.invalid, ours.refused) == ((), {}, "")


def test_a_chinese_notebook_in_a_folder_of_its_own_is_not_read_and_the_notes_say_so(tmp_path: Path):
    place = tmp_path / "li" / TRANSLATED[0] / "zh"
    place.mkdir(parents=True)
    (place / f"{TRANSLATED[0]}.ipynb").write_text("{}")
    alone = intake.read(intake.Found("li", tmp_path / "li"), COURSE.chapter(TRANSLATED[0]))
    notebook = json.loads(COURSE.notebook(TRANSLATED[0]).read_text(encoding="utf-8"))
    (place.parent / f"{TRANSLATED[0]}.ipynb").write_text(json.dumps(notebook))
    blank = intake.read(intake.Found("li", tmp_path / "li"), COURSE.chapter(TRANSLATED[0]))
    assert alone.nothing
    assert not blank.nothing
    name = f"{TRANSLATED[0]}.ipynb"
    assert alone.notes[-1] == blank.notes[-1] == f"zh/{name} lies beside it and is not read: hand it in as {name}"


@pytest.fixture
def imported(tmp_path: Path) -> Course:
    """A course of nbgrader's, where cells that a student adds count; in Chinese two of its cells say the same."""
    cells = (nb.cell("# Small", "markdown"), nb.cell("One.", "markdown"), *nb.SMALL[1:], nb.cell("Two.", "markdown"))
    folder = nb.put(tmp_path / "nbg", "ps1/ps1.ipynb", *cells, nb.task("project", "## Do something", 5))
    course = importing.import_course(folder, tmp_path / "course").course
    [prose, *_] = catalogues.of_course(course, "zh", also=["ps1"])
    catalogues.update(prose, "zh")
    text = prose.path.read_text(encoding="utf-8")
    for ours, theirs in {
        "# Small": "# 小",
        "One.": "一样。",
        "Two.": "一样。",
        "## Do something": "## 做点什么",
    }.items():
        text = text.replace(f'msgid "{ours}"\nmsgstr ""', f'msgid "{ours}"\nmsgstr "{theirs}"')
    prose.path.write_text(text, encoding="utf-8")
    in_language.write(course)
    return course


def test_where_added_cells_count_the_prose_of_a_chinese_notebook_is_the_releases_and_not_the_students(
    imported: Course, tmp_path: Path
):
    chapter, read = imported.chapter("ps1"), []
    for folder in ("", "zh"):
        notebook = json.loads((imported.root / "notebooks" / folder / "ps1.ipynb").read_text(encoding="utf-8"))
        for more in ([], [nb.cell("我的项目", "markdown")]):
            student = f"{folder or 'en'}{len(more)}"
            place = tmp_path / student / "ps1" / "ps1.ipynb"
            place.parent.mkdir(parents=True)
            place.write_text(json.dumps({**notebook, "cells": [*notebook["cells"], *more]}), encoding="utf-8")
            read.append(intake.read(intake.Found(student, tmp_path / student), chapter))
    english, more, chinese, mehr = read
    assert (chinese.language, chinese.added, chinese.notes) == ("zh", (), ())
    assert replace(chinese, student="en0", language="en") == english
    assert replace(mehr, student="en1", language="en") == more
    assert [source for _, _, source in mehr.added] == ["我的项目"]


def test_an_answer_or_code_that_repeats_translated_prose_stays_what_the_student_wrote(imported: Course):
    cells = [nb.by_hand("essay", "一样。", kind="markdown"), nb.cell("一样。"), "no cell", {"cell_type": "markdown"}]
    assert stubs.in_english(cells, imported.chapter("ps1").english) == cells


def test_a_broken_catalogue_is_its_authors_fault_and_named(own_small: Course, tmp_path: Path):
    path = catalogues.prose_file(own_small, "zh", NAME)
    path.parent.mkdir(parents=True)
    path.write_text("msgid nonsense", encoding="utf-8")
    with pytest.raises(CourseError, match=rf"{NAME}.po: is no gettext catalogue"):
        words.keep(own_small, NAME, tmp_path)


@pytest.mark.parametrize("forged", [None, 3, ["zh"], {"zh": 1}, "../../etc", "zh\n", "ZH", "<script>", "z" * 10_000])
def test_a_forged_language_is_english_and_counts_for_nothing(tmp_path: Path, forged: object):
    notebook = json.loads(COURSE.notebook(TRANSLATED[2]).read_text(encoding="utf-8"))
    honest = handed_in(tmp_path, "honest", notebook, TRANSLATED[2])
    notebook["metadata"]["across"]["language"] = forged
    submission = handed_in(tmp_path, "forger", notebook, TRANSLATED[2])
    assert submission.language == "en"
    assert replace(submission, student="honest") == honest


def test_the_language_is_no_part_of_what_decides_a_mark():
    one = intake.Submission("ada", NAME, {"double": "x"})
    other = replace(one, student="li", language="zh")

    class Rubric:
        chapter, digest = TINY, "r"

    assert Job(one, Rubric, 1).digest == Job(other, Rubric, 1).digest  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("stub", [stubs.PROSE["zh"], f"\n{stubs.PROSE['zh']}  ", stubs.PROSE["en"]])
def test_an_answer_in_prose_that_nobody_wrote_is_the_releases_stub(stub: str):
    assert stubs.released(stub, stubs.PROSE["en"]) == stubs.PROSE["en"]
    assert stubs.released(stub, "Say why.") == stub
    assert stubs.released(f"{stub} but", stubs.PROSE["en"]) == f"{stub} but"


SAID = {
    "prose": {"# Tiny\nWhere does it run?": "# 小章\n它在哪里运行？"},
    "sentences": {"You sent all of them to {0}.": "你全发给了{0}。", "one device": "一个设备"},
}


@pytest.fixture
def page(tmp_path: Path):
    """The page of a submission in a language, of a course that has it in Chinese."""

    def made(language: str, **more) -> BeautifulSoup:
        folder = tmp_path / "words" / "zh"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{classroom.NAME}.json").write_text(json.dumps(SAID), encoding="utf-8")
        with Recorder(tmp_path, TINY) as recorder:
            recorder.write(replace(classroom.verdict("li", **more), language=language))
        [kept] = record.whole(tmp_path, TINY)
        return BeautifulSoup(feedback.write(tmp_path, TINY, kept).read_text(encoding="utf-8"), "html.parser")

    return made


def test_a_page_is_in_the_language_of_the_notebook_that_was_handed_in(page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(catalogue.VARIABLE, "en")  # whatever the grader's environment says
    chinese = page("zh")
    assert chinese.html["lang"] == "zh-Hans"
    assert chinese.h1.text == "小章"
    text = chinese.get_text()
    for said in ("逐个练习", "部分正确", "你全发给了一个设备。", "等待批阅", "它在哪里运行？", "接下来可以这样做："):
        assert said in text
    assert "Exercise by exercise" not in text


def test_a_page_in_english_stays_english_whatever_the_graders_environment_says(page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(catalogue.VARIABLE, "zh")
    english = page("en")
    assert english.html["lang"] == "en"
    assert "Exercise by exercise" in english.get_text()
    assert not [character for character in english.get_text() if "\u4e00" <= character <= "\u9fff"]


def test_values_in_a_translated_line_are_text(page):
    shown = page("zh", pick=(classroom.FAILED[0], 0.0, "You sent all of them to <script>alert(1)</script>."))
    assert "你全发给了<script>alert(1)</script>。" in shown.get_text()
    assert not shown.find_all("script")


def test_a_course_without_a_language_gives_english_pages(tmp_path: Path):
    assert words.of(tmp_path, "01_tiny", "zh") is words.ENGLISH
    assert words.of(tmp_path, "../../secret", "../..") is words.ENGLISH


def test_whoever_hands_in_the_same_answers_in_another_language_gets_another_page(tmp_path: Path):
    with Recorder(tmp_path, TINY) as recorder:
        recorder.write(classroom.verdict("li"))
        assert recorder.renew("li", None, "zh")
        assert not recorder.renew("li", None, "zh")
        assert not recorder.renew("li", None)
        assert recorder.verdict("li").language == "zh"


CODE = '''
"""A docstring is no message."""
def f(x: "an annotation here") -> "nor is this":
    """Nor is this one."""
    expect(x == 1, f"`f` returned {x!r}; expected {x + 1}" + " or so{}")
    said = {"a key of it": "its value here", "env": "NAME_OF_IT", HOW: "Right"}
    raise Misconception("adds_towers", f"You have { {1: 2}[1] } braces {{here}}")
def test_two_of_them_take_turns(student): pass
@exercise("of no interest here")
def draw(): bars({}, title="Short", unit="steps", loc="upper left")
'''


def test_what_a_template_or_a_script_says_is_found():
    page = """<p title="{{ say("One") }}">{{ say("{0} of {1}", a, b) }}</p><i>{{ essay("no") }}</i>
    label: say("Two"), again: say("One")"""
    assert [(each.text, each.line) for each in messages.of_page(page)] == [("One", 1), ("{0} of {1}", 1), ("Two", 2)]


def test_messages_are_found_in_a_source_and_what_is_none_is_left_out():
    found = [each.text for each in messages.of_source(CODE, tests=True)]
    assert found == [
        "`f` returned {0}; expected {1} or so{{}}",
        "a key of it",
        "its value here",
        "Right",
        "You have {0} braces {{here}}",
        "Two of them take turns",
        "Short",
        "steps",
    ]


@pytest.fixture
def small(own_small: Course) -> Course:
    """The small course, its one chapter translated."""
    assert command("translate", "90", root=own_small.root).returncode != 0  # all of it is missing
    for path in (catalogues.prose_file(own_small, "zh", NAME), catalogues.checks_file(own_small, "zh", NAME)):
        path.write_text(path.read_text(encoding="utf-8").replace('msgstr ""\n\n', 'msgstr "译"\n\n'), encoding="utf-8")
        last = path.read_text(encoding="utf-8").rstrip("\n")
        path.write_text(
            last.removesuffix('msgstr ""') + ('msgstr "译"\n' if last.endswith('msgstr ""') else "\n"), encoding="utf-8"
        )
    return own_small


def test_a_message_that_changed_is_stale_one_that_is_new_is_missing_and_build_follows(small: Course):
    prose = catalogues.prose_file(small, "zh", NAME)
    text = prose.read_text(encoding="utf-8").replace('msgid "# Small"\nmsgstr "译"', 'msgid "# Small"\nmsgstr "# 小"')
    prose.write_text(text, encoding="utf-8")
    done = command("translate", "--check", root=small.root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert command("build", root=small.root).returncode == 0
    made = nbformat.read(small.root / "notebooks" / "zh" / f"{NAME}.ipynb", as_version=4)
    assert made.cells[0].source == "# 小"
    assert made.cells[-1].source == stubs.PROSE["zh"]
    assert command("build", "--check", root=small.root).returncode == 0
    source = small.source(NAME)
    source.write_text(SOURCE.replace("# # Small", "# # Small, but more"), encoding="utf-8")
    assert command("build", "--check", root=small.root).returncode != 0
    done = command("translate", "--check", root=small.root)
    assert done.returncode == 2
    assert "missing: '# Small, but more'" in done.stderr
    assert "stale: '# Small'" in done.stderr


def test_what_cannot_be_used_is_named(small: Course):
    prose = catalogues.prose_file(small, "zh", NAME)
    text = prose.read_text(encoding="utf-8").replace('msgid "# Small"\nmsgstr "译"', 'msgid "# Small"\nmsgstr "`小`"')
    prose.write_text(text, encoding="utf-8")
    done = command("translate", "--check", root=small.root)
    assert done.returncode == 2
    assert "broken:" in done.stderr
    assert "code '小' is not in both" in done.stderr


def test_a_file_that_is_no_catalogue_is_told_with_its_name(small: Course):
    catalogues.prose_file(small, "zh", NAME).write_text("msgid nonsense", encoding="utf-8")
    done = command("build", root=small.root)
    assert done.returncode == 2
    assert f"{NAME}.po: is no gettext catalogue" in done.stderr


def test_a_chapter_is_handed_out_in_all_its_languages(small: Course, tmp_path: Path):
    prose = catalogues.prose_file(small, "zh", NAME)
    prose.write_text(prose.read_text(encoding="utf-8").replace('msgstr "译"', 'msgstr "# 译"', 1), encoding="utf-8")
    out = tmp_path / "handout"
    done = command("release", "90", "--out", out, root=small.root)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (out / "notebooks" / "zh").iterdir()) == [".sentences.json", f"{NAME}.ipynb"]
    assert not list(out.rglob(f"{NAME}.po"))
