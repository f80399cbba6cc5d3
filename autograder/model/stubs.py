"""What stands in an answer in prose that nobody has written yet, in each language that a notebook may have."""

from __future__ import annotations

PROSE = {"en": "*Your answer goes here.*", "zh": "*在这里写下你的答案。*"}


def is_blank(source: str, stub: str) -> bool:
    """Whether an answer in prose is as released, whatever the language of the notebook; `stub` is the release's."""
    source, stub = source.strip(), stub.strip()
    return source == stub or (stub == PROSE["en"] and source in PROSE.values())
