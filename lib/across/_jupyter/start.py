"""The start page: the chapters as a map, how far one is in each, what each shows on this machine, and the next step.

A page of our server extension rather than a notebook: it needs no kernel, is made anew each time that it is looked at, and
leaves no file in the course. In JupyterLab it is a tab (share/labextensions/across), and at /across/start a page by itself.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_escape, url_path_join
from markupsafe import Markup, escape
from tornado import web

from across._jupyter import chapters, machine, progress, resetting
from across._language import catalogue

TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "pages"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
WIDTH, HEIGHT, RIGHT, DOWN = 136, 74, 26, 12  # of a box of the map, and of the gaps, in pixels
LINE, LINES = 16, 3  # letters that fit in a line of one, and lines
PIECES = re.compile(
    r"[\u2e80-\uffff][，。、：；？！）”]*|\s+|[^\s\u2e80-\uffff]+"
)  # a title may be parted between them
SHAPES = {"done": "✓", "begun": "◐", "new": "○"}  # of a state, beside its word


@dataclass(frozen=True)
class Box:
    """A chapter on the map."""

    chapter: progress.Chapter
    x: int
    y: int
    lines: tuple[str, ...]  # its title, cut to fit


def render(
    course: list[progress.Chapter], facts: dict[str, Any] | None, base: str = "/", whole: bool = False, folder: str = ""
) -> str:
    """The page as HTML; `whole` with its head, else as a part of another.

    `facts`: what `across doctor` says; None while it still looks, {} if it could not say. `folder`: where the notebooks are,
    from the folder that the server serves.
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
        shapes=SHAPES,
        facts=facts,
        shows=(facts or {}).get("chapters", {}),
        place=lambda path: f"{folder}/{path}" if folder else path,
        address=lambda path: url_path_join(base, "lab/tree", url_escape(path)),
        language=catalogue.current(),
        tags=catalogue.TAGS,
        say=_say,
        told_by=catalogue.said,
    )


def _say(line: str, *values: object) -> Markup:
    """A line of the page in its language, which is HTML; what stands in its places is text."""
    return Markup(catalogue.on_page(line, *map(escape, values)))


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


def _cut(chapter: progress.Chapter) -> tuple[str, ...]:
    """The title in at most LINES lines; before the first stands the number. Chinese may be parted at any character."""
    found, room = [""], LINE - len(chapter.number) - 1
    for piece in PIECES.findall(chapter.title):
        if not piece.strip() and not found[-1]:
            continue
        if _width((found[-1] + piece).rstrip()) > room and found[-1]:
            found.append("")
            room = LINE
        found[-1] += piece if found[-1] or piece.strip() else ""
    found = [line.rstrip() for line in found if line.strip()]
    if len(found) > LINES:
        last = PIECES.findall(found[LINES - 1])
        while _width("".join(last).rstrip()) > LINE - 2 and len(last) > 1:
            last.pop()
        found = [*found[: LINES - 1], "".join(last).rstrip() + " …"]
    return tuple(found)


def _width(text: str) -> int:
    """In letters: a Chinese character is as wide as two."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _arrows(boxes: list[Box]) -> list[str]:
    """From each chapter to those that need it, as SVG paths."""
    at = {box.chapter.name: box for box in boxes}
    return [_path(at[need], box) for box in boxes for need in box.chapter.needs if need in at]


def _path(need: Box, box: Box) -> str:
    """From the right edge of one box to the left edge of another; past columns between them in the gap beside its row."""
    (x, y), (to, down) = (need.x + WIDTH, need.y + HEIGHT // 2), (box.x - 5, box.y + HEIGHT // 2)
    bend = RIGHT // 2
    if to - x < WIDTH:
        return f"M{x} {y} C{x + bend} {y} {to - bend} {down} {to} {down}"
    gap = box.y - DOWN // 2 if box.y > need.y else box.y + HEIGHT + DOWN // 2
    first, last = x + RIGHT - 4, to - RIGHT + 9
    return f"M{x} {y} C{x + bend} {y} {x + bend} {gap} {first} {gap} H{last} C{to - bend} {gap} {to - bend} {down} {to} {down}"


class Handler(JupyterHandler):
    """Serves the page; with `?part` as a part of JupyterLab."""

    @web.authenticated
    async def get(self) -> None:
        """The page as it is now."""
        try:
            await asyncio.to_thread(resetting.notice)
            course = await asyncio.to_thread(progress.course)
        except chapters.NoSuchChapter as error:
            raise web.HTTPError(404, str(error)) from None
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-store")  # so that coming back shows it as it is then
        whole = self.get_argument("part", None) is None
        await self.finish(render(course, machine.known(), self.base_url, whole, self._folder()))

    def _folder(self) -> str:
        """Where the notebooks are, from the folder that is served: elsewhere than under `across lab` they are below it."""
        served = Path(self.settings.get("root_dir", "")).resolve()
        notebooks = chapters.folder()
        inside = notebooks.is_relative_to(served) and notebooks != served
        return notebooks.relative_to(served).as_posix() if inside else ""
