"""The site: chapters as students get them, no answer on any page, no link that leads nowhere, nothing loaded from elsewhere."""

from __future__ import annotations

import json
import time
import zlib
from pathlib import Path

import classroom
import courses
import nbformat
import pytest
import site_links
from bs4 import BeautifulSoup
from small_course import CHECKS, LEAKY, LONG, NAME, SOURCE

from autograder.authoring import build, in_language
from autograder.model.address import Address
from autograder.model.course import Course, CourseError, find
from autograder.probe import listed
from autograder.release import leaks
from course_site import about, built, outputs, pages, staged, words

pytest.importorskip("sphinx", reason="sphinx is not installed: uv sync --group ci")
pytestmark = pytest.mark.whole

TWO = ["01_gpu_setup", "03_device_placement"]
PICTURE = """
# %% [markdown]
# ## A picture
# About 20 minutes.

# %% tags=["show"]
import base64
from IPython.display import display

class Dot:
    def _repr_mimebundle_(self, **_):
        data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        page = f'<img src="data:image/png;base64,{data}" alt="One dot." width="7">'
        return {"text/html": page, "image/png": data, "text/plain": "One dot."}, {"image/png": {"height": 5}}

print("printed when it was run")
display(Dot())
"""


def squeezed(text: str) -> str:
    """Text without its layout."""
    return " ".join(text.split())


def read(folder: Path) -> dict[str, str]:
    """What can be read in the files of a site: pages as they are shown, scripts and notebooks as they are."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix in (".html", ".js", ".ipynb", ".json"):
            text = path.read_text(encoding="utf-8")
            found[path.relative_to(folder).as_posix()] = text
            if path.suffix == ".html":
                found[f"{path.relative_to(folder).as_posix()}, as shown"] = BeautifulSoup(
                    text, "html.parser"
                ).get_text()
            if path.suffix == ".ipynb":
                cells = json.loads(text)["cells"]
                found[f"{path.name}, its cells"] = "\n".join("".join(cell["source"]) for cell in cells)
    return found


def answers(course: Course, names: list[str]) -> dict[str, str]:
    """Every reference and listed answer of some chapters that is not what students are given, and long enough to be one."""
    found = {}
    for name in names:
        stubs, references = course.chapter(name).answers, build.solution_source(course, name)
        written = {f"{name}, {answer}": source for answer, source in references.items()}
        for variant in listed.variants(course.listed_file(name)):
            source = variant.written_over(references[variant.answer])
            written[f"{name}, {variant.answer}, {variant.name}"] = source
        given = {squeezed(stub) for stub in stubs.values()}
        found |= {what: text for what, each in written.items() if (text := squeezed(each)) not in given}
    return {what: text for what, text in found.items() if len(text) >= leaks.SHORT}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, Path]:
    """A course of one chapter, and its site, for which the chapter was run."""
    course = courses.write(tmp_path_factory.mktemp("small") / "course", NAME, SOURCE + PICTURE, CHECKS)
    out = course.root.parent / "site"
    assert built.build(course, out).executed == (NAME,)
    return course, out


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of two chapters of this course, without outputs."""
    out = tmp_path_factory.mktemp("two") / "site"
    built.build(find(), out, names=TWO, execute=False)
    return out


def test_without_sphinx_the_mend_is_said_before_a_chapter_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(built, "find_spec", lambda module: None if module == "furo" else object())
    monkeypatch.setattr(outputs, "made", pytest.fail)
    with pytest.raises(CourseError, match="furo not found; install it: uv sync --extra site"):
        built.build(find(), tmp_path / "site")


def test_a_chapter_is_shown_with_what_it_prints_and_draws_before_anyone_answers(small: tuple[Course, Path]):
    _, out = small
    page = classroom.shown(out / "chapters" / f"{NAME}.html")
    assert "printed when it was run" in page.get_text()
    assert 'NotImplementedError("your turn")' in page.get_text()
    picture = page.select_one(".cell_output img")
    assert picture
    assert (picture["alt"], picture["width"], picture["height"]) == ("One dot.", "7", "5")
    assert (out / "chapters" / str(picture["src"])).resolve().read_bytes().startswith(b"\x89PNG")
    assert str(Path.cwd()) not in page.get_text()


