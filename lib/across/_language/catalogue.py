"""Which language this process speaks, and its words: those of the library, and those in pictures of the notebooks beside it.

    print(said("{0}: not yet. {1}", name, why))

Texts go by gettext where they are said, and their values into the translated one; what nobody has translated is English.

A kernel speaks the language that `across lab --lang` or `across run --lang` gave it (ACROSS_LANGUAGE); without that, the
one whose folder it was started in: `notebooks/zh/`. Whatever marks an answer speaks English and asks nothing here.
"""

from __future__ import annotations

import gettext
import io
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from babel.messages.catalog import Catalog

ENGLISH = "en"
LANGUAGES = {"zh": "简体中文"}  # besides English: a folder of notebooks and of catalogues each
VARIABLE = "ACROSS_LANGUAGE"
BESIDE = (
    ".words.json"  # the words in the chapters' own pictures, as `autograder build` writes them beside their notebooks
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


def said(text: str, *values: object) -> str:
    """`text` in the language of this process, `values` in its places {0}, {1} ...; English where nobody has translated it."""
    found = _library(current()).gettext(text) if text else text
    return found.format(*values) if values else found


def marked(text: str) -> str:
    """The same text, and a message of the library's catalogue: it is looked up where it is shown."""
    return text


def given(words: str) -> str:
    """Words that a chapter's code gives, or that are marked, in the language of this process."""
    language = current()
    if language == ENGLISH:
        return words
    return _beside(language).get(words) or _filled(words, _beside(language)) or said(words)


def _filled(words: str, known: dict[str, str]) -> str:
    """Words with values, "Built under /GPU:0", by the chapter's own with places for them, "Built under {0}"; "" for none."""
    for text, translated in known.items():
        if "{0}" in text and (found := re.fullmatch(re.sub(r"\\\{\d\\\}", "(.*)", re.escape(text)), words)):
            return translated.format(*map(given, found.groups()))
    return ""


def of_notebook(notebook: Any) -> str:
    """The language that a notebook's metadata says, whatever the file holds: one of ours, else English."""
    ours: Any = notebook
    for key in ("metadata", "across"):
        ours = ours.get(key) if isinstance(ours, dict) else None
    found = ours.get("language") if isinstance(ours, dict) else None
    return found if isinstance(found, str) and found in LANGUAGES else ENGLISH


def read(path: Path) -> Catalog:
    """A .po file as babel has it; one without messages where there is no file. Raises ValueError for what is no catalogue."""
    from babel.messages.catalog import Catalog
    from babel.messages.pofile import PoFileError, read_po  # 0.1 s, in another language alone

    if not path.is_file():
        return Catalog()
    try:
        with path.open("rb") as file:
            return read_po(file, abort_invalid=True)
    except PoFileError as error:
        raise ValueError(f"{path}:{error.lineno + 1}: is no gettext catalogue: {error}") from None
    except (ValueError, LookupError) as error:  # bytes that are no text, a header that is none
        raise ValueError(f"{path}: is no gettext catalogue: {error}") from None


def pairs(path: Path, context: str | None = None) -> dict[str, str]:
    """The translated messages of a .po file that have this `context`, those that are fuzzy left out. Raises ValueError."""
    messages = [each for each in read(path) if each.id and each.string and not each.fuzzy and each.context == context]
    return {str(each.id): str(each.string) for each in messages}


def translations(path: Path) -> gettext.NullTranslations:
    """The messages of a .po file for gettext, those that are fuzzy left out. Raises ValueError."""
    from babel.messages.mofile import write_mo

    compiled = io.BytesIO()
    write_mo(compiled, read(path))
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)


@cache
def page(language: str) -> dict[str, str]:
    """What the start page and the buttons in JupyterLab say, in a language; nothing in English. Raises ValueError."""
    return {} if language == ENGLISH else pairs(FOLDER / language / "across.po", PAGE)


@cache
def _library(language: str) -> gettext.NullTranslations:
    return gettext.NullTranslations() if language == ENGLISH else translations(FOLDER / language / "across.po")


@cache
def _beside(language: str) -> dict[str, str]:
    """What stands in the file beside the notebooks; nothing where there is none, or a broken one."""
    found: dict[str, str] = {}
    for folder in (started_in(), started_in() / language):
        try:
            words = json.loads((folder / BESIDE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(words, dict):
            found |= {key: value for key, value in words.items() if isinstance(value, str)}
    return found
