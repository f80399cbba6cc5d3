"""Where a student is: each chapter as its own notebook says, and what is recorded of it."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from across._jupyter import chapters, validation
from across._language import catalogue
from across._process import recorded

MINUTES = re.compile(r"\b(\d{2,3})\s+minutes\b|\b(an)\s+hour\b")  # of the English prose
QUESTION = re.compile(r"^\*\*(.+[?？])\*\*$", re.MULTILINE)
TITLE = re.compile(r"^# +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Exercise:
    """One exercise of a chapter."""

    name: str
    points: float
    cell: str  # grade id of the cell to go to
    answered: bool  # the cell is no longer as it was released
    passes: bool  # its visible check passed last, in its cell or in a run of all, and the answer is the same since
    by_hand: bool  # a person reads it
    waits: bool = (
        False  # answered, and only Validate can say how it stands: it ticked in its cell alone, or nothing is recorded
    )

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do in its cell."""
        return self.passes or (self.by_hand and self.answered)


@dataclass(frozen=True)
class Chapter:
    """One chapter, and how far the student is in it: in that of its notebooks, one a language, that is furthest.

    One notebook is handed in, so answers in two of them are never added up.
    """

    name: str
    title: str
    question: str
    minutes: int | None  # as its first prose says
    needs: tuple[str, ...]  # names of chapters
    exercises: tuple[Exercise, ...]
    worked: float  # when its file was last written, in seconds since 1970
    torn: bool = False  # the file is no notebook
    path: str = ""  # of its notebook in the language of the page, or in English: from the folder of notebooks
    language: str = catalogue.ENGLISH  # of that one
    work: str = ""  # path of the notebook of which the exercises are told
    work_language: str = catalogue.ENGLISH
    also: tuple[str, ...] = ()  # languages of others that have answers
    drawn: str = field(
        default="", repr=False
    )  # the first picture in the notebook that the student has, a PNG in base64
    drawn_alt: str = ""  # the words for it

    @property
    def number(self) -> str:
        """Its number, as in 03; its name, if it has none."""
        return self.name[:2] if self.name[:2].isdigit() else self.name

    @property
    def answered(self) -> int:
        """How many exercises are answered."""
        return sum(each.answered for each in self.exercises)

    @property
    def passing(self) -> int:
        """How many visible checks pass, of those that there are."""
        return sum(each.passes for each in self.exercises)

    @property
    def checks(self) -> int:
        """How many exercises have a visible check."""
        return sum(not each.by_hand for each in self.exercises)

    @property
    def waiting(self) -> int:
        """How many answers wait for Validate."""
        return sum(each.waits for each in self.exercises)

    @property
    def points(self) -> float:
        """What the exercises are worth together."""
        return sum(each.points for each in self.exercises)

    @property
    def points_passing(self) -> float:
        """What those are worth whose visible checks pass."""
        return sum(each.points for each in self.exercises if each.passes)

    @property
    def state(self) -> str:
        """`done`, `begun` or `new`."""
        if self.exercises and all(each.done and not each.waits for each in self.exercises):
            return "done"
        return "begun" if self.answered else "new"

    @property
    def open(self) -> Exercise | None:
        """The first exercise that is left to do."""
        return next((each for each in self.exercises if not each.done and not each.waits), None)


@dataclass(frozen=True)
class Next:
    """What to do next."""

    chapter: Chapter
    exercise: Exercise | None  # None: begin; where it is begun, its answers wait for Validate


def course() -> list[Chapter]:
    """Every chapter here, in order, in the language of this process where it is translated. Raises chapters.NoSuchChapter."""
    folder = chapters.folder()
    found = []
    for name in chapters.names():
        notebooks = {}
        for language, path in chapters.notebooks(name).items():
            with contextlib.suppress(OSError):  # removed meanwhile
                notebooks[language] = _read(path, language, path.relative_to(folder).as_posix())
        if notebooks:
            found.append(_one(notebooks))
    return found


def _one(notebooks: Mapping[str, Chapter]) -> Chapter:
    """A chapter of its notebooks in several languages: its title in that of this process, its progress where it is furthest."""
    first = next(iter(notebooks.values()))  # English, if it is there
    own = notebooks.get(catalogue.current(), first)
    if own.torn:
        return own
    left = [each for each in notebooks.values() if not each.torn]
    furthest = max(left, key=lambda each: (sum(one.done for one in each.exercises), each.answered, each is own))
    return replace(
        furthest,
        title=own.title,
        question=own.question,
        minutes=first.minutes,
        needs=own.needs,
        path=own.path,
        language=own.language,
        also=tuple(each.language for each in left if each is not furthest and each.answered),
    )


