"""The notebook that is recorded: our cells, our counts, and of what the kernel said its texts and pictures, capped.

A kernel says what the student's code makes it say: JSON nested deeper than our stack, half a surrogate for a count, one
text in hundreds of displays. `rebuilt` takes nothing of it as it is. It runs in the driver, at the end of a job, and again
before anything is recorded; on what it returned it changes nothing. Values that are no text are never printed or walked,
so that their depth and size cost nothing.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from autograder.model.harmless import line, visible

TEXT = 100_000  # characters of one output; what is more is cut out of its middle
CELL_TEXT = 300_000  # characters of a cell's outputs, after which it has no more of them
NOTEBOOK_TEXT = 1_000_000  # of all cells' outputs
OUTPUTS = 500  # of one cell
NOTEBOOK_OUTPUTS = 1_000
COLOURS = 1_000  # changes of colour in one output, each a tag on a page; with more it has none
IMAGE = 4 << 20  # bytes of one picture
NOTEBOOK_IMAGES = 8 << 20  # characters (base64) of all of them
PARTS = 100_000  # lines of one text
KINDS = 50  # MIME types of one output that are looked at
NAME = 1_000  # characters of an error's name and of what it says
IMAGES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
COLOUR = re.compile("(\x1b\\[[0-9;]{0,40}m)")
CUT = 200  # characters kept free in a text that is cut, so that it is not cut again
MORE = "(more outputs are not shown)"


@dataclass
class _Left:
    """What may still be recorded: outputs, characters of text, characters of pictures."""

    outputs: int
    text: int
    images: int


def rebuilt(assembled: Mapping[str, Any], executed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `assembled` notebook (nbformat 4) with what became of its cells in `executed`, cell by cell.

    Of the executed cells only texts and pictures of outputs are taken, within the caps of this module. Cells that have an
    execution count are numbered anew from 1, in their order.
    """
    left = room()
    found, cells, count = executed["cells"], [], 0
    for index, cell in enumerate(assembled["cells"]):
        made = dict(cell)
        if cell["cell_type"] == "code":
            was = found[index] if index < len(found) and isinstance(found[index], Mapping) else {}
            ran = was.get("execution_count") is not None
            count += ran
            made |= {"outputs": outputs(was.get("outputs"), left), "execution_count": count if ran else None}
        cells.append(made)
    return {**assembled, "cells": cells}


def room() -> _Left:
    """What a notebook may have recorded of its outputs, for `outputs` of one cell after the other."""
    return _Left(NOTEBOOK_OUTPUTS, NOTEBOOK_TEXT, NOTEBOOK_IMAGES)


def outputs(found: Any, left: _Left) -> list[dict[str, Any]]:
    """Return a cell's outputs made anew: texts and pictures, streams that follow each other in one piece.

    `left` is what the cells before it have left.
    """
    least_outputs, least_text = left.outputs - OUTPUTS, left.text - CELL_TEXT  # below which the cell has no more
    made: list[dict[str, Any]] = []
    for output in _joined(found if isinstance(found, list) else ()):
        if left.outputs <= max(0, least_outputs) or left.text <= max(0, least_text):
            made.append(_display({"text/plain": MORE}))
            break
        made.append(shown := _output(output, left))
        left.outputs -= 1
        left.text -= _length(shown)
    return made


def _joined(found: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The outputs that are any, each run of one stream as one output: a progress bar sends a thousand of them."""
    known = (output for output in found if isinstance(output, dict) and _kind(output))
    for name, run in groupby(known, _stream):
        if name:
            yield {"output_type": "stream", "name": name, "text": "".join(_raw(each.get("text")) for each in run)}
        else:
            yield from run


def _kind(output: dict[str, Any]) -> str:
    """An output's type; empty if it shows nothing."""
    kind = output.get("output_type")
    if kind in ("display_data", "execute_result"):
        return "display_data" if isinstance(output.get("data"), dict) else ""
    return kind if kind in ("stream", "error") else ""


def _stream(output: dict[str, Any]) -> str:
    """The stream that an output is of; empty if of none."""
    if output["output_type"] != "stream":
        return ""
    return "stderr" if output.get("name") == "stderr" else "stdout"


def _display(data: dict[str, str]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {}}


def _length(output: dict[str, Any]) -> int:
    """Characters of an output's text."""
    said = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", ())]
    return sum(map(len, said)) + len(output.get("data", {}).get("text/plain", ""))


def _output(output: dict[str, Any], left: _Left) -> dict[str, Any]:
    kind = _kind(output)
    if kind == "stream":
        return {**output, "text": _text(_overwritten(output["text"]))}
    if kind == "error":
        return _error(output)
    data, shown = output["data"], {}
    for mime in IMAGES:
        picture = _picture(mime, data.get(mime))
        if picture and len(picture) <= left.images:
            shown[mime] = picture
            left.images -= len(picture)
    if "text/plain" in data:
        shown["text/plain"] = _text(data["text/plain"])
    elif not shown:
        kinds = sorted(line(mime[:60]) for mime in islice(data, KINDS) if isinstance(mime, str))
        shown["text/plain"] = f"(not shown: {', '.join(kinds[:5]) or 'nothing'})"
    return _display(shown)


def _error(output: dict[str, Any]) -> dict[str, Any]:
    ename, evalue = _text(output.get("ename"), NAME), _text(output.get("evalue"), NAME)
    found = output.get("traceback")
    lines = [_raw(each) for each in found[:PARTS]] if isinstance(found, list) else []
    traceback = _text("\n".join(lines) or f"{ename}: {evalue}").split("\n")
    return {"output_type": "error", "ename": ename, "evalue": evalue, "traceback": traceback}


def _overwritten(text: str) -> str:
    """A stream as a terminal shows it: what follows a carriage return stands in place of the line before it."""
    if "\r" not in text:
        return text
    return "\n".join(each.rstrip("\r").rpartition("\r")[2] for each in text.split("\n"))


def _raw(value: Any) -> str:
    """A text as it came: nbformat allows it as a string or as a list of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(part for part in islice(value, PARTS) if isinstance(part, str))
    return "" if value is None else "(no text)"


def _text(value: Any, most: int = TEXT) -> str:
    """A text with at most `most` characters: colours stay, everything else that is hidden is written out."""
    text = _seen(_shortened(_raw(value), most))  # first shortened: an escape is longer than what it stands for
    return _seen(_shortened(text, most))  # and then, if it was cut in the middle of a colour, written out again


def _seen(text: str) -> str:
    parts = COLOUR.split(text)
    if len(parts) > 2 * COLOURS:
        parts[1::2] = [""] * (len(parts) // 2)
    return "".join(part if i % 2 else visible(part) for i, part in enumerate(parts))


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = (most - CUT) // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def _picture(mime: str, value: Any) -> str | None:
    """A picture's base64, coded anew; None if it is none, or too big."""
    text = value if isinstance(value, str) else _raw(value) if isinstance(value, list) else ""
    if not text or len(text) > 2 * IMAGE:
        return None
    try:
        data = base64.b64decode("".join(text.split()).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        return None
    return base64.b64encode(data).decode() if data.startswith(IMAGES[mime]) and len(data) <= IMAGE else None
