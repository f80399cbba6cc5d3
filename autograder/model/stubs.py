"""What a notebook of another language has in place of the release's: the stub of an answer in prose, and translated prose."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.model.cells import source, within

PROSE = {"en": "*Your answer goes here.*", "zh": "*在这里写下你的答案。*"}

English = dict[str, tuple[str, ...]]  # translated prose -> the release's cells that have it, in their order


def released(answer: str, stub: str) -> str:
    """An answer as it counts: one that was left as a notebook of another language has it is the release's own `stub`."""
    return stub if stub == PROSE["en"] and answer.strip() in PROSE.values() else answer


def english(notebooks: Path, name: str, release: Mapping[str, Any]) -> English:
    """What the notebooks of other languages beside a release say in its place, as they were built; answers are left out."""
    ours = {cell["id"]: cell for cell in release["cells"] if _is_given(cell) and "id" in cell}
    found: English = {}
    for language in PROSE:
        try:
            cells = json.loads((notebooks / language / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
            pairs = [(source(ours[cell["id"]]) or "", source(cell) or "") for cell in cells if cell.get("id") in ours]
        except (OSError, ValueError, KeyError, TypeError):  # nobody has translated it, or built it
            continue
        for text, translated in pairs:
            if translated.strip() != text.strip():
                found[translated.strip()] = (*found.get(translated.strip(), ()), text)
    return found


def in_english(cells: Sequence[Any], english: English) -> list[Any]:
    """The cells of a file, its given prose as the release has it where it is a translation of that."""
    left = {translated: list(texts) for translated, texts in english.items()}
    made = []
    for cell in cells:
        texts = left.get((source(cell) or "").strip()) if _is_given(cell) else None
        # the last one again for a copy, which then is no more than a copy of the release's own cell
        made.append({**cell, "source": texts.pop(0) if len(texts) > 1 else texts[0]} if texts else cell)
    return made


def _is_given(cell: Any) -> bool:
    """Whether a cell, of whatever file, is prose and no answer."""
    return within(cell, "cell_type") == "markdown" and not within(cell, "metadata", "nbgrader", "solution")
