"""What a chapter must have for people who hear it or see it without colours: pictures in words, headings in order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from typing import Any

from autograder.model.course import text

DUMP = re.compile(
    r"\[\[|\barray\(|\bdtype=|<tf\.|<Figure|<[\w.]+ object at|(?:-?\d+\.\d{3,}[\s,]+){3}"
)  # values as printed
SHORTEST = 15  # characters of words on a picture
HEADING = re.compile(r"^(#{1,6}) +(.+?) *#*$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


class _Pictures(HTMLParser):
    """The pictures in HTML, each with its words: None where there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what an image or a drawing says of itself."""
        said = dict(attrs)
        if tag == "img":
            self.words.append(said.get("alt"))
        elif tag == "svg" and said.get("aria-hidden") != "true":
            self.words.append(said.get("aria-label"))


def picture_slips(output: Mapping[str, Any]) -> Iterator[str]:
    """What is missing in an executed cell's output so that its pictures are told in words."""
    data = output.get("data", {})
    html = data.get("text/html", "")
    seen = _Pictures()
    seen.feed(html if isinstance(html, str) else "".join(html))
    words = seen.words
    kinds = [kind for kind in data if kind.startswith("image/")]
    if kinds and not words:
        metadata = output.get("metadata", {})
        words = [metadata.get(kind, {}).get("alt") for kind in kinds]
        if any(words):  # JupyterLab shows such a picture without its words
            yield "a picture has words in its metadata only; show it as HTML too, as across.pictures does"
    for each in words:
        said = (each or "").strip()
        if len(said) < SHORTEST:
            yield f"a picture says {said!r} of itself; give it alt text made of its data"
        elif dump := DUMP.search(said):
            yield f"the alt text of a picture holds values as printed ({dump[0]!r}); say in words what it shows"


def heading_slips(cells: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What is wrong with the order of a notebook's headings: one of the first level, first, and no level left out."""
    before = 0
    for cell in cells:
        if cell["cell_type"] != "markdown":
            continue
        for marks, title in HEADING.findall(FENCE.sub("", text(dict(cell)))):
            level = len(marks)
            if level == 1 and before:
                yield f"{title!r}: a second heading of the first level; make it ## or lower"
            elif level > before + 1:
                yield f"{title!r}: {'#' * level} follows {'#' * before or 'nothing'}; a level is left out"
            before = level
    if not before:
        yield "there is no heading; begin with `# Title`"
