"""Another language for what the library says: found by templates, shown where a sentence is shown, and never a cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib import font_manager

from across import attempt, expecting, pictures
from across._language import catalogue, pictured


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(catalogue.VARIABLE, "zh")
    monkeypatch.delenv(catalogue.GRADING, raising=False)
    catalogue._beside.cache_clear()
    yield
    catalogue._beside.cache_clear()


@pytest.mark.usefixtures("chinese")
def test_values_go_into_the_translated_text_and_what_nobody_has_translated_is_english():
    assert catalogue.said("{0}: not yet. {1}", "double", "{0}") == "double：还不对。{0}"
    assert catalogue.said("{0} has said {1}", "nobody", "this") == "nobody has said this"
    assert (catalogue.said("{0}"), catalogue.said("")) == ("{0}", "")


@pytest.mark.usefixtures("chinese")
def test_a_check_speaks_the_language_of_its_kernel_and_says_of_an_answer_what_marks_say(
    capsys: pytest.CaptureFixture[str],
):
    with pytest.raises(attempt.NotYet) as caught, attempt.attempt("double"):
        attempt.expect(False, "")
    assert str(caught.value) == "double：还不对。检查没有通过。"
    assert caught.value._render_traceback_() == ["✗ double：还不对。检查没有通过。"]
    with pytest.raises(attempt.NotYet) as caught, attempt.attempt("double"):
        attempt.call(lambda: "x", returns=expecting.number)
    assert str(caught.value) == "double：还不对。`<lambda>()` returned 'x'; expected a number."
    with attempt.attempt("double"):
        pass
    assert capsys.readouterr().out == "✓ double：目前看来是对的；你的成绩由更多问题决定。\n"


def test_the_graders_kernel_speaks_english_whatever_its_environment_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(catalogue.VARIABLE, "zh")
    monkeypatch.setenv(catalogue.GRADING, "1")
    assert catalogue.current() == "en"


@pytest.mark.parametrize(
    ("environment", "folder", "language"),
    [
        ({}, "zh", "zh"),
        ({}, "notebooks", "en"),
        ({"ACROSS_LANGUAGE": "en"}, "zh", "en"),
        ({"ACROSS_LANGUAGE": "xx"}, ".", "en"),
    ],
)
def test_a_kernel_speaks_the_language_that_it_was_given_or_that_of_its_folder(
    tmp_path: Path, environment: dict[str, str], folder: str, language: str
):
    (tmp_path / folder).mkdir(exist_ok=True)
    code = "from across._language import catalogue; print(catalogue.current())"
    env = {key: value for key, value in os.environ.items() if not key.startswith("ACROSS_")} | environment
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == language


@pytest.mark.parametrize(
    "notebook",
    [None, 3, [], {}, {"metadata": None}, {"metadata": {"across": []}}]
    + [{"metadata": {"across": {"language": said}}} for said in (None, 7, ["zh"], "xx", "../zh", "zh\n", "ZH")],
)
def test_a_notebooks_language_is_read_and_a_forged_one_is_english(notebook: object):
    assert catalogue.of_notebook({"metadata": {"across": {"language": "zh"}}}) == "zh"
    assert catalogue.of_notebook(notebook) == "en"


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(("content", "words"), [("{", "Two"), ("[]", "Two"), ('{"Two": "二", "c": 3}', "二")])
def test_a_chapters_own_words_are_read_beside_it_and_a_broken_file_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, words: str
):
    (tmp_path / catalogue.BESIDE).write_text(content, encoding="utf-8")
    monkeypatch.setattr(catalogue, "started_in", lambda: tmp_path)
    assert [catalogue.given(each) for each in ("Two", "c", "measured", "")] == [words, "c", "实测", ""]


@pytest.mark.usefixtures("chinese")
def test_a_chapters_words_with_values_are_found_by_the_text_around_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    known = {"Built under {0}": "在 {0} 下构建", "{0}: ends after {1} s": "{0}：{1} 秒后结束", "hers": "她的"}
    (tmp_path / catalogue.BESIDE).write_text(json.dumps(known), encoding="utf-8")
    monkeypatch.setattr(catalogue, "started_in", lambda: tmp_path)
    for english, chinese in (
        ("Built under /GPU:0", "在 /GPU:0 下构建"),
        ("hers: ends after 3 s", "她的：3 秒后结束"),
        ("Not Built under /GPU:0", "Not Built under /GPU:0"),
    ):
        assert catalogue.given(english) == chinese


def words(figure) -> set[str]:
    from matplotlib.text import Text

    figure.canvas.draw()
    return {text.get_text() for text in figure.findobj(Text) if text.get_text()}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch):
    """The figures that are drawn."""
    found = []
    render = pictures.render
    monkeypatch.setattr(pictures, "render", lambda figure, alt: found.append(figure) or render(figure, alt))
    return found


@pytest.mark.usefixtures("chinese")
def test_without_a_font_a_picture_keeps_its_english_words_and_its_alt_text_is_chinese(
    drawn: list, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pictured, "font", lambda: "")
    made = pictures.bars({"your rule": [1.0, 3.0], "measured": 2.0}, title="t", unit="tensors")
    assert {"your rule", "measured", "tensors (bar: median; dots: each run)"} <= words(drawn[0])
    assert made.alt == "条形图，t，单位：张量。你的规则 2（2 次运行，1 到 3）；实测 2。"


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.usefixtures("chinese")
def test_with_a_font_title_axis_and_names_are_chinese(drawn: list, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pictured, "font", lambda: "DejaVu Sans")  # stands for one: what is written, not how it looks
    pictures.bars({"your rule": 1.0, "measured": 2.0}, title="What is here, layer by layer", unit="tensors")
    assert {"你的规则", "实测", "张量", "这里有什么，一层一层看"} <= words(drawn[0])


@pytest.mark.usefixtures("chinese")
def test_ticks_that_are_labelled_by_numbers_are_drawn(drawn: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / catalogue.BESIDE).write_text(json.dumps({"Built under {0}": "在 {0} 下构建"}), encoding="utf-8")
    monkeypatch.setattr(catalogue, "started_in", lambda: tmp_path)
    monkeypatch.setattr(pictured, "font", lambda: "DejaVu Sans")
    figure, axes = pictures.plot(title="t", x="x", y="y")
    axes.set_yticks([0.1, 0.5], [0.1, 0.5])
    pictures.render(figure, "Two ticks.")
    assert {"0.1", "0.5"} <= words(drawn[0])


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.usefixtures("chinese")
def test_lanes_of_threads_and_an_axis_of_words_are_chinese(drawn: list, monkeypatch: pytest.MonkeyPatch):
    from across.timeline import Op, Timeline

    monkeypatch.setattr(pictured, "font", lambda: "DejaVu Sans")
    Timeline((Op("inter-op 1", "a", "Add", 0.0, 1.0),), (Op("intra-op 2", "a", "Add", 0.0, 1.0),)).draw()
    assert {"op 间 1", "op 内 2"} <= words(drawn[0])
    figure, axes = pictures.plot(title="t", x="x", y="")
    axes.plot([1.0, 2.0], ["your rule", "measured"], "o")
    pictures.render(figure, "Two dots.")
    assert {"你的规则", "实测"} <= words(drawn[-1])


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.usefixtures("chinese")
def test_a_name_in_the_program_stays_as_it_is(drawn: list, monkeypatch: pytest.MonkeyPatch):
    from across._draw import lanes
    from across.placement import Op, Trace

    monkeypatch.setattr(lanes, "render", pictures.render)
    monkeypatch.setattr(pictured, "font", lambda: "DejaVu Sans")
    given = Op("input", "Input", "CPU:0", "float32", (), kind="input")
    Trace((given, Op("loss", "Sum", "CPU:0", "float32", (), ("input",)))).draw()
    assert {"input", "输入", "loss", "Sum"} <= words(drawn[0])
    assert "损失" not in words(drawn[0])


def test_a_font_counts_only_if_it_has_the_characters():
    assert not pictured._has(font_manager.findfont("DejaVu Sans"))
    assert not pictured._has("/nowhere.ttf")


def test_a_font_that_was_installed_after_matplotlibs_first_start_is_found(monkeypatch: pytest.MonkeyPatch):
    path = font_manager.findfont("DejaVu Sans")  # stands for a Chinese one
    monkeypatch.setattr(pictured, "KNOWN", ["DejaVu Sans"])
    monkeypatch.setattr(pictured, "_has", lambda _: True)
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [])  # as the first start kept it
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    assert pictured.font.__wrapped__() == ""
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [path])
    assert pictured.font.__wrapped__() == "DejaVu Sans"
