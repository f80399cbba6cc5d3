"""Which language this process speaks, and its sentences: those of the library, and those of the notebooks beside it.

A kernel speaks the language that `across lab --lang` or `across run --lang` gave it (ACROSS_LANGUAGE); without that, the
one whose folder it was started in: `notebooks/zh/`. Whatever marks an answer speaks English and asks nothing here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from across._language.sentences import Sentences, Template

ENGLISH = "en"
LANGUAGES = {"zh": "简体中文"}  # besides English: a folder of notebooks and of catalogues each
VARIABLE = "ACROSS_LANGUAGE"
BESIDE = ".sentences.json"  # what the chapters' own code says, as `autograder build` writes it beside their notebooks
TOGETHER = (  # what `expecting` puts together of several texts, and would be cut at the wrong blank or comma
    "{0} returned {1}; expected {2}.",
    "{0} returned {1}; in it {2} is {3}; expected {4}.",
    "a list of {0}, each {1}",
)
PAGE = "page"  # the context, in the library's catalogue, of what the start page and JupyterLab's buttons say
TAGS = {"en": "en", "zh": "zh-Hans"}  # the languages in HTML
FOLDER = Path(__file__).parent
GRADING = "ACROSS_GRADING"  # is in the environment of a grader's kernel


def current() -> str:
    """The language of this process: "en", or a key of LANGUAGES."""
    chosen = ENGLISH if GRADING in os.environ else os.environ.get(VARIABLE, "")
    if chosen == ENGLISH or chosen in LANGUAGES:
        return chosen
    return started_in().name if started_in().name in LANGUAGES else ENGLISH


@cache
def started_in() -> Path:
    """The folder that the process was in when it first asked: of a kernel, its notebook's."""
    try:
        return Path.cwd()
    except OSError:  # it is gone
        return FOLDER


def said(text: str) -> str:
    """`text` in the language of this process; as it is where that is English, or where nobody has translated it."""
    language = current()
    return text if language == ENGLISH else _of_this_process(language).said(text)


def label(text: str) -> str:
    """A few words in a picture in the language of this process."""
    language = current()
    return text if language == ENGLISH else _of_this_process(language).label(text)


def of_notebook(notebook: Any) -> str:
    """The language that a notebook's metadata says, whatever the file holds: one of ours, else English."""
    ours: Any = notebook
    for key in ("metadata", "across"):
        ours = ours.get(key) if isinstance(ours, dict) else None
    found = ours.get("language") if isinstance(ours, dict) else None
    return found if isinstance(found, str) and found in LANGUAGES else ENGLISH


def messages(path: Path) -> list[Any]:
    """The messages of a .po file as babel has them, obsolete ones left out; none where there is no file.

    Raises ValueError for a file that is no catalogue.
    """
    from babel.messages.pofile import PoFileError, read_po  # 0.1 s, in another language alone

    if not path.is_file():
        return []
    try:
        with path.open("rb") as file:
            return [each for each in read_po(file, abort_invalid=True) if each.id]
    except (PoFileError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is no gettext catalogue: {error}") from None


def pairs(path: Path, context: str | None = None) -> dict[str, str]:
    """The translated messages of a .po file that have this `context`, those that are fuzzy left out. Raises ValueError."""
    said = [each for each in messages(path) if each.string and not each.fuzzy and each.context == context]
    return {str(each.id): str(each.string) for each in said}


def library(language: str) -> dict[str, str]:
    """What the library says, in a language."""
    return pairs(FOLDER / language / "across.po")


def tag() -> str:
    """The language of this process, as HTML names it."""
    return TAGS[current()]


@cache
def page(language: str) -> dict[str, str]:
    """What the start page and the buttons in JupyterLab say, in a language; nothing in English. Raises ValueError."""
    return {} if language == ENGLISH else pairs(FOLDER / language / "across.po", PAGE)


def on_page(template: str, *values: object) -> str:
    """A line of the start page in the language of this process, `values` in the places {0}, {1} ... of it."""
    return Template.read(page(current()).get(template, template)).filled(dict(enumerate(map(str, values))))


def beside(folders: Iterable[Path]) -> dict[str, str]:
    """What the notebooks of these folders say; nothing of a folder that has no such file, or a broken one."""
    found: dict[str, str] = {}
    for folder in folders:
        try:
            read = json.loads((folder / BESIDE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(read, dict):
            found |= {key: value for key, value in read.items() if isinstance(value, str)}
    return found


@cache
def _of_this_process(language: str) -> Sentences:
    return Sentences(library(language) | beside([started_in(), started_in() / language]))
