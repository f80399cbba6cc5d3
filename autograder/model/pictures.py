"""Pictures in a chapter's prose: files beside its source, in its notebook as data, and in nothing that is graded.

    ![what is seen, in words](pictures/07_clusters.png)      in a Markdown cell: the file solutions/pictures/07_clusters.png

They are PNG, and HTML says how wide: Markdown can not, and what renders it elsewhere, and feedback, takes no SVG that is data.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator
from pathlib import Path

NAMED = re.compile(r"!\[([^\]]*)\]\((pictures/[^)\s]+)\)")
ADDRESS = re.compile(r"\]\((pictures/[^)\s]+)\)")  # the same where comment signs stand between the words
EMBEDDED = re.compile(r'<img src="data:image/png;base64,[^"]*" alt="([^"]*)" width="\d+" data-file="([^"]*)">')
EITHER = re.compile(rf"(?:{NAMED.pattern}|{EMBEDDED.pattern})\n*")
PNG = b"\x89PNG\r\n\x1a\n"


def embedded(source: str, root: Path) -> str:
    """Prose with the pictures that it names in it; `root`: the course's folder. One that is no PNG stays a name."""

    def tag(found: re.Match[str]) -> str:
        png = _read(root / "solutions" / found[2])
        words, data = html.escape(" ".join(found[1].split())), base64.b64encode(png).decode()
        shown = f'<img src="data:image/png;base64,{data}" alt="{words}" width="{_width(png)}" data-file="{found[2]}">'
        return shown if png else found[0]

    return NAMED.sub(tag, source)


def named(source: str) -> str:
    """Prose with the names of the pictures that are in it: what `embedded` was given, words on one line."""
    return EMBEDDED.sub(lambda found: f"![{html.unescape(found[1])}]({found[2]})", source)


def without(source: str) -> str:
    """Prose without its pictures, named or in it."""
    return EITHER.sub("", source)


def slips(source: str, root: Path) -> Iterator[str]:
    """What is wrong with the pictures that a cell names."""
    for words, file in NAMED.findall(source):
        if not _read(root / "solutions" / file):
            yield f"there is no PNG solutions/{file}; put it there, or take the picture out of the cell"
        if not words.strip():
            yield f"the picture {file} has no words; write what is seen on it: ![...]({file})"


def _read(file: Path) -> bytes:
    png = file.read_bytes() if file.is_file() else b""
    return png if png.startswith(PNG) else b""


def _width(png: bytes) -> int:
    """In CSS pixels, of which 96 are an inch: the file says how many of its own are a metre (PNG specification, 11.3.4.3)."""
    wide, at = int.from_bytes(png[16:20]), png.find(b"pHYs")
    return round(wide / int.from_bytes(png[at + 4 : at + 8]) / 0.0254 * 96) if at > 0 else wide
