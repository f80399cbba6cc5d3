"""The characters that nobody sees, or that change how others are seen: one set for names, pages and files."""

from __future__ import annotations

import regex

# What Unicode gives a renderer to ignore (fillers, joiners, marks of direction, selectors, tags); control characters, but
# the tab and the line feed; halves of surrogate pairs, which no file can hold; separators of lines and paragraphs;
# annotations and the controls of hieroglyphs; and letters whose glyph is empty: the blank of Braille, of notes, of Khitan.
CHARACTERS = (
    r"[[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cs}\p{Zl}\p{Zp}\ufff9-\ufffb\U00013430-\U00013442"
    r"\u2800\U0001d159\U00016fe4]--[\t\n]]"
)
UNSEEN = regex.compile(CHARACTERS, regex.V1)
# The same in prose, where what chooses the look of a sign before it is wanted
IN_PROSE = regex.compile(rf"(?:(?<!\p{{So}})[\ufe0e\ufe0f]|{CHARACTERS[:-1]}--[\ufe0e\ufe0f]])", regex.V1)


def escape(character: str) -> str:
    """A character as Python would write it in a text: `\\x1b`, `\\u202e`."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
