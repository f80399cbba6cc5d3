"""The start page: the chapters as a map, how far one is in each, what each shows on this machine, and the next step.

A page of our server extension rather than a notebook: it needs no kernel, is made anew each time that it is looked at, and
leaves no file in the course. In JupyterLab it is a tab (share/labextensions/across), and at /across/start a page by itself.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_escape, url_path_join
from tornado import web

from across._jupyter import chapters, machine, progress

TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "pages"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
WIDTH, HEIGHT, RIGHT, DOWN = 168, 58, 44, 16  # of a box of the map, and of the gaps, in pixels
LINE = 22  # characters that fit in one
STATES = {"done": ("✓", "done"), "begun": ("◐", "begun"), "new": ("○", "not begun")}  # a shape and a word each


@dataclass(frozen=True)
class Box:
    """A chapter on the map."""

    chapter: progress.Chapter
    x: int
    y: int
    lines: tuple[str, ...]  # its title, cut to fit


@dataclass(frozen=True)
class Arrow:
    """From a chapter to one that needs it, as an SVG path."""

    path: str


def render(course: list[progress.Chapter], facts: dict[str, Any] | None, base: str = "/", whole: bool = False) -> str:
    """The page as HTML; `whole` with its head, else as a part of another.

    `facts`: what `across doctor` says; None while it still looks, {} if it could not say.
    """
    boxes = _boxes(course)
    return TEMPLATES.get_template("start.html").render(
        whole=whole,
        chapters=course,
        here={each.name for each in course},
        next=progress.next_step(course),
        boxes=boxes,
        arrows=_arrows(boxes),
        size=(max((box.x for box in boxes), default=0) + WIDTH, max((box.y for box in boxes), default=0) + HEIGHT),
        box=(WIDTH, HEIGHT),
        states=STATES,
        facts=facts,
        shows=(facts or {}).get("chapters", {}),
        address=lambda name: url_path_join(base, "lab/tree", url_escape(f"{name}.ipynb")),
        map=_told(course),
    )


def _boxes(course: list[progress.Chapter]) -> list[Box]:
    """Each chapter in the column of its level, in the row of what it needs or the next that is free below."""
    rows: dict[str, int] = {}
    found = []
    for column, level in enumerate(progress.levels(course)):
        free = 0
        for chapter in level:
            needs = [rows[need] for need in chapter.needs if need in rows]
            row = max(free, round(sum(needs) / len(needs))) if needs else free
            rows[chapter.name], free = row, row + 1
            found.append(Box(chapter, column * (WIDTH + RIGHT), row * (HEIGHT + DOWN), _cut(chapter)))
    return found


def _cut(chapter: progress.Chapter, lines: int = 2) -> tuple[str, ...]:
    """The title in at most so many lines; before the first stands the number."""
    found = [""]
    for word in chapter.title.split():
        longer = f"{found[-1]} {word}".strip()
        if len(longer) + (len(chapter.number) + 1) * (len(found) == 1) <= LINE or not found[-1]:
            found[-1] = longer
        else:
            found.append(word)
    if len(found) > lines:
        last = found[lines - 1]
        found = [*found[: lines - 1], (last if len(last) < LINE - 1 else last.rpartition(" ")[0]) + " …"]
    return tuple(found)


def _arrows(boxes: list[Box]) -> list[Arrow]:
    at = {box.chapter.name: box for box in boxes}
    found = []
    for box in boxes:
        for need in box.chapter.needs:
            if need in at:
                x, y = at[need].x + WIDTH, at[need].y + HEIGHT // 2
                to, down = box.x - 5, box.y + HEIGHT // 2
                found.append(Arrow(f"M{x} {y} C{x + RIGHT // 2} {y} {to - RIGHT // 2} {down} {to} {down}"))
    return found


def _told(course: list[progress.Chapter]) -> str:
    """The map in words."""
    said = []
    for each in course:
        before = " and ".join(need[:2] for need in each.needs)
        said.append(f"{each.number} {each.title}: {STATES[each.state][1]}" + (f", after {before}" if before else ""))
    return "; ".join(said) + "."


class Handler(JupyterHandler):
    """Serves the page; with `?part` as a part of JupyterLab."""

    @web.authenticated
    async def get(self) -> None:
        """The page as it is now."""
        try:
            course = await asyncio.to_thread(progress.course)
        except chapters.NoSuchChapter as error:
            raise web.HTTPError(404, str(error)) from None
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-store")  # so that coming back shows it as it is then
        whole = self.get_argument("part", None) is None
        await self.finish(render(course, machine.known(), self.base_url, whole))
