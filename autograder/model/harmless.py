"""What students wrote as text: every character of it seen, in files, in CSV, in addresses of pages. Markup: see `markup`."""

from __future__ import annotations

import re
from urllib.parse import quote

from autograder.model import unseen

UNENCODABLE = re.compile("[\x00\ud800-\udfff]")
FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")  # the last four are as wide as Chinese characters
# Where a spreadsheet may begin a cell: at the start, and after a semicolon, which parts cells where a comma is decimal
CELL = re.compile(rf"((?:^|;) *)(?='*[{''.join(map(re.escape, FORMULA))}])")
QUOTED = re.compile(rf"((?:^|;) *)'(?='*[{''.join(map(re.escape, FORMULA))}])")


def visible(text: object) -> str:
    """Return `text` with everything that is not seen, or that changes how the rest is seen, written as an escape."""
    shown = text if isinstance(text, str) else repr(text)
    return unseen.IN_PROSE.sub(lambda match: unseen.escape(match[0]), shown.replace("\r\n", "\n"))


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
