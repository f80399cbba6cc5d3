"""What a chapter must have for people who hear it or see it without colours: pictures in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any

DUMP = re.compile(
    r"\[\[|\barray\(|\bdtype=|<tf\.|<Figure|<[\w.]+ object at|(?:-?\d+\.\d{3,}[\s,]+){3}"
)  # values as printed
SHORTEST = 15  # characters of words on a picture


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