def test_what_was_not_attempted_is_text_on_a_page_and_no_error(tmp_path: Path):
    course = find()
    executed = outputs.unexecuted(course, TWO[1])
    check = next(each for each in executed.notebook.cells if each.id == "check_where")
    for name in ("NotAttempted", "NotYet"):
        said = {"ename": name, "evalue": f"where: {name}.", "traceback": [f"where: {name}."]}
        check.outputs.append(nbformat.v4.new_output("error", **said))
    page = staged.chapter(about.read(course, TWO[1]), executed, tmp_path, [], words.of("en"))
    found = next(each for each in page.cells if each.id == "check_where").outputs
    assert [each.output_type for each in found] == ["stream", "error"]
    assert found[0].text == "○ where: NotAttempted.\n"


def test_what_was_run_is_not_run_again_until_the_chapter_changes(small: tuple[Course, Path], tmp_path: Path):
    course, out = small
    (out / "left_over.html").write_text("")
    again = built.build(course, out)  # in the place of the earlier one
    assert not (out / "left_over.html").exists()
    assert (again.executed, again.bare) == ((), ())
    other = courses.write(tmp_path / "course", NAME, SOURCE + PICTURE.replace("printed", "said"), CHECKS)
    assert outputs.key(other, NAME) != outputs.key(course, NAME)
    bare = built.build(other, tmp_path / "bare", execute=False)
    assert bare.bare == (NAME,)
    page = (tmp_path / "bare" / "chapters" / f"{NAME}.html").read_text()
    assert "no output and no picture is shown" in page
    assert "said when it was run</span>" not in page


def test_the_notebook_that_one_downloads_is_the_released_one(small: tuple[Course, Path]):
    course, out = small
    page = classroom.shown(out / "chapters" / f"{NAME}.html")
    link = next(str(each["href"]) for each in page.find_all("a", download=True))
    assert (out / "chapters" / link).resolve().read_bytes() == course.notebook(NAME).read_bytes()


def test_an_answer_that_a_page_shows_if_only_in_an_output_makes_no_site(tmp_path: Path):
    hidden = zlib.compress(LONG.encode())
    shown = f'\n# %% tags=["show"]\nimport zlib\nprint(zlib.decompress({hidden!r}).decode())\n'
    course = courses.write(tmp_path / "course", NAME, LEAKY + shown, CHECKS)
    with pytest.raises(CourseError, match=rf'chapters/{NAME}.html: holds the reference of "double"'):
        built.build(course, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_a_link_that_leads_nowhere_makes_no_site(tmp_path: Path):
    course = courses.write(tmp_path / "course", NAME, SOURCE + "\n# %% [markdown]\n# See [there](#nowhere).\n", CHECKS)
    with pytest.raises(CourseError, match="nowhere"):
        built.build(course, tmp_path / "site", execute=False)


def test_what_leads_nowhere_is_named(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.html").write_text(
        '<a href="two.html#here">x</a><a href="two.html#gone">x</a><a href="three.html">x</a><a href="#me" id="me">x</a>'
        '<img src="../none.png"><script src="https://example.org/x.js"></script><a href="https://example.org">x</a>'
        '<a href="../../outside">x</a>'
    )
    (tmp_path / "a" / "two.html").write_text('<p id="here">x</p>')
    (tmp_path.parent / "outside").write_text("not of the site")
    assert site_links.broken(tmp_path) == [
        "a/one.html: links to ../../outside, which is not there",
        "a/one.html: links to ../none.png, which is not there",
        "a/one.html: links to three.html, which is not there",
        "a/one.html: links to two.html#gone, which has no such anchor",
        "a/one.html: loads https://example.org/x.js from elsewhere",
    ]


def test_no_folder_of_ones_own_is_replaced(small: tuple[Course, Path], tmp_path: Path):
    course, _ = small
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")
    with pytest.raises(CourseError, match="something else already"):
        built.build(course, mine, execute=False)
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]


