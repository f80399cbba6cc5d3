"""What students wrote as text: every character of it seen, in files, in CSV, in addresses of pages. Markup: see `markup`."""

from __future__ import annotations

import re
from urllib.parse import quote

import regex

# What Unicode gives a renderer to ignore (fillers, joiners, marks of direction, selectors, tags); control characters, but
# the tab and the line feed; halves of surrogate pairs, which no file can hold; separators of lines and paragraphs;
# annotations and the controls of hieroglyphs; letters whose glyph is empty: the blank of Braille, of notes, of Khitan; and what
# is for private use or not assigned, whose glyph nobody knows.
CHARACTERS = (
    r"[[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\ufff9-\ufffb\U00013430-\U00013442"
    r"\u2800\U0001d159\U00016fe4]--[\t\n]]"
)
UNSEEN = regex.compile(CHARACTERS, regex.V1)
# The same in prose, where what chooses the look of a sign before it is wanted
IN_PROSE = regex.compile(rf"(?:(?<!\p{{So}})[\ufe0e\ufe0f]|{CHARACTERS[:-1]}--[\ufe0e\ufe0f]])", regex.V1)

UNENCODABLE = re.compile("[\x00\ud800-\udfff]")
FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")  # the last four are as wide as Chinese characters
# Where a spreadsheet may begin a cell: at the start, and after a semicolon, which parts cells where a comma is decimal
CELL = re.compile(rf"((?:^|;) *)(?='*[{''.join(map(re.escape, FORMULA))}])")
QUOTED = re.compile(rf"((?:^|;) *)'(?='*[{''.join(map(re.escape, FORMULA))}])")


def escape(character: str) -> str:
    """A character as Python would write it in a text: `\\x1b`, `\\u202e`."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: object) -> str:
    """Return `text` with everything that is not seen, or that changes how the rest is seen, written as an escape."""
    shown = text if isinstance(text, str) else repr(text)
    return IN_PROSE.sub(lambda match: escape(match[0]), shown.replace("\r\n", "\n"))


def line(text: object, width: int = 0) -> str:
    """Return `text` visible and on one line, of at most `width` characters if that is not 0."""
    shown = " ".join(visible(text).split())
    return shown if not width or len(shown) <= width else shown[: width - 1] + "…"


def field(text: object) -> str:
    """Return `text` as a field of a CSV file that no spreadsheet takes for a formula (OWASP, CSV injection).

    Different lines give different fields: `unfield` tells which it was.
    """
    return CELL.sub(r"\1'", line(text))


def unfield(shown: str) -> str:
    """The text of one line that `field` returned `shown` for."""
    return QUOTED.sub(r"\1", shown)


def link(*parts: str) -> str:
    """Return a relative URL to a file, its parts quoted."""
    return "/".join(quote(part, safe="") for part in parts)


def names_a_folder(student: str) -> bool:
    """Whether a student's name can name a folder, as all those do that `intake.student_name` made."""
    return student not in ("", ".", "..") and not set(student) & set('/<>&"') and student.isprintable()


def folder_name(student: str) -> str:
    """A student's name, which names folders here. Raises ValueError where `intake.student_name` did not make it."""
    if not names_a_folder(student):
        raise ValueError(f"{student!r} cannot name a student's folder")
    return student
