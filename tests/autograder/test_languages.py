"""The course in other languages: no translation is broken, what is missing is English, and no language decides a mark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import classroom
import nbformat
import nbgrader_course as nb
import pytest
from bs4 import BeautifulSoup
from classroom import TINY
from small_course import NAME, SOURCE, command

import messages
import translate
from across._language import catalogue
from autograder.authoring import build, importing, in_language
from autograder.gradebook import record
from autograder.gradebook.record import Recorder
from autograder.job.grade import Job
from autograder.model import stubs
from autograder.model.course import Course, CourseError, find
from autograder.report import feedback, words
from autograder.submissions import intake

COURSE = find(Path(__file__).parents[2])
TRANSLATED = tuple(name for name in COURSE.chapters if in_language.is_translated(COURSE, "zh", name))


def test_no_translation_of_the_course_is_broken():
    assert TRANSLATED
    told = [line for each in translate.of_course(COURSE, "zh") for line in translate.state(each).broken]
    assert told == [], "edit these .po files"


def test_what_the_library_says_has_a_value_for_each_place_and_no_other():
    sources = [path.read_text(encoding="utf-8") for path in translate.LIBRARY.rglob("*.py")]
    said = [each for source in sources for each in messages.of_source(source).items()]
    assert len([text for text, values in said if values]) > 20
    assert [text for text, values in said if len(set(translate.PLACE.findall(text))) != len(values)] == []


def test_the_notebooks_of_other_languages_are_as_their_sources_have_them():
    assert in_language.write(COURSE, check=True) == [], "run `autograder build`"


class Rubric:
    chapter, digest = TINY, "r"


def job(submission: intake.Submission) -> Job:
    return Job(submission, Rubric, 1)  # pyright: ignore[reportArgumentType]


def in_both(course: Course, name: str) -> list[dict]:
    """A chapter's notebook in English and in Chinese."""
    places = (course.root / "notebooks" / folder / f"{name}.ipynb" for folder in ("", "zh"))
    return [json.loads(place.read_text(encoding="utf-8")) for place in places]


@pytest.mark.parametrize("name", TRANSLATED)
def test_a_chinese_notebook_differs_from_the_english_one_by_its_prose_alone(name: str):
    english, chinese = in_both(COURSE, name)
    assert chinese["metadata"]["across"].pop("language") == "zh"
    assert chinese["metadata"] == english["metadata"]  # the digest of the release, too
    changed = 0
    for ours, theirs in zip(english["cells"], chinese["cells"], strict=True):
        for cell in (ours, theirs):
            if cell["cell_type"] == "markdown" and "nbgrader" in cell["metadata"]:
                del cell["metadata"]["nbgrader"]["checksum"]
        if ours["cell_type"] == "markdown":
            changed += theirs["source"] != ours["source"]
            if ours["metadata"].get("nbgrader", {}).get("solution"):  # of an answer, its stub alone
                assert stubs.released("".join(theirs["source"]), "".join(ours["source"])) == "".join(ours["source"])
            theirs["source"] = ours["source"]
        assert theirs == ours
    assert changed > 20