def test_a_stale_notebook_makes_no_site(tmp_path: Path):
    course = courses.write(tmp_path / "course", NAME, SOURCE, CHECKS)
    course.source(NAME).write_text(SOURCE.replace("# # Small", "# # Smaller"))
    with pytest.raises(CourseError, match="run `autograder build`"):
        built.build(course, tmp_path / "site", execute=False)


def test_a_page_of_two_chapters_links_well_and_shows_no_answer(two: Path):
    assert site_links.broken(two) == []
    texts = {path: squeezed(text) for path, text in read(two).items()}
    assert {f"chapters/{name}.html, as shown" for name in TWO} <= texts.keys()
    wanted = answers(find(), TWO)
    assert len(wanted) > 100
    assert [(what, path) for what, source in wanted.items() for path, text in texts.items() if source in text] == []
    assert not [path for path, text in texts.items() if "BEGIN SOLUTION" in text or "autograder.probe" in text]


def test_each_page_leads_to_its_twin_in_the_other_language_and_back_and_none_to_one_that_is_not_there(two: Path):
    every = {page.relative_to(two).as_posix() for page in two.rglob("*.html")}
    english = {page for page in every if not page.startswith("zh/")}
    both = {page for page in english if f"zh/{page}" in every}
    assert english - both == {"crosswalk.html"}
    assert every - english == {f"zh/{page}" for page in both}
    for page in every:
        shown, twin = classroom.shown(two / page), page.removeprefix("zh/") if page in english else page[3:]
        other = (two / (f"zh/{twin}" if page in english else twin)).resolve()
        tag = "zh-Hans" if page in english else "en"
        links = shown.select("nav.languages a, link[rel=alternate]")
        where = [((two / page).parent / str(each["href"])).resolve() for each in links]
        assert where == ([other] * 2 if twin in both else []), page
        assert {each["hreflang"] for each in links} <= {tag}
        assert [each["lang"] for each in shown.select("nav.languages a")] == [tag] * (twin in both)
        assert shown.html
        assert shown.html["lang"] == ("en" if page in english else "zh-Hans")


def test_a_chapter_that_is_not_translated_is_linked_to_in_english(tmp_path: Path):
    course = find()
    english = about.read(course, TWO[0])
    chinese = about.read(course, TWO[1], "zh")
    page = pages.front("t", [english, chinese], [], None, words.of("zh"))
    assert f'href="../chapters/{TWO[0]}.html" lang="en"' in page
    assert f"{TWO[1]}.html" not in page


@pytest.mark.parametrize("name", [name for name in find().chapters if in_language.is_translated(find(), "zh", name)])
def test_a_translated_chapter_says_of_itself_what_the_english_one_says(name: str):
    english, chinese = about.read(find(), name), about.read(find(), name, "zh")
    assert chinese.question.endswith("？")
    assert chinese.title != english.title
    assert [(task.name, task.points, task.optional, bool(task.asks)) for task in chinese.tasks] == [
        (task.name, task.points, task.optional, bool(task.asks)) for task in english.tasks
    ]
    assert (chinese.minutes, chinese.points, len(chinese.sections)) == (
        english.minutes,
        english.points,
        len(english.sections),
    )
    assert str(english.minutes) in chinese.does
    assert (bool(chinese.recipe), bool(chinese.taken)) == (bool(english.recipe), bool(english.taken))


def test_what_a_chinese_page_says_of_itself_is_chinese(two: Path):
    page = classroom.shown(two / "zh" / "chapters" / "03_device_placement.html").get_text()
    for said in ("75 分钟，9 个练习，23 分，其中 1 个由老师批阅", "学完之后能做什么", "显示代码", "上一页", "本页内容"):
        assert said in page
    assert "学生指南" in classroom.shown(two / "zh" / "student.html").get_text()


@pytest.mark.parametrize(("folder", "word"), [("", "pin"), ("zh", "拷贝")])
def test_the_search_finds_a_chapter_by_its_words(two: Path, folder: str, word: str):
    index = (two / folder / "searchindex.js").read_text()
    names = json.loads(index[index.index("(") + 1 : index.rindex(")")])
    found = names["terms"][word]
    where = [names["docnames"][number] for number in (found if isinstance(found, list) else [found])]
    assert "chapters/03_device_placement" in where
    assert "ChineseStemmer" not in (two / folder / "_static" / "language_data.js").read_text()


