"""What stands in an answer in prose that nobody has written yet, in each language that a notebook may have."""

from __future__ import annotations

PROSE = {"en": "*Your answer goes here.*", "zh": "*在这里写下你的答案。*"}


def released(source: str, stub: str) -> str:
    """An answer as it counts: one that was left as a notebook of another language has it is the release's own `stub`."""
    return stub if stub == PROSE["en"] and source.strip() in PROSE.values() else source
