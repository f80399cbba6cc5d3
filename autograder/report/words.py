"""What a course's pages say in other languages: kept in OUT when a class is graded, read when a page is made.

    OUT/words/zh/<chapter>.json      English to Chinese: the chapter's cells

Pages are made wherever OUT is, by nbgrader's own commands, too. A page's language is its student's: it is on the record of
the notebook that was handed in, and no more than the language of that page hangs on it.
"""

from __future__ import annotations

import gettext
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from across._language import catalogue
from autograder.model import pictures, stubs
from autograder.model.course import Course, CourseError
from autograder.store import files

OURS = Path(__file__).parent


@dataclass(frozen=True)
class Words:
    """One language's words for the pages of a chapter; without any, everything stays as it is."""

    language: str = catalogue.ENGLISH
    prose: dict[str, str] = field(default_factory=dict, repr=False)  # the release's cells
    labels: gettext.NullTranslations = field(default_factory=gettext.NullTranslations, repr=False)  # ours

    @property
    def tag(self) -> str:
        """The language's name in HTML."""
        return {"zh": "zh-Hans"}.get(self.language, self.language)

    def title(self, english: str) -> str:
        """A chapter's title: the first heading of its notebook."""
        for cell, other in self.prose.items():
            if cell.partition("\n")[0] == f"# {english}":
                return other.partition("\n")[0].removeprefix("# ")
        return english

    def said(self, label: str) -> str:
        """A text of ours that was kept in English; any other stays as it is."""
        return self.labels.gettext(label) if label else label

    def cell(self, source: str) -> str:
        """A cell of the release."""
        return self.prose.get(source, source)

    def stub(self, source: str) -> str:
        """An answer, which is the student's, or the release's where nothing was written."""
        return stubs.PROSE.get(self.language, source) if source == stubs.PROSE[catalogue.ENGLISH] else source

    def filled(self, line: str, *values: object) -> str:
        """A line of a page, `values` in its places: both texts are HTML."""
        return self.labels.gettext(line).format(*values)


ENGLISH = Words()


def held(test: str) -> str:
    """What holds when a test passed: `test_two_of_them_take_turns[3]` as people say it."""
    said = test.partition("[")[0].removeprefix("test_").replace("_", " ").strip()
    return said[:1].upper() + said[1:]


def keep(course: Course, name: str, out: Path) -> None:
    """Write what a chapter's pages say in other languages into OUT. Raises CourseError for a broken catalogue; OSError."""
    for language in catalogue.LANGUAGES:
        prose = course.root / "solutions" / language / f"{name}.po"
        if not prose.is_file():
            continue
        try:
            pairs = catalogue.pairs(prose).items()
        except ValueError as error:
            raise CourseError(f"{error}; mend it, or leave the file out") from None
        said = {"prose": {pictures.without(english): pictures.without(other) for english, other in pairs}}
        files.replace(_place(out, language, name), json.dumps(said, sort_keys=True).encode())


def of(out: Path, chapter: str, language: str) -> Words:
    """The words of a chapter's pages in a language; where there are none, English."""
    place = _place(out, language, chapter)
    if language not in catalogue.LANGUAGES or not place.is_file():
        return ENGLISH
    return _read(place, language, place.stat().st_mtime_ns)


@cache
def _read(place: Path, language: str, _written: int) -> Words:
    try:
        kept = json.loads(place.read_text(encoding="utf-8"))
        return Words(language, dict(kept["prose"]), catalogue.translations(OURS / language / "autograder.po"))
    except (OSError, ValueError, KeyError, TypeError):  # a page in English is better than none
        return ENGLISH


def _place(out: Path, language: str, chapter: str) -> Path:
    return Path(out) / "words" / language / f"{chapter}.json"
