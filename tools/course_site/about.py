"""What a chapter is about, read from its released notebook: its question, minutes, exercises, what one takes along.

Nothing of it is written a second time: a teacher's page on a chapter changes when the chapter does. Of a chapter in another
language what is told from words is told from the English ones, cell by cell; headings are the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from across._language.catalogue import ENGLISH
from autograder.authoring import in_language
from autograder.model import pictures
from autograder.model.course import Chapter, Course, text

HEADING = re.compile(r"^(#{1,6}) +(.+?) *$")
MINUTES = re.compile(r"\b(\d+)\s+minutes\b")
HOUR = re.compile(r"\ban\s+hour\b")
TIMED = re.compile(r"\d+\s*minutes\b|\ban\s+hour\b|\d+\s*分钟")
SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
EXERCISE = re.compile(r"`(\w+)`")
BOLD = re.compile(r"\*\*(.+)\*\*\Z", re.DOTALL)
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
TAKEN = ("what you take with you", "what you can do now")  # the heading of what a reader keeps
RECIPE = "recipe"


@dataclass(frozen=True)
class Task:
    """One exercise, as a reader sees it before solving it."""

    name: str  # "round_robin"
    points: float
    by_hand: bool
    asks: str  # its brief without hints: Markdown, one paragraph; empty if there is none
    optional: bool  # it stands in an optional part


@dataclass(frozen=True)
class About:
    """What one page says of a chapter. Texts are Markdown."""

    name: str
    title: str
    question: str  # the bold line below the title; where there is none, a title that asks; else ""
    lead: str  # the paragraph that follows, in which the chapter says what one does in it
    minutes: int  # of the chapter without its optional parts, as it says itself; 0: it does not
    points: float
    sections: tuple[str, ...]
    tasks: tuple[Task, ...]
    taken: str  # what the reader takes along, as the chapter says; "" if it does not
    recipe: str  # lines to copy
    language: str = ENGLISH

    @property
    def does(self) -> str:
        """What one does in it, as it says: the sentence of its lead that names the minutes; "" where none does."""
        return next((each for each in SENTENCES.split(self.lead) if TIMED.search(each)), "")

    @property
    def number(self) -> str:
        """`03` of `03_device_placement`; empty where its name has none."""
        return self.name[:2] if self.name[:2].isdigit() else ""


@dataclass(frozen=True)
class _Part:
    """What stands below one heading of a cell, without what it folds."""

    level: int
    heading: str  # in English, by which it is told what the part is
    shown: str  # the same in the chapter's language
    below: str  # in the chapter's language


def read(course: Course, name: str, language: str = ENGLISH) -> About:
    """What a built chapter says of itself, in a language that it has. Raises CourseError if it is not built."""
    chapter = course.chapter(name)
    ours = [text(cell) for cell in chapter.release["cells"] if cell["cell_type"] == "markdown"]
    theirs = ours
    if language != ENGLISH:
        cells = in_language.chapter(course, language, name).cells
        theirs = [pictures.without(text(cell)) for cell in cells if cell["cell_type"] == "markdown"]
    parts = [part for both in zip(ours, theirs, strict=True) for part in _parts(*both)]
    asked, said = _opening(ours[0] if ours else "")
    question, lead = (asked, said) if theirs is ours else _opening(theirs[0])
    title = next((part.shown for part in parts if part.level == 1 and part.heading == chapter.title), chapter.title)
    return About(
        name=name,
        title=title,
        question=question or (title if chapter.title.endswith("?") else ""),
        lead=lead,
        minutes=_minutes(said),
        points=chapter.max_points,
        sections=tuple(part.shown for part in parts if part.level == 2 and not _kept(part.heading)),
        tasks=tuple(_tasks(chapter, parts)),
        taken=_below(parts, lambda heading: heading.lower() in TAKEN),
        recipe=_below(parts, lambda heading: heading.lower().startswith(RECIPE)),
        language=language,
    )


def _kept(heading: str) -> bool:
    return heading.lower() in TAKEN or heading.lower().startswith(RECIPE)


def _opening(cell: str) -> tuple[str, str]:
    """The question and the paragraphs below it, each on one line, of a chapter's first cell."""
    question, lead = "", []
    for paragraph in re.split(r"\n\s*\n", cell):
        lines = [line for line in paragraph.splitlines() if line.strip() and not line.startswith("#")]
        said = " ".join(line.strip() for line in lines)
        if not question and (bold := BOLD.match(said)):
            question = bold[1]
        elif said:
            lead.append(said)
    return question, " ".join(lead)


def _minutes(lead: str) -> int:
    found = MINUTES.search(lead)
    return int(found[1]) if found else 60 if HOUR.search(lead) else 0


def _parts(english: str, shown: str) -> Iterator[_Part]:
    """The parts of a cell. One whose translation has other headings is shown in English."""
    ours, theirs = _headed(english), _headed(shown)
    if [level for level, *_ in ours] != [level for level, *_ in theirs]:
        theirs = ours
    for (level, heading, _), (_, other, below) in zip(ours, theirs, strict=True):
        yield _Part(level, heading, other, below)


def _headed(cell: str) -> list[tuple[int, str, str]]:
    """Level, heading and what is below, of each heading of a cell; in a block of code a comment is none."""
    found: list[tuple[int, str, list[str]]] = []
    fenced = False
    for line in FOLDED.sub("", cell).splitlines():
        fenced ^= line.startswith(("```", "~~~"))
        heading = None if fenced else HEADING.match(line)
        if heading:
            found.append((len(heading[1]), heading[2], []))
        elif found:
            found[-1][2].append(line)
    return [(level, heading, "\n".join(lines).strip()) for level, heading, lines in found]


def _tasks(chapter: Chapter, parts: list[_Part]) -> Iterator[Task]:
    briefs: dict[str, str] = {}
    optional: set[str] = set()
    beyond = False
    names = {each.name for each in chapter.exercises}
    for part in parts:
        if part.level <= 2:
            beyond = part.heading.lower().startswith("optional")
        name = EXERCISE.search(part.heading) if part.heading.lower().startswith("exercise") else None
        if name and name[1] in names:
            briefs[name[1]] = " ".join(re.split(r"\n\s*\n", part.below)[0].split())
            if beyond:
                optional.add(name[1])
    for each in chapter.exercises:
        yield Task(each.name, each.max_points, each.manual, briefs.get(each.name, ""), each.name in optional)


def _below(parts: list[_Part], wanted: Callable[[str], bool]) -> str:
    """What stands below the first heading that is `wanted`, to the next heading or the end of its cell."""
    return next((part.below for part in parts if wanted(part.heading)), "")
