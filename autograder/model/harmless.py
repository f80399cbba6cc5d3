"""What students wrote as text: every character of it seen, in files, in CSV, in addresses of pages. Markup: see `markup`."""

from __future__ import annotations

import re
from urllib.parse import quote

# Written as \x1b, \u202e and so on: control characters, marks that turn the direction of writing, what has no width,
# line and paragraph separators, and halves of surrogate pairs, which no file can hold.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
UNENCODABLE = re.compile("[\x00\ud800-\udfff]")
FORMULA = ("=", "+", "-", "@")


def visible(text: object) -> str:
    """Return `text` with everything that is not seen, or that changes how the rest is seen, written as an escape."""
    shown = text if isinstance(text, str) else repr(text)
    return HIDDEN.sub(lambda match: escaped(match[0]), shown.replace("\r\n", "\n"))


def escaped(character: str) -> str:
    """Return a character written as an escape."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def line(text: object, width: int = 0) -> str:
    """Return `text` visible and on one line, of at most `width` characters if that is not 0."""
    shown = " ".join(visible(text).split())
    return shown if not width or len(shown) <= width else shown[: width - 1] + "…"


def field(text: object) -> str:
    """Return `text` as a field of a CSV file that no spreadsheet takes for a formula (OWASP, CSV injection)."""
    shown = line(text)
    return "'" + shown if shown.startswith(FORMULA) else shown


def unfield(shown: str) -> str:
    """The text of one line that `field` returned `shown` for."""
    return shown[1:] if shown.startswith("'") and shown[1:].startswith(FORMULA) else shown


def link(*parts: str) -> str:
    """Return a relative URL to a file, its parts quoted."""
    return "/".join(quote(part, safe="") for part in parts)


def names_a_folder(student: str) -> bool:
    """Whether a student's name can name a folder, as all those do that `intake.student_name` made."""
    return student not in ("", ".", "..") and not set(student) & set('/<>&"') and student.isprintable()
