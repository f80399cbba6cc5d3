"""What the panel beside a notebook says: how each exercise stands, by what is kept of it and by the notebook as it is there.

The browser sends the cells that it has, which may be newer than the file, or may never be saved.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from across._jupyter import progress, validation
from across._jupyter.slices import waits_for
from across._language.catalogue import said
from across._process import kept, recorded

PICTURES, FEW = "pictures", 4  # the kind of what is kept of those that checks drew; so many of one check
NEW, BEGUN, WAITS = "new", "begun", "waits"  # no check has said anything of it: untouched, written, after another one
TICKED = "ticked"  # its check passed in its cell; Validate has not run it since


def shown(path: Path, notebook: Mapping[str, Any]) -> dict[str, Any]:
    """The panel of the notebook at `path` (of what the browser has, answers and graded cells suffice), as plain values.

    Raises KeyError, TypeError or AttributeError for what is no notebook.
    """
    record, drawn = recorded.read(path), kept.read(PICTURES, path)
    graded = [cell for cell in notebook["cells"] if validation.graded(cell)]
    exercises = progress.exercises(notebook, record)
    passing = {each.name for each in exercises if each.passes}
    lines = []
    for each, cell in zip(exercises, graded, strict=True):
        last = record.get(each.name, {})
        known = last.get("answers") == recorded.answers_digest(notebook, cell)
        waits = [first for first in waits_for(recorded.text(cell)) if first not in passing]
        state, says = _state(each, last if known else {}, waits)
        alts = [picture["alt"] for picture in drawn.get(each.name, [])] if known else []
        lines.append({**line(each.name, each.points, each.cell, state, says), "pictures": alts})
    return {"exercises": lines, "says": _summary(exercises), "saves": saves(path)}


def line(name: str, points: float, cell: str, state: str, says: str) -> dict[str, Any]:
    """One exercise in the panel: its name stands above its sentence, which need not begin with it."""
    worth = said("1 point") if points == 1 else said("{0:g} points", points)
    says = says.removeprefix(f"{name}: ").removeprefix(f"{name}：")
    return {"exercise": name, "worth": worth, "cell": cell, "state": state, "says": says}


def keep_pictures(path: Path, outputs: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Keep those among the outputs of checks, by exercise: each as base64 `png`, with `alt`, the words for it."""
    found = {name: [*filter(None, map(progress.picture, its))][:FEW] for name, its in outputs.items()}
    with kept.alone(PICTURES, path):
        kept.write(PICTURES, path, kept.read(PICTURES, path) | found)


def picture(path: Path, exercise: str, number: int) -> bytes:
    """One that the check of an exercise drew, as PNG. Raises LookupError or ValueError where there is none."""
    return base64.b64decode(kept.read(PICTURES, path)[exercise][number]["png"])


def saves(notebook: Path) -> bool:
    """Whether a notebook can be written where it is: the server writes beside it first."""
    return os.access(notebook.parent, os.W_OK) and (not notebook.exists() or os.access(notebook, os.W_OK))


def _state(each: progress.Exercise, last: Mapping[str, Any], waits: Sequence[str]) -> tuple[str, str]:
    """How an exercise stands, and its sentence. `last`: what Validate said of this answer; `waits`: for which exercises."""
    if each.by_hand:
        return (recorded.BY_HAND, "") if each.answered else (NEW, "")
    if each.passes:
        return TICKED if last.get("ticked") else recorded.PASSES, last.get("says", "")
    failed = last.get("state") == recorded.NOT_YET and last.get("ran", True)
    if not each.answered:
        return NEW, last["says"] if failed else ""
    if waits:
        return WAITS, said("{0}: first make `{1}` pass; this exercise builds on it.", each.name, waits[0])
    return (recorded.NOT_YET if failed else BEGUN), last.get("says", "")


def _summary(exercises: Sequence[progress.Exercise]) -> str:
    checks = [each for each in exercises if not each.by_hand]
    if not checks:
        return ""
    passing, points = sum(each.passes for each in checks), sum(each.points for each in exercises)
    earned = sum(each.points for each in exercises if each.passes)
    line = said("{0} of {1} checks pass · {2:g} of {3:g} points", passing, len(checks), earned, points)
    by_hand = len(exercises) - len(checks)  # else one looks for a check that is not there
    return line + (said(" · read by a person: {0}", by_hand) if by_hand else "")
