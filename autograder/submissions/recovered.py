"""Answers whose cells lost their grade ids: what copying cells into a new notebook, or a converter, leaves of them.

An answer is found where it is certain: by the `def` line of its stub, if one cell alone has it, or by its place, alone between
the two cells that the release has above and below. Any other is missing, which is not the same as blank.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from autograder.model.cells import grade_id, source, within
from autograder.model.course import Chapter, text
from autograder.model.verdict import LOOK

DEFINES = re.compile(r"^(?:async +)?(?:def|class) +([A-Za-z_]\w*)", re.MULTILINE)
Text = tuple[str, str]  # the cell's type, its source without outer blanks


def recovered(cells: Sequence[Any], chapter: Chapter, notes: list[str]) -> list[Any]:
    """The cells of a file, with the grade ids that they lost where it is certain which cell is which; `notes` gets a line.

    Of an imported chapter they stay as they are, as nbgrader takes them.
    """
    there = {name for cell in cells if isinstance(name := grade_id(cell), str)}
    release = chapter.release["cells"]
    ids = [grade_id(cell) for cell in release]
    gone = [number for number, name in enumerate(ids) if name in chapter.answers and name not in there]
    if not gone or chapter.assignment:
        return list(cells)
    ours = Counter((cell["cell_type"], text(cell).strip()) for cell in release if grade_id(cell) not in chapter.answers)
    texts = [_text(cell) for cell in cells]
    at = {each: texts.index(each) for each, count in Counter(texts).items() if each and count == 1 and ours[each] == 1}
    free = {n: each for n, each in enumerate(texts) if each and not ours[each] and grade_id(cells[n]) is None}
    found = _by_definition(free, gone, ids, chapter)
    how = dict.fromkeys(found, "its def line")

    def place(number: int) -> int | None:
        """Where the release's cell of this number is among `cells`."""
        if not 0 <= number < len(release):
            return -1 if number < 0 else len(cells)
        if ids[number] in chapter.answers:
            same = [n for n, cell in enumerate(cells) if grade_id(cell) == ids[number]]
            return found.get(number) if number in gone else same[0] if len(same) == 1 else None
        return at.get((release[number]["cell_type"], text(release[number]).strip()))

    for number in gone:
        above, below = place(number - 1), place(number + 1)
        if number in found or above is None or below is None or below - above != 2 or above + 1 in found.values():
            continue
        if free.get(above + 1, ("",))[0] == release[number]["cell_type"]:
            found[number], how[number] = above + 1, "its place"
    made = list(cells)
    for number, name in enumerate(ids):
        where = found.get(number)
        if where is None and name not in there and name not in chapter.answers and name is not None:
            where = at.get((release[number]["cell_type"], text(release[number]).strip()))
        if where is not None:
            made[where] = {**made[where], "metadata": {"nbgrader": {"grade_id": name}}}
    if found:
        says = ", ".join(f"{ids[number]} (by {how[number]})" for number in sorted(found))
        notes.insert(0, f"{LOOK}answer cells had lost their ids and were found all the same: {says}")
    return made


def _by_definition(free: dict[int, Text], gone: list[int], ids: list[Any], chapter: Chapter) -> dict[int, int]:
    """The cells that alone define what a stub does: number in the release -> number in the file."""
    stubs = Counter(name for stub in chapter.answers.values() for name in DEFINES.findall(stub)[:1])
    found = {}
    for number in gone:
        for name in DEFINES.findall(chapter.answers[ids[number]])[:1]:
            where = [n for n, (kind, written) in free.items() if kind == "code" and name in DEFINES.findall(written)]
            if len(where) == 1 and stubs[name] == 1:
                found[number] = where[0]
    taken = Counter(found.values())
    return {number: where for number, where in found.items() if taken[where] == 1}


def _text(cell: Any) -> Text | None:
    written, kind = source(cell), within(cell, "cell_type")
    return (kind, written.strip()) if isinstance(kind, str) and written and written.strip() else None
