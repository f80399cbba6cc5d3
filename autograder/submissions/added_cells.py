"""The cells that a student added to a notebook, or changed beside the answers, and where they stand.

nbgrader lets students add cells, and executes them: so in an imported chapter all of them count, prose too, for whoever answers
a task does nothing else. In chapters that were written for this harness those count whose names an answer needs, told as
Validate tells it: a helper is executed, and what only prints or tries something is not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from across._process.global_names import binds
from across._process.needed_cells import Cells, Needed, has_given_id
from autograder.model import cells as cells_of
from autograder.model import harmless
from autograder.model.course import Chapter, text

# the release's cell below which it stands, by its id, "": above all; code or markdown; its source
Added = tuple[str, str, str]
MOST = 200  # of one submission
BYTES = 256 << 10  # of all of them: what they change is looked at by a process of ours
NAMED = 3  # of those that were left out, by their first lines
LEFT_OUT = "Of your own cells"  # how a note begins that the student reads, too


def added(cells: Sequence[Any], chapter: Chapter, notes: list[str]) -> tuple[Added, ...]:
    """The cells among `cells` that are none of the release's, in order.

    A cell is the release's if it has a grade id of it, or the text of one that has none; one that has still the id that such
    a cell was given, and another text, was changed, and stands below it. Left out is the cell of an earlier release, which has
    the id that its text was given: ours counts. `notes` gets a line of what is too long.
    """
    kinds = ("code", "markdown") if chapter.assignment else ("code",)
    release = list(enumerate(chapter.release["cells"]))
    at = {cells_of.grade_id(cell): number for number, cell in release}
    plain = [(n, cell["cell_type"], text(cell).strip()) for n, cell in release if cells_of.grade_id(cell) is None]
    ids = [cell["id"] for _, cell in release]
    given = {ids[number]: number for number, _, _ in plain}
    found: list[Added] = []
    last, left = -1, BYTES
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") not in kinds:
            continue
        grade_id = cells_of.grade_id(cell)
        if grade_id is not None:  # ours, or nobody's: `intake` says what becomes of it
            last = max(last, at.get(grade_id, last)) if isinstance(grade_id, str) else last
            continue
        written = cells_of.source(cell)
        if written is None or not written.strip():
            continue
        same = [each for each in plain if each[1:] == (cell["cell_type"], written.strip())]
        if same:
            nearest = min(same, key=lambda each: (each[0] <= last, each[0]))
            plain.remove(nearest)
            last = max(last, nearest[0])
            continue
        if has_given_id({**cell, "source": written}):
            continue
        last = max(last, given.get(cell["id"], last)) if isinstance(cell.get("id"), str) else last
        if (size := len(written.encode("utf-8", "surrogatepass"))) > min(left, chapter.limits.cell_bytes):
            most = min(BYTES, chapter.limits.cell_bytes)
            notes.append(
                f"Of your own cells, number {number} was not executed: of its {size} bytes at most {most} are read."
            )
        elif len(found) == MOST:
            notes.append(
                f"Of your own cells, number {number} and those below were not executed: at most {MOST} are read."
            )
            break
        else:
            left -= size
            found.append((ids[last] if last >= 0 else "", cell["cell_type"], written))
    return tuple(found)


def counted(
    added: Sequence[Added], answers: Mapping[str, str], chapter: Chapter, notes: list[str]
) -> tuple[Added, ...]:
    """Those that are executed. `notes` gets a line of them, and one of the others."""
    if chapter.assignment or not added:
        executed = tuple(added)
    else:
        cells = placed(chapter, as_cells(added))
        needed = frozenset[int]().union(*(each.cells for each in needs(cells, answers, chapter).values()))
        ids = {cells[number]["id"] for number in needed}
        executed = tuple(each for each, name in zip(added, names(added), strict=True) if name in ids)
        if others := [each for each, name in zip(added, names(added), strict=True) if name not in ids]:
            notes.insert(0, _left_out([source for _, _, source in others]))
    if executed:
        notes.append(f"{len(executed)} cell(s) of the student's own: executed, and shown, where they stand")
    return executed


def _left_out(sources: Sequence[str]) -> str:
    lines = [harmless.line(source.strip().splitlines()[0], 40) for source in sources[:NAMED]]
    first = ", ".join(f"`{line}`" for line in lines)
    more = f", and {len(sources) - NAMED} more" if len(sources) > NAMED else ""
    return f"Of your own cells these were not executed, as no answer needs what they bind: {first}{more}."


def needs(cells: Sequence[Mapping[str, Any]], answers: Mapping[str, str], chapter: Chapter) -> dict[str, Needed]:
    """What each exercise with code needs of `cells`, the chapter's with those that were added: see `placed`.

    It needs what its answers read, and what its check asks for: the names that its answers bind, as released.
    """
    grade_ids = [cells_of.grade_id(cell) for cell in cells]
    solved = {n for n, name in enumerate(grade_ids) if name in chapter.answers}
    own = {n for n, cell in enumerate(cells) if is_added(cell)}
    locked = {n for n, name in enumerate(grade_ids) if name is not None} - solved
    code = {n: text(cell) for n, cell in enumerate(cells) if cell["cell_type"] == "code" and n not in locked}
    code |= {n: answers[grade_ids[n]] for n in solved & code.keys() if grade_ids[n] in answers}
    among = Cells(code, closed=solved | own, sure=code.keys() - solved - own)
    found = {}
    for exercise in chapter.exercises:
        end = grade_ids.index(exercise.grade_id) + exercise.manual
        taken = {n for n in solved & code.keys() if grade_ids[n] in exercise.answer_ids and n < end}
        if all(code[n].strip() == chapter.answers[grade_ids[n]].strip() for n in taken):
            taken.clear()  # nobody has answered it
        asked = {name for n in taken for name in binds(chapter.answers[grade_ids[n]])}
        found[exercise.name] = among.needed(end, taken, [(name, end) for name in asked])
    return found


def is_added(cell: Mapping[str, Any]) -> bool:
    """Whether a student added that cell of an assembled notebook."""
    return bool(cell["metadata"].get("across", {}).get("added"))


def placed(chapter: Chapter, own: Mapping[str, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The release's cells with a student's `own`, from `as_cells`, where they stand."""
    if not own:
        return chapter.release["cells"]
    below = [[cell, *own.get(cell["id"], [])] for cell in chapter.release["cells"]]
    return [*own.get("", []), *itertools.chain.from_iterable(below)]


def unique(cells: Sequence[Any]) -> list[Any]:
    """The cells with each grade id once, where it stands last, as nbgrader has it; who splits a cell makes copies of its id."""
    seen: set[str] = set()
    made = []
    for cell in reversed(cells):
        grade_id = cells_of.grade_id(cell)
        if isinstance(grade_id, str) and grade_id in seen:
            cell = {**cell, "metadata": {}}
        elif isinstance(grade_id, str):
            seen.add(grade_id)
        made.append(cell)
    return made[::-1]


def as_cells(added: Sequence[Added]) -> dict[str, list[dict[str, Any]]]:
    """The cells of a notebook that they make, by the id of the release's cell above them."""
    made: dict[str, list[dict[str, Any]]] = {}
    for name, (above, kind, source) in zip(names(added), added, strict=True):
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


def names(added: Sequence[Added]) -> list[str]:
    """What the cells are called that `as_cells` makes."""
    return [f"across-added-{number}" for number in range(1, len(added) + 1)]
