"""What a course's pages say in other languages: kept in OUT when a class is graded, read when a page is made.

    OUT/words/zh/<chapter>.json      English to Chinese: the chapter's cells, and the sentences of its checks

Pages are made wherever OUT is, by nbgrader's own commands, too. A page's language is its student's: it is on the record of
the notebook that was handed in, and no more than the language of that page hangs on it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from across._language import catalogue
from across._language.sentences import Sentences, Template
from autograder.model import stubs
from autograder.model.course import Course, CourseError
from autograder.store import files

OURS = Path(__file__).parent
CODE = "code"  # the context of what a chapter's own code says: see `authoring.catalogues`


@dataclass(frozen=True)
class Words:
    """One language's words for the pages of a chapter; without any, everything stays as it is."""

    language: str = catalogue.ENGLISH
    prose: dict[str, str] = field(default_factory=dict, repr=False)  # the release's cells
    sentences: Sentences = field(default=Sentences({}), repr=False)

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

    def said(self, sentence: str) -> str:
        """A sentence that was made in English."""
        return self.sentences.said(sentence)

    def cell(self, source: str) -> str:
        """A cell of the release."""
        return self.prose.get(source, source)

    def stub(self, source: str) -> str:
        """An answer, which is the student's, or the release's where nothing was written."""
        return stubs.PROSE.get(self.language, source) if source == stubs.PROSE[catalogue.ENGLISH] else source

    def filled(self, template: str, *values: object) -> str:
        """A line of a page, `values` in its places: both texts are HTML."""
        return Template.read(self.said_as(template)).filled(dict(enumerate(map(str, values))))

    def said_as(self, template: str) -> str:
        """The template in this language."""
        return self.sentences.template(template)


ENGLISH = Words()


def held(test: str) -> str:
    """What holds when a test passed: `test_two_of_them_take_turns[3]` as people say it."""
    said = test.partition("[")[0].removeprefix("test_").replace("_", " ").strip()
    return said[:1].upper() + said[1:]


def keep(course: Course, name: str, out: Path) -> None:
    """Write what a chapter's pages say in other languages into OUT. Raises CourseError for a broken catalogue; OSError."""
    for language in catalogue.LANGUAGES:
        prose = course.root / "solutions" / language / f"{name}.po"
        checks = course.root / course.checks / language / f"{name}.po"
        if not prose.is_file() and not checks.is_file():
            continue
        try:
            said = {
                "prose": catalogue.pairs(prose),
                "sentences": catalogue.pairs(prose, CODE) | catalogue.pairs(checks),
            }
        except ValueError as error:
            raise CourseError(f"{error}; mend it, or leave the file out") from None
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
        ours = catalogue.library(language) | catalogue.pairs(OURS / language / "autograder.po")
        return Words(language, dict(kept["prose"]), Sentences(ours | kept["sentences"]))
    except (OSError, ValueError, KeyError, TypeError):  # a page in English is better than none
        return ENGLISH


def _place(out: Path, language: str, chapter: str) -> Path:
    return Path(out) / "words" / language / f"{chapter}.json"
