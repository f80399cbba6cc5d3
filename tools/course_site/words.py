"""What the site's own pages say in a language: looked up where it is said; what nobody has translated is English."""

from __future__ import annotations

import gettext
import io
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from across._language import catalogue
from across._language.catalogue import marked

OURS = Path(__file__).parent  # in it a folder a language, with site.po
SPHINX = {"zh": "zh_CN"}  # where its name for a language is another
THEME = (  # what Furo says, which speaks English alone
    *(marked("Next"), marked("Previous"), marked("Home"), marked("Back to top"), marked("Skip to content")),
    *(marked("On this page"), marked("Made with ")),
)
LABELS = (  # and what it says to those who cannot see it, written out in its template
    marked("Toggle site navigation sidebar"),
    marked("Toggle table of contents sidebar"),
    marked("Toggle Light / Dark / Auto color theme"),
)


@dataclass(frozen=True)
class Words:
    """One language's words."""

    language: str = catalogue.ENGLISH
    labels: gettext.NullTranslations = field(default_factory=gettext.NullTranslations, repr=False)

    @property
    def tag(self) -> str:
        """The language's name in HTML."""
        return catalogue.TAGS[self.language]

    @property
    def name(self) -> str:
        """The language's name in itself."""
        return catalogue.LANGUAGES.get(self.language, "English")

    @property
    def folder(self) -> str:
        """Where its pages are, from the site's own folder: "" or "zh/"."""
        return "" if self.language == catalogue.ENGLISH else f"{self.language}/"

    def said(self, text: str, *values: object) -> str:
        """`text` in the language, `values` in its places {0}, {1} ..."""
        return self.labels.gettext(text).format(*values)

    def theme(self) -> bytes:
        """What the theme says, as a compiled catalogue."""
        from babel.messages.catalog import Catalog
        from babel.messages.mofile import write_mo

        compiled, messages = io.BytesIO(), Catalog()
        for each in THEME:
            messages.add(each, self.said(each))
        write_mo(compiled, messages)
        return compiled.getvalue()


@cache
def of(language: str) -> Words:
    """The words of a language. Raises ValueError for a catalogue that is none."""
    if language == catalogue.ENGLISH:
        return Words()
    return Words(language, catalogue.translations(OURS / language / "site.po"))