def handed_in(folder: Path, student: str, notebook: dict, chapter: str) -> intake.Submission:
    place = folder / student / chapter
    place.mkdir(parents=True)
    (place / f"{chapter}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return intake.read(intake.Found(student, folder / student), COURSE.chapter(chapter))


@pytest.mark.parametrize("blank", [True, False])
@pytest.mark.parametrize("name", TRANSLATED)
def test_a_chinese_notebook_is_the_same_submission_and_job_as_an_english_one(tmp_path: Path, name: str, blank: bool):
    references = {} if blank else build.solution_source(COURSE, name)
    found = []
    for language, notebook in zip(("en", "zh"), in_both(COURSE, name), strict=True):
        for cell in notebook["cells"]:
            cell["source"] = references.get(cell["metadata"].get("nbgrader", {}).get("grade_id"), cell["source"])
        found.append(handed_in(tmp_path, language, notebook, name))
    ours, theirs = (replace(each, student="ada") for each in found)
    assert (ours.language, theirs.language) == ("en", "zh")
    assert replace(theirs, language="en") == ours
    assert (ours.notes, ours.invalid, ours.refused) == ((), {}, "")
    assert {each for each, answer in ours.answers.items() if answer == references.get(each)} or blank  # written in
    assert job(theirs).digest == job(ours).digest


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
    [prose, *_] = translate.of_course(course, "zh", also=["ps1"])
    translate.update(prose, "zh")
    text = prose.path.read_text(encoding="utf-8")
    said = {"# Small": "# 小", "One.": "一样。", "Two.": "一样。", "## Do something": "## 做点什么"}
    for ours, theirs in said.items():
        text = text.replace(f'msgid "{ours}"\nmsgstr ""', f'msgid "{ours}"\nmsgstr "{theirs}"')
    prose.path.write_text(text, encoding="utf-8")
    in_language.write(course)
    return course


def test_where_added_cells_count_the_prose_of_a_chinese_notebook_is_the_releases_and_not_the_students(
    imported: Course, tmp_path: Path
):
    chapter, read = imported.chapter("ps1"), []
    for language, notebook in zip(("en", "zh"), in_both(imported, "ps1"), strict=True):
        for more in ([], [nb.cell("我的项目", "markdown")]):
            student = f"{language}{len(more)}"
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
    path = in_language.prose_file(own_small, "zh", NAME)
    path.parent.mkdir(parents=True)
    path.write_text("msgid nonsense", encoding="utf-8")
    with pytest.raises(CourseError, match=rf"{NAME}.po:1: is no gettext catalogue"):
        words.keep(own_small, NAME, tmp_path)


@pytest.mark.parametrize("forged", [None, 3, ["zh"], {"zh": 1}, "../../etc", "zh\n", "ZH", "<script>", "z" * 10_000])
def test_a_forged_language_is_english_and_counts_for_nothing(tmp_path: Path, forged: object):
    notebook = json.loads(COURSE.notebook(TRANSLATED[2]).read_text(encoding="utf-8"))
    honest = handed_in(tmp_path, "honest", notebook, TRANSLATED[2])
    notebook["metadata"]["across"]["language"] = forged
    submission = handed_in(tmp_path, "forger", notebook, TRANSLATED[2])
    assert submission.language == "en"
    assert replace(submission, student="honest") == honest


@pytest.mark.parametrize("stub", [stubs.PROSE["zh"], f"\n{stubs.PROSE['zh']}  ", stubs.PROSE["en"]])
def test_an_answer_in_prose_that_nobody_wrote_is_the_releases_stub(stub: str):
    assert stubs.released(stub, stubs.PROSE["en"]) == stubs.PROSE["en"]
    assert stubs.released(stub, "Say why.") == stub
    assert stubs.released(f"{stub} but", stubs.PROSE["en"]) == f"{stub} but"


SAID = {"prose": {"# Tiny\nWhere does it run?": "# 小章\n它在哪里运行？"}}


@pytest.fixture
def page(tmp_path: Path):
    """The page of a submission in a language, of a course that has it in Chinese."""

    def made(language: str, **more) -> BeautifulSoup:
        folder = tmp_path / "words" / "zh"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{classroom.NAME}.json").write_text(json.dumps(SAID), encoding="utf-8")
        classroom.record(tmp_path, replace(classroom.verdict("li", **more), language=language))
        [kept] = record.whole(tmp_path, TINY)
        return classroom.shown(feedback.write(tmp_path, TINY, kept))

    return made


def test_a_page_is_in_the_language_of_the_notebook_that_was_handed_in(page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(catalogue.VARIABLE, "en")  # whatever the grader's environment says
    chinese = page("zh")
    assert chinese.html["lang"] == "zh-Hans"
    assert chinese.h1.text == "小章"
    text = chinese.get_text()
    for said in ("逐个练习", "部分正确", "等待批阅", "它在哪里运行？", "接下来可以这样做："):
        assert said in text
    assert "You sent all of them to one device." in text  # what a check says is English
    assert "Exercise by exercise" not in text


def test_a_page_in_english_stays_english_whatever_the_graders_environment_says(page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(catalogue.VARIABLE, "zh")
    english = page("en")
    assert english.html["lang"] == "en"
    assert "Exercise by exercise" in english.get_text()
    assert not [character for character in english.get_text() if "\u4e00" <= character <= "\u9fff"]


def test_values_in_a_translated_line_are_text(tmp_path: Path):
    classroom.record(tmp_path, classroom.verdict("li"))
    [kept] = record.whole(tmp_path, TINY)
    chinese = words.Words("zh", {}, catalogue.translations(words.OURS / "zh" / "autograder.po"))
    page = feedback._page(TINY, "li", kept, trouble="<script>alert(1)</script>", spoken=chinese)
    shown = BeautifulSoup(page, "html.parser")
    assert "这里无法显示：<script>alert(1)</script>。" in shown.get_text()
    assert not shown.find_all("script")


def test_what_is_kept_of_a_course_is_read_again(own_small: Course, tmp_path: Path):
    path = in_language.prose_file(own_small, "zh", NAME)
    path.parent.mkdir(parents=True)
    path.write_text('msgid "# Small"\nmsgstr "# 小"\n', encoding="utf-8")
    words.keep(own_small, NAME, tmp_path)
    kept = words.of(tmp_path, NAME, "zh")
    assert (kept.title("Small"), kept.title("Other"), kept.said("Right")) == ("小", "Other", "正确")
    assert kept.said("Nobody has said this.") == "Nobody has said this."


def test_a_course_without_a_language_gives_english_pages(tmp_path: Path):
    assert words.of(tmp_path, "01_tiny", "zh") is words.ENGLISH
    assert words.of(tmp_path, "../../secret", "../..") is words.ENGLISH


def test_whoever_hands_in_the_same_answers_in_another_language_gets_another_page(tmp_path: Path):
    with Recorder(tmp_path, TINY) as recorder:
        recorder.write(classroom.verdict("li"))
        assert recorder.renew("li", None, intake.Submission("li", TINY.name, language="zh"))
        assert not recorder.renew("li", None, intake.Submission("li", TINY.name, language="zh"))
        assert not recorder.renew("li", None)
        assert recorder.verdict("li").language == "zh"


CODE = '''
"""A docstring is no message."""
KIND = marked("a kind")
def f(x):
    expect(x == 1, f"`f` returned {x!r}; expected {x + 1}")
    print("printed", said("{0}: not " "yet. {1}", x.name, why), said(KIND))
@exercise("of no interest here")
def show(times):
    times["8 in one machine"] = 3
    rows = {"of two words": 1, "one": 2, "unit": "seconds here"}
    bars({"the budget": 40, name: 3, **times}, title="Short", unit=f"steps of {times}", loc="upper left")
    trace(x).draw("two programs", devices=D)
    for line, way in (("s-", "by a ring"), ("o-", "one")):
        plot(x, line, label=f"delay {way}" if line else None)
    bars(dict(zip(("first batch", "two"), x)), title=f"says {way or 'none at all'}")
    timeline(x, **{"lanes": ["link"]}), render(x, "In words."), line_picture(x, "Runs")
with attempt("guess", done="recorded before") as outcome:
    outcome.done = "planned so"
'''


def test_what_a_template_or_a_script_says_is_found():
    page = """<p title="{{ say("One") }}">{{ say("{0} of {1}", a, b) }}</p><i>{{ essay("no") }}</i>
    label: say("Two"), again: say("One")"""
    assert list(messages.of_page(page)) == ["One", "{0} of {1}", "Two"]


def test_what_a_module_says_is_found_with_its_values_and_in_a_chapter_the_words_of_its_pictures():
    assert messages.of_source(CODE) == {"a kind": (), "{0}: not yet. {1}": ("x.name", "why")}
    found = set(messages.of_pictures(CODE))
    here = {
        "8 in one machine",
        "the budget",
        "Short",
        "two programs",
        "recorded before",
        "of two words",
        "seconds here",
        "by a ring",
        "first batch",
        "none at all",
        "link",
        "In words.",
        "Runs",
        "planned so",
    }
    assert found == here | {"steps of {0}", "delay {0}", "says {0}"}


MARK = in_language.ENGLISH_ONLY["zh"]
EXERCISE = """
# %% [markdown]
# ## One more

# %% answer="half"
def half(x):
    ### BEGIN SOLUTION
    return x / 2
    ### END SOLUTION

# %% check="half" points=1
assert half(4) == 2, "half of 4 is 2"
"""


def translated(course: Course, string: str) -> Path:
    """The small course's chapter in Chinese: of its one cell of prose, `string`."""
    prose = in_language.prose_file(course, "zh", NAME)
    assert translate.translate(course, [NAME]) == 0
    text = prose.read_text(encoding="utf-8").replace(
        'msgid "# Small"\nmsgstr ""', f'msgid "# Small"\nmsgstr "{string}"'
    )
    prose.write_text(text, encoding="utf-8")
    return prose


def test_what_lies_beside_a_chapters_notebook_lies_beside_its_translation(own_small: Course):
    own_small.files(NAME).mkdir(parents=True)
    (own_small.files(NAME) / "data.txt").write_text("1 2 3", encoding="utf-8")
    assert in_language.files(own_small, [NAME]) == {}
    translated(own_small, "# 小")
    built(own_small)
    assert (own_small.root / "notebooks" / "zh" / "data.txt").read_text(encoding="utf-8") == "1 2 3"


def built(course: Course) -> nbformat.NotebookNode:
    command("build", root=course.root)
    command("build", "--check", root=course.root)
    return nbformat.read(course.root / "notebooks" / "zh" / f"{NAME}.ipynb", as_version=4)


def test_an_author_who_knows_no_chinese_adds_an_exercise_and_it_is_english_and_marked(own_small: Course, capsys):
    translated(own_small, "# 小")
    own_small.source(NAME).write_text(SOURCE + EXERCISE, encoding="utf-8")
    command("build", "--check", root=own_small.root, code=2)
    made = built(own_small)
    prose = [cell.source for cell in made.cells if cell.cell_type == "markdown"]
    assert prose == ["# 小", stubs.PROSE["zh"], f"## One more\n\n{MARK}"]
    capsys.readouterr()
    assert translate.translate(own_small, check=True) == 0
    said = f"solutions/zh/{NAME}.po: 1 translated, 1 missing, 0 stale\n  missing: ## One more\n"
    assert capsys.readouterr() == (said, "")


def test_prose_that_changed_is_stale_and_english_until_somebody_looks_at_it(own_small: Course, capsys):
    translated(own_small, "# 小")
    own_small.source(NAME).write_text(SOURCE.replace("# # Small", "# # Small one"), encoding="utf-8")
    assert translate.translate(own_small) == 0
    assert f"solutions/zh/{NAME}.po: 0 translated, 0 missing, 1 stale" in capsys.readouterr().out
    assert built(own_small).cells[0].source == f"# Small one\n\n{MARK}"


def test_a_translation_that_cannot_be_used_is_named_with_its_line_and_the_mend(own_small: Course, capsys):
    prose = translated(own_small, "`小`")
    line = prose.read_text(encoding="utf-8").splitlines().index('msgid "# Small"') + 1
    assert translate.translate(own_small, check=True) == 1
    said = capsys.readouterr().err
    assert f"broken: solutions/zh/{NAME}.po:{line}: '# Small': code '小' is not in both as often" in said
    assert "or empty the msgstr" in said


@pytest.mark.parametrize(
    ("english", "string", "why"),
    [
        ("{0} of {1}", "{1} 中的 {0}", ""),
        ("{0} of {1}", "{1} 中的", "the place {0} is not in both as often"),
        ("{0} of {1}", "{1} 中的 {0} {2}", "the place {2} is not in both as often"),
        ("{0:.1f} s", "{0} 秒", "the place {0:.1f} is not in both as often"),
    ],
)
def test_a_place_that_is_lost_or_new_breaks_a_translation(tmp_path: Path, english: str, string: str, why: str):
    path = tmp_path / "report" / "zh" / "autograder.po"
    path.parent.mkdir(parents=True)
    path.write_text(f'msgid "{english}"\nmsgstr "{string}"\n', encoding="utf-8")
    found = translate.state(translate.Words(path, "x.po", {(None, english): ["a.py"]}))
    assert found.broken == ((f"x.po:1: {english!r}: {why}",) if why else ())


@pytest.mark.parametrize(
    ("string", "is_broken"),
    [
        ("```python\n# 检验\nx = 1  # 一\n```", False),
        ("```python\n# 检验\nx = 2  # 一\n```", True),
        ("```python\nx = 1  # 一\n```", True),
    ],
)
def test_comments_of_a_block_of_code_are_translated_and_the_code_is_not(
    own_small: Course, string: str, is_broken: bool
):
    words = translate.Words(in_language.prose_file(own_small, "zh", NAME), NAME)
    words.add(NAME, {"```python\n# test\nx = 1  # one\n```": ()})
    words.path.parent.mkdir(parents=True)
    [english] = (json.dumps(text) for _, text in words.found)
    words.path.write_text(f"msgid {english}\nmsgstr {json.dumps(string)}\n", encoding="utf-8")
    assert bool(translate.state(words).broken) == is_broken


@pytest.mark.parametrize("content", [b"msgid nonsense", b'msgid "a"\nmsgstr "\xff"\n'])
def test_a_file_that_is_no_catalogue_is_told_with_its_name_and_stays_as_it_is(
    own_small: Course, content: bytes, capsys
):
    prose = translated(own_small, "# 小")
    prose.write_bytes(content)
    done = command("build", root=own_small.root, code=2)
    assert "is no gettext catalogue" in done.stderr
    assert f"{NAME}.po:" in done.stderr
    for check in (False, True):
        assert translate.translate(own_small, check=check) == 1
        assert f"{NAME}.po:" in capsys.readouterr().err
    assert prose.read_bytes() == content
