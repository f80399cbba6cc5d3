"""The record of a notebook: how each exercise stands, as a check in its cell, `across run` or Validate said last.

One file a notebook in the user's folder (`kept`), which the start page and Validate read, and no grader. What it says of an
exercise holds for the answer's cells of which it was said, told by their digest: when they change, it says nothing of them.
Beside what was said last it has what Validate let pass last: cells that were changed and changed back are those again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from across._process import diary, global_names, kept, measured

KIND = "validated"  # of what is kept
NOW, EARLIER = "exercises", "earlier"  # in it: what was said last; what Validate let pass before that, of other cells
PASSES, OPEN, NOT_YET, BY_HAND = "passes", "open", "not yet", "by hand"  # how an exercise stands; open: not attempted
DIGITS = 8  # of an answer's digest in the diary
FOR_CHECKS_ALONE = "NBGRADER_VALIDATING"  # in the environment of a kernel whose run is recorded by who asked for it
BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)  # what a student's file raises


@dataclass(frozen=True)
class Standing:
    """One exercise, as its visible check sees it."""

    exercise: str
    points: float
    cell: str  # grade id of the cell to go to
    state: str
    says: str = ""  # the check's sentence, or what is to be known of one that passes
    check: bool = True  # there is a visible check; without one a person reads it
    digest: str = ""  # of all that decided it; empty: another run may say something else
    answers: str = ""  # digest of the student's cells that it looks at
    again: bool = True  # run just now
    seconds: float = 0.0  # that its check took; of one that is pending, the last time that it was run; 0: not known
    ran: bool = True  # its check did; False: before it the run was stopped, or the kernel died
    ticked: bool = False  # said in the notebook's own kernel, which may hold more than the notebook does


def read(notebook: Path) -> dict[str, dict[str, Any]]:
    """What is recorded of each exercise: a Standing's values, of this version or another; nothing where none can be read."""
    return _entries(notebook, NOW)


def earlier(notebook: Path) -> dict[str, dict[str, Any]]:
    """What Validate let pass of each exercise before it said something else of other cells, as `read` has it."""
    return _entries(notebook, EARLIER)


def _entries(notebook: Path, when: str) -> dict[str, dict[str, Any]]:
    found = kept.read(KIND, notebook).get(when)
    return {name: each for name, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


def write(notebook: Path, standings: Iterable[Standing], before: Mapping[str, Any]) -> None:
    """Record how every exercise stands. `before`: the record when that was looked for. What was said since of other answers,
    by a check in its cell, stays.
    """
    standings = list(standings)
    for each in standings:
        if each.check and each.again and each.ran:
            diary.note(diary.SAID, notebook, each.exercise, state=each.state, answer=each.answers[:DIGITS])
    entries = {each.exercise: asdict(each) for each in standings}
    with kept.alone(KIND, notebook):
        passed = earlier(notebook)
        for name, entry in read(notebook).items():
            if entry.get("state") == PASSES and entry.get("digest") and name in entries:
                passed[name] = entry
            if name in entries and entry != before.get(name) and entry.get("answers") != entries[name]["answers"]:
                entries[name] = entry
        kept.write(KIND, notebook, {NOW: entries, EARLIER: passed})


def tick(exercise: str, state: str, says: str, notebook: str) -> None:
    """Record what a check has just said in its cell of the `notebook`, of the answer's cells as this kernel has run them.

    Nothing where that is not known, or where the run is for the checks alone.
    """
    if FOR_CHECKS_ALONE in os.environ or not (notebook := measured.known_notebook(notebook)):
        return
    path = Path(notebook)
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        graded = next(each for each in whole["cells"] if is_check(each["metadata"]) and exercise_of(each) == exercise)
        ran = {each: global_names.last_that_binds(each, _ran()) for each in graded["metadata"]["across"]["answers"]}
        own = exercise if exercise in ran else next(iter(ran))
        points = float(graded["metadata"]["nbgrader"].get("points", 0))
    except (*BROKEN, StopIteration):  # no notebook of ours, or half of a save
        return
    if any(source is None for source in ran.values()):
        return
    answers = answers_digest(whole, graded, {each: source for each, source in ran.items() if source is not None})
    diary.note(diary.SAID, path, exercise, state=state, answer=answers[:DIGITS])
    made = Standing(exercise, points, own, state, says, answers=answers, ticked=True)
    with kept.alone(KIND, path):
        entries = read(path)
        last = entries.get(exercise, {})
        if state == PASSES == last.get("state") and last.get("answers") == answers:
            return  # Validate's own word says more
        seconds = last.get("seconds")
        entries[exercise] = {**asdict(made), "seconds": seconds if isinstance(seconds, float) else 0.0}
        kept.write(KIND, path, {NOW: entries, EARLIER: earlier(path)})


def _ran() -> Sequence[str]:
    """The sources of the cells that this kernel has run, as they stand in the notebook; the last is under way."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return shell.history_manager.input_hist_raw[:-1] if shell else []


def answers_digest(
    notebook: Mapping[str, Any], graded: Mapping[str, Any], instead: Mapping[str, str] | None = None
) -> str:
    """Of the student's cells that the exercise of a graded cell looks at; `instead`: other sources of some, by grade id."""
    wanted = set(graded["metadata"].get("across", {}).get("answers", [])) | {graded["metadata"]["nbgrader"]["grade_id"]}
    solutions = [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    ids = [cell["metadata"]["nbgrader"].get("grade_id") for cell in solutions]
    sources = [
        (instead or {}).get(each, text(cell)).rstrip("\n")
        for each, cell in zip(ids, solutions, strict=True)
        if each in wanted
    ]  # a kernel is not told of empty lines at the end
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()


def is_check(metadata: Mapping[str, Any]) -> bool:
    """Whether a code cell is graded and not the student's."""
    nbgrader = metadata.get("nbgrader", {})
    return bool(nbgrader.get("grade") and not nbgrader.get("solution"))


def exercise_of(graded: Mapping[str, Any]) -> str:
    """The exercise of a graded cell."""
    return graded["metadata"].get("across", {}).get("exercise") or graded["metadata"]["nbgrader"]["grade_id"]


def text(cell: Mapping[str, Any]) -> str:
    """The source of a cell as nbformat, or JSON, has it."""
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
