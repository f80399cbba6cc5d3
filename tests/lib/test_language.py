"""Another language for what the library says: found by templates, shown where a sentence is shown, and never a cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from across import attempt, pictures
from across._language import catalogue, pictured
from across._language.sentences import LONGEST, Sentences, Template

ZH = {
    "{0} returned {1}; expected {2}.": "{0} 返回了 {1}；应为{2}。",
    "a whole number": "一个整数",
    "{0} you said {1}, it ran on {2}{3}": "{0} 你说在 {1}，实际在 {2} 上运行{3}",
    "  <- a surprise": "  <- 没想到",
    "it touches a variable": "它触及一个变量",
    "You place {0} on {1}, TensorFlow ran it on {2}": "你把 {0} 放在 {1}，TensorFlow 却在 {2} 上运行它",
    "after {0}: {1}": "{0} 之后：{1}",
    "{0} holds {1}": "{0} 占有 {1}",
    "a set {{{0}}} of {1}": "{1} 的集合 {{{0}}}",
}


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(catalogue.VARIABLE, "zh")
    monkeypatch.delenv(catalogue.GRADING, raising=False)
    catalogue._of_this_process.cache_clear()
    yield
    catalogue._of_this_process.cache_clear()


@pytest.mark.parametrize(
    ("english", "other"),
    [
        ("`f(1)` returned 'x'; expected a whole number.", "`f(1)` 返回了 'x'；应为一个整数。"),
        ("Mul you said CPU:1, it ran on CPU:2", "Mul 你说在 CPU:1，实际在 CPU:2 上运行"),
        ("Mul you said CPU:1, it ran on CPU:2  <- a surprise", "Mul 你说在 CPU:1，实际在 CPU:2 上运行  <- 没想到"),
        (
            "You place v on A, TensorFlow ran it on B: it touches a variable.",
            "你把 v 放在 A，TensorFlow 却在 B 上运行它：它触及一个变量。",
        ),
        ("after x: a holds 3; after y: b holds 4", "x 之后：a 占有 3；y 之后：b 占有 4"),
        ("a set {1} of numbers", "numbers 的集合 {1}"),
        ("nobody has said this", "nobody has said this"),
        ("", ""),
    ],
)
def test_a_sentence_is_found_by_the_template_that_it_was_made_from(english: str, other: str):
    assert Sentences(ZH).said(english) == other


def test_a_translation_may_turn_values_round_and_leave_one_out():
    assert Sentences({"{0} copies of {1}{2}": "{1} 的 {0} 份"}).said("3 copies of w") == "w 的 3 份"


@pytest.mark.parametrize("text", ["a { brace", "{x}", "}", "{0"])
def test_a_brace_that_stands_alone_is_no_template(text: str):
    with pytest.raises(ValueError, match="brace"):
        Template.read(text)


@pytest.mark.parametrize("piece", ["after x: ", "; expected ", " returned ", "; ", ": ", "a", "after "])
def test_a_hostile_sentence_takes_no_longer_than_another(piece: str):
    sentences = Sentences(catalogue.library("zh"))
    began = time.process_time()
    sentences.said((piece * LONGEST)[:LONGEST])
    assert time.process_time() - began < 2.0


def test_what_is_too_long_stays_as_it_is():
    text = "a whole number" + " " * LONGEST
    assert Sentences(ZH).said(text) == text


@pytest.mark.usefixtures("chinese")
def test_a_check_speaks_the_language_of_its_kernel_and_keeps_its_english_sentence():
    with pytest.raises(attempt.NotYet) as caught, attempt.attempt("double"):
        attempt.expect(False, "")
    assert str(caught.value) == "double：还不对。检查没有通过。"
    assert caught.value.sentence == "double: not yet. The check does not hold."
    assert caught.value._render_traceback_() == ["✗ double：还不对。检查没有通过。"]


@pytest.mark.usefixtures("chinese")
def test_the_sentence_of_a_line_that_passed_is_chinese(capsys: pytest.CaptureFixture[str]):
    with attempt.attempt("double"):
        pass
    assert capsys.readouterr().out == "✓ double：目前看来是对的；评分时还会问得更多。\n"


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
def test_a_forged_language_is_english(notebook: object):
    assert catalogue.of_notebook(notebook) == "en"


def test_a_notebooks_language_is_read():
    assert catalogue.of_notebook({"metadata": {"across": {"language": "zh"}}}) == "zh"


def test_a_broken_file_beside_the_notebooks_costs_nothing(tmp_path: Path):
    (tmp_path / catalogue.BESIDE).write_text("{", encoding="utf-8")
    assert catalogue.beside([tmp_path, tmp_path / "none"]) == {}
    (tmp_path / catalogue.BESIDE).write_text(json.dumps({"a": "b", "c": 3}), encoding="utf-8")
    assert catalogue.beside([tmp_path]) == {"a": "b"}


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
    picture = pictures.bars({"your rule": 1.0, "measured": 2.0}, title="t", unit="tensors")
    assert {"your rule", "measured", "tensors"} <= words(drawn[0])
    assert picture.alt.startswith("条形图，t，单位：张量个数：你的规则 1")


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.usefixtures("chinese")
def test_with_a_font_title_axis_and_names_are_chinese(drawn: list, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pictured, "font", lambda: "DejaVu Sans")  # stands for one: what is written, not how it looks
    pictures.bars({"your rule": 1.0, "measured": 2.0}, title="What is here, layer by layer", unit="tensors")
    assert {"你的规则", "实测", "张量个数", "这里有什么，一层一层看"} <= words(drawn[0])


def test_a_font_counts_only_if_it_has_the_characters():
    from matplotlib import font_manager

    assert not pictured._has(font_manager.findfont("DejaVu Sans"))
    assert not pictured._has("/nowhere.ttf")


def test_no_font_is_said_in_the_readers_language():
    assert "字体" in catalogue.library("zh")[pictured.NO_FONT]


def test_words_that_were_put_together_for_a_picture_are_found_one_by_one():
    sentences = Sentences({"two programs": "两个程序", "in use": "使用中"})
    assert sentences.label("MODEL: two programs") == "MODEL：两个程序"
    assert sentences.label("first, in use") == "first，使用中"
    assert sentences.label("CPU:0") == "CPU:0"
