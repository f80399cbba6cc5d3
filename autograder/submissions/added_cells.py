"""The cells that a student added to an imported notebook, or changed beside the answers, and where they stand.

nbgrader lets students add cells, and executes them; whoever answers a task does nothing else. In chapters that were written
for this harness only answer cells count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autograder.model.course import Chapter, text

Added = tuple[
    str, str, str
]  # (the release's cell below which it stands, by its id; "": above all, code or markdown, source)
KINDS = ("code", "markdown")
MOST = 200  # of one submission
BYTES = 256 << 10  # of all of them: what they change is looked at by a process of ours


def added(
    cells: Sequence[Any], chapter: Chapter, source: Callable[[Any], str | None], notes: list[str]
) -> tuple[Added, ...]:
    """The cells among `cells` that are none of the release's, in order; `source` reads the text of one.

    A cell is the release's if it has a grade id of it, or the text of one that has none. `notes` gets a line of what is too
    long.
    """
    at = {cell["metadata"].get("nbgrader", {}).get("grade_id"): number for number, cell in enumerate(released(chapter))}
    plain = [
        (number, cell["cell_type"], text(cell).strip())
        for number, cell in enumerate(released(chapter))
        if "grade_id" not in cell["metadata"].get("nbgrader", {})
    ]
    ids = [cell["id"] for cell in released(chapter)]
    found: list[Added] = []
    last, left = -1, BYTES
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") not in KINDS:
            continue
        grade_id = _grade_id(cell)
        if grade_id is not None:  # ours, or nobody's: `intake` says what becomes of it
            last = max(last, at.get(grade_id, last)) if isinstance(grade_id, str) else last
            continue
        written = source(cell)
        if written is None or not written.strip():
            continue
        same = [each for each in plain if each[1:] == (cell["cell_type"], written.strip())]
        if same:
            nearest = min(same, key=lambda each: (each[0] <= last, each[0]))
            plain.remove(nearest)
            last = max(last, nearest[0])
        elif (size := len(written.encode("utf-8", "surrogatepass"))) > min(left, chapter.limits.cell_bytes):
            notes.append(
                f"cell {number}, the student's own, is left out: it has {size} bytes, at most {BYTES} are read of all"
            )
        elif len(found) == MOST:
            notes.append(f"cell {number} and what follows of the student's own is left out: at most {MOST} are read")
            break
        else:
            left -= size
            found.append((ids[last] if last >= 0 else "", cell["cell_type"], written))
    if found:
        notes.append(f"{len(found)} cell(s) of the student's own: executed, and shown, where they stand")
    return tuple(found)


def unique(cells: Sequence[Any]) -> list[Any]:
    """The cells with each grade id once, where it stands last, as nbgrader has it; who splits a cell makes copies of its id."""
    seen: set[str] = set()
    made = []
    for cell in reversed(cells):
        grade_id = _grade_id(cell) if isinstance(cell, dict) else None
        if isinstance(grade_id, str) and grade_id in seen:
            cell = {**cell, "metadata": {}}
        elif isinstance(grade_id, str):
            seen.add(grade_id)
        made.append(cell)
    return made[::-1]


def released(chapter: Chapter) -> list[dict[str, Any]]:
    """The cells of the chapter as released."""
    return chapter.release["cells"]


def as_cells(added: Sequence[Added]) -> dict[str, list[dict[str, Any]]]:
    """The cells of a notebook that they make, by the id of the release's cell above them."""
    made: dict[str, list[dict[str, Any]]] = {}
    for number, (above, kind, source) in enumerate(added, 1):
        name = f"across-added-{number}"
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": name,
            "metadata": {"across": {"added": name}},
            "source": source,
        }
        if kind == "code":
            cell |= {"outputs": [], "execution_count": None}
        made.setdefault(above, []).append(cell)
    return made


def _grade_id(cell: Mapping[str, Any]) -> Any:
    meta = cell.get("metadata")
    meta = meta.get("nbgrader") if isinstance(meta, dict) else None
    return meta.get("grade_id") if isinstance(meta, dict) else None
