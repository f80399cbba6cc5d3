"""`--lang`: the commands open and run the notebooks of a language, and say what there is where there is none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from jupyterlab.commands import get_app_dir
from jupyterlab_server.settings_utils import get_settings
from jupyterlab_server.translation_utils import get_language_pack
from processes import across

from across._jupyter import chapters, lab, validating
from across._language import catalogue

TRANSLATION = "@jupyterlab/translation-extension:plugin"
SCHEMAS = str(Path(get_app_dir()) / "schemas")


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
    chapters.speak("")  # without a wish it stays
    assert chapters.find("01") == course / "zh" / "01_one.ipynb"
    assert chapters.find("two") == course / "02_two.ipynb"
    chapters.speak("en")
    assert chapters.find("01") == course / "01_one.ipynb"


@pytest.mark.usefixtures("course")
@pytest.mark.parametrize(("language", "locale"), [("en", "en"), ("zh", "zh_CN")])
def test_jupyterlabs_own_words_are_in_the_language_for_this_server_alone(
    language: str, locale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Asked as JupyterLab asks, with a user's folder that has no settings; it stays so."""
    user = tmp_path / "user"
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(user))
    chapters.speak(language)
    for name, value in lab.environment({"PATH": ""}).items():
        monkeypatch.setenv(name, value)
    found, warnings = get_settings(str(tmp_path / "app"), SCHEMAS, str(user), TRANSLATION)
    assert (found["schema"]["properties"]["locale"]["default"], warnings) == (locale, [None])
    notices, _ = get_settings(str(tmp_path / "app"), SCHEMAS, str(user), "@jupyterlab/apputils-extension:notification")
    assert notices["schema"]["properties"]["fetchNews"]["default"] == "false"  # what both languages have in common
    assert not user.exists()


def test_jupyterlab_has_the_words_that_the_locale_asks_for():
    words, message = get_language_pack("zh_CN")
    assert (words["jupyterlab"]["File Browser"], message) == (["文件管理器"], "")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_runs_in_jupyterlab_is_given_its_words(language: str, course: Path):
    chapters.speak(language)
    said: list[tuple[str, type]] = []
    server = SimpleNamespace(
        web_app=SimpleNamespace(settings={"base_url": "/"}, add_handlers=lambda _, found: said.extend(found)),
        root_dir=str(course),
    )
    validating._load_jupyter_server_extension(server)
    given = server.web_app.settings.get("page_config_data", {}).get("acrossWords", "{}")
    words = json.loads(given)
    scripts = [path.read_text(encoding="utf-8") for path in sorted(lab.DATA.rglob("*.js"))]
    assert len(scripts) == 3
    wanted = {each for script in scripts for each in re.findall(r'\bsay\("([^"]+)"', script)}
    assert len(wanted) > 10
    assert wanted - words.keys() == (set() if language == "zh" else wanted)
    assert len(said) == 3


@pytest.mark.usefixtures("course")
@pytest.mark.parametrize("verb", [["lab", "--no-browser"], ["run", "01"]])
def test_a_language_that_there_is_not_is_told_with_those_that_there_are(verb: list[str]):
    done = across(*verb, "--lang", "fr")
    assert done.returncode == 2
    assert done.stderr.strip() == "across: --lang fr: there are en (English), zh (简体中文)"