def next_step(course: Sequence[Chapter]) -> Next | None:
    """Go on with what was worked on last; else begin the first chapter whose needs are done, else the first that is left."""
    begun = [each for each in course if each.state == "begun"]
    if begun:
        latest = max(begun, key=lambda each: each.worked)
        return Next(latest, latest.open)
    done = {each.name for each in course if each.state == "done"}
    here = {each.name for each in course}
    left = [each for each in course if each.state == "new" and not each.torn and each.exercises]
    ready = [each for each in left if all(need in done or need not in here for need in each.needs)]
    first = next(iter([*ready, *left]), None)
    return Next(first, None) if first else None


def _read(path: Path, language: str, where: str) -> Chapter:
    """The chapter in a file, which is `where` from the folder of notebooks. Raises OSError where there is no such file."""
    worked = path.stat().st_mtime
    try:
        found = _chapter(path, json.loads(path.read_text(encoding="utf-8")), worked)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # a student's file
        found = Chapter(path.stem, path.stem, "", None, (), (), worked, torn=True)
    return replace(found, path=where, language=language, work=where, work_language=language)


def _chapter(path: Path, notebook: Mapping[str, Any], worked: float) -> Chapter:
    said = recorded.read(path)
    prose = "\n\n".join(recorded.text(cell) for cell in notebook["cells"][:4] if cell["cell_type"] == "markdown")
    minutes = MINUTES.search(prose)
    title, question = TITLE.search(prose), QUESTION.search(prose)
    needs = notebook["metadata"].get("across", {}).get("needs", [])
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", ()))
    drawn = next(filter(None, map(picture, outputs)), {"png": "", "alt": ""})
    return Chapter(
        name=path.stem,
        title=_plain(title[1]) if title else path.stem,
        question=_plain(question[1]) if question else "",
        minutes=(60 if minutes[2] else int(minutes[1])) if minutes else None,
        needs=tuple(str(each) for each in needs),
        exercises=tuple(exercises(notebook, said)),
        worked=worked,
        drawn=drawn["png"] if _is_png(drawn["png"]) else "",
        drawn_alt=drawn["alt"],
    )


def _is_png(text: str) -> bool:
    """Whether it is one in base64: a student's file."""
    with contextlib.suppress(ValueError):
        return base64.b64decode(text).startswith(b"\x89PNG")
    return False


def picture(output: Mapping[str, Any]) -> dict[str, str]:
    """What an output of a cell shows, if it is a picture: base64 `png`, and `alt`, the words for it; else nothing."""
    png, facts = output.get("data", {}).get("image/png"), output.get("metadata", {}).get("image/png", {})
    alt = str(facts.get("alt", "")) if isinstance(facts, dict) else ""
    return {"png": png, "alt": alt} if isinstance(png, str) else {}


def exercises(notebook: Mapping[str, Any], said: Mapping[str, Any]) -> list[Exercise]:
    """Every exercise of a notebook as JSON has it, by what Validate `said` of each."""
    cells = notebook["cells"]
    answers = {
        cell["metadata"]["nbgrader"]["grade_id"]: cell
        for cell in cells
        if cell["metadata"].get("nbgrader", {}).get("solution")
    }
    found = []
    for cell in cells:
        meta = cell["metadata"].get("nbgrader", {})
        if not meta.get("grade"):
            continue
        ours = cell["metadata"].get("across", {})
        name = ours.get("exercise", meta["grade_id"])
        own = [name] if name in answers else [each for each in ours.get("answers", []) if each in answers]
        last = said.get(name, {})
        state = last.get("state") if last.get("answers") == recorded.answers_digest(notebook, cell) else None
        answered, by_hand = any(validation.answered(answers[each]) for each in own), bool(meta.get("solution"))
        only_ticked = state == recorded.PASSES and bool(last.get("ticked"))
        found.append(
            Exercise(
                name=name,
                points=float(meta.get("points", 0)),
                cell=own[0] if own else meta["grade_id"],
                answered=answered,
                passes=state == recorded.PASSES,
                by_hand=by_hand,
                waits=answered and not by_hand and (state is None or only_ticked),
            )
        )
    return found


def _plain(text: str) -> str:
    """A line of Markdown without its marks."""
    return re.sub(r"[`*]", "", text).strip()
