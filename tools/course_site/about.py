"""What a chapter is about, read from its released notebook: its question, minutes, exercises, what one takes along.

Nothing of it is written a second time: a teacher's page on a chapter changes when the chapter does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autograder.model.course import Chapter, Course, text

HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
MINUTES = re.compile(r"\b(\d+)\s+minutes\b")
HOUR = re.compile(r"\ban\s+hour\b")
EXERCISE = re.compile(r"`(\w+)`")
BOLD = re.compile(r"\*\*(.+)\*\*\Z", re.DOTALL)
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

    @property
    def number(self) -> str:
        """`03` of `03_device_placement`; empty where its name has none."""
        return self.name[:2] if self.name[:2].isdigit() else ""


def read(course: Course, name: str) -> About:
    """What a built chapter says of itself. Raises CourseError if it is not built."""
    chapter = course.chapter(name)
    cells = [text(cell) for cell in chapter.release["cells"] if cell["cell_type"] == "markdown"]
    question, lead = _opening(cells[0] if cells else "")
    headings = [(len(found[1]), found[2]) for cell in cells for found in HEADING.finditer(_open(cell))]
    return About(
        name=name,
        title=chapter.title,
        question=question or (chapter.title if chapter.title.endswith("?") else ""),
        lead=lead,
        minutes=_minutes(lead),
        points=chapter.max_points,
        sections=tuple(said for level, said in headings if level == 2 and not _kept(said)),
        tasks=tuple(_tasks(chapter)),
        taken=_below(cells, lambda heading: heading.lower() in TAKEN),
        recipe=_below(cells, lambda heading: heading.lower().startswith(RECIPE)),
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


def _open(cell: str) -> str:
    """A cell without what it folds and without its code, whose comments are no headings."""
    without = re.sub(r"<details>.*?</details>", "", cell, flags=re.DOTALL)
    return re.sub(r"^(```+|~~~+).*?^\1", "", without, flags=re.DOTALL | re.MULTILINE)


def _tasks(chapter: Chapter) -> Iterator[Task]:
    briefs, optional = _briefs(chapter)
    for each in chapter.exercises:
        yield Task(each.name, each.max_points, each.manual, briefs.get(each.name, ""), each.name in optional)


def _briefs(chapter: Chapter) -> tuple[dict[str, str], set[str]]:
    """What each exercise asks, and which of them stand in an optional part."""
    briefs: dict[str, str] = {}
    optional: set[str] = set()
    beyond = False
    names = {each.name for each in chapter.exercises}
    for cell in chapter.release["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        parts = HEADING.split(_open(text(cell)))  # text, level, heading, text, ...
        for level, heading, below in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            if len(level) <= 2:
                beyond = heading.lower().startswith("optional")
            name = EXERCISE.search(heading) if heading.lower().startswith("exercise") else None
            if name and name[1] in names:
                briefs[name[1]] = " ".join(re.split(r"\n\s*\n", below.strip())[0].split())
                if beyond:
                    optional.add(name[1])
    return briefs, optional


def _below(cells: list[str], wanted: Callable[[str], bool]) -> str:
    """What stands below the first heading that is `wanted`, to the next heading or the end of its cell."""
    for cell in cells:
        inside: list[str] | None = None
        fenced = False
        for line in cell.splitlines():
            fenced ^= line.startswith("```")
            heading = None if fenced else HEADING.match(line)
            if heading and inside is not None:
                break
            if inside is not None:
                inside.append(line)
            elif heading and wanted(heading[2]):
                inside = []
        if inside is not None:
            return "\n".join(inside).strip()
    return ""
