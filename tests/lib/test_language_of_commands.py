"""`--lang`: the commands open and run the notebooks of a language, and say what there is where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from across._jupyter import chapters, lab
from across._language import catalogue


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two notebooks, one of them in Chinese, too."""
    folder = tmp_path / "notebooks"
    (folder / "zh").mkdir(parents=True)
    for path in ("01_one.ipynb", "02_two.ipynb", "zh/01_one.ipynb"):
        (folder / path).write_text("{}", encoding="utf-8")
    monkeypatch.setenv("ACROSS_COURSE", str(tmp_path))
    monkeypatch.delenv(catalogue.GRADING, raising=False)
    monkeypatch.setenv(catalogue.VARIABLE, "en")  # and taken back afterwards
    return folder


def test_a_chapter_is_found_in_the_language_and_in_english_where_it_is_not_translated(course: Path):
    chapters.speak("zh")
    assert chapters.find("01") == course / "zh" / "01_one.ipynb"
    assert chapters.find("two") == course / "02_two.ipynb"
    chapters.speak("en")
    assert chapters.find("01") == course / "01_one.ipynb"


@pytest.mark.usefixtures("course")
def test_without_a_wish_the_language_stays():
    chapters.speak("zh")
    chapters.speak("")
    assert catalogue.current() == "zh"


def test_jupyterlab_opens_on_the_folder_of_the_language_and_serves_all(course: Path):
    assert lab.in_language(course) == []
    chapters.speak("zh")
    assert lab.in_language(course) == ["--LabApp.default_url=/lab/tree/zh"]
    assert f"--ServerApp.root_dir={course}" in lab.arguments(course, False, 8888)
    assert lab.in_language(course / "zh") == []  # nothing there to open on


@pytest.mark.parametrize("verb", [["lab", "--no-browser"], ["run", "01"]])
def test_a_language_that_there_is_not_is_told_with_those_that_there_are(course: Path, verb: list[str]):
    command = [sys.executable, "-c", "from across.cli import main; main()", *verb, "--lang", "fr"]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.strip() == "across: --lang fr: there are en (English), zh (简体中文)"