@pytest.mark.parametrize("name", find().chapters)
def test_a_chapter_says_of_itself_all_that_its_page_needs(name: str):
    found, course = about.read(find(), name), find()
    assert found.question.endswith("?")
    assert found.lead
    assert str(found.minutes) in found.does or "an hour" in found.does
    assert 30 <= found.minutes <= 180
    assert found.recipe
    assert [task.name for task in found.tasks if not task.asks] == []
    assert sum(task.points for task in found.tasks) == found.points == course.chapter(name).max_points


def test_the_first_page_has_the_start_pages_picture_the_commands_a_click_that_runs_it_and_a_row_a_chapter(two: Path):
    page = classroom.shown(two / "index.html")
    assert page.select_one("figure svg[role=img]")
    assert "pip install uv\nuv run across lab" in page.get_text()
    rows = [" ".join(row.get_text(" ").split()) for row in page.select("tbody tr")]
    assert [row[:2] for row in rows] == ["01", "03"]
    assert (
        "In 75 minutes you find out who decides, see TensorFlow overrule you, and place a Keras model by hand."
        in rows[1]
    )
    chinese = classroom.shown(two / "zh" / "index.html")
    assert "75 分钟" in chinese.select("tbody tr")[1].get_text()
    assert "来自第 03 章" in chinese.select_one("figcaption").get_text()
    abouts, address = [about.read(find(), TWO[1])], Address.read("x", "https://github.com/owner/name@main")
    assert f"colab/{TWO[1]}.ipynb" in pages.front("t", abouts, [], address, words.of("en"))


def test_a_chapters_page_begins_with_its_picture_in_a_file_and_so_does_what_one_can_do_after_it(two: Path):
    for page in (
        two / folder / part / f"{name}.html" for folder in ("", "zh") for part in ("chapters", "about") for name in TWO
    ):
        image = classroom.shown(page).select_one("article img")
        assert image["alt"]
        assert (page.parent / str(image["src"])).read_bytes().startswith(b"\x89PNG")
        assert "data:image/png" not in page.read_text(encoding="utf-8")


def test_a_teachers_page_says_what_the_chapter_says(two: Path):
    page = classroom.shown(two / "about" / "03_device_placement.html").get_text()
    for said in (
        "Which device runs each op, and how do I decide it?",
        "75 minutes, 9 exercises, 23 points, 1 read by a person",
        "Return the name of the device that holds a tensor",
        "placement.trace(model, x).draw()",
    ):
        assert said in page
    assert "DeviceSpec.from_string" not in page  # a hint


def test_links_to_colab_and_binder_are_there_where_an_address_is(small: tuple[Course, Path], two: Path, tmp_path: Path):
    course, _ = small
    assert not [path for path, text in read(two).items() if "colab.research" in text or "mybinder" in text]
    address = Address.read("published", "https://github.com/o/n")
    built.build(course, tmp_path / "site", execute=False, published=address)
    page = (tmp_path / "site" / "chapters" / f"{NAME}.html").read_text()
    assert f"https://colab.research.google.com/github/o/n/blob/main/colab/{NAME}.ipynb" in page
    assert f"https://mybinder.org/v2/gh/o/n/main?urlpath=lab/tree/notebooks/{NAME}.ipynb" in page


@pytest.mark.slow
def test_the_whole_course_is_built_in_a_minute_and_shows_no_answer(tmp_path: Path):
    course, started = find(), time.monotonic()
    built.build(course, tmp_path / "site", execute=False)
    assert time.monotonic() - started < 60  # on two quiet processors
    texts = {path: squeezed(text) for path, text in read(tmp_path / "site").items()}
    wanted = answers(course, list(course.chapters))
    assert [(what, path) for what, source in wanted.items() for path, text in texts.items() if source in text] == []
    if (course.root / "docs" / "crosswalk.md").is_file():
        assert (tmp_path / "site" / "crosswalk.html").is_file()
