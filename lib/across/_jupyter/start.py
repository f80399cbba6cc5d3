"""The start page: what the course is, the next step, how one works here, and each chapter with what one's own run of it drew.

A page of our server extension rather than a notebook: it needs no kernel, is made anew each time that it is looked at, and
leaves no file in the course. In JupyterLab it is a tab (share/labextensions/across), and at /across/start a page by itself.
"""

from __future__ import annotations

import asyncio
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
SHAPES = {"done": "✓", "begun": "◐", "new": "○"}  # of a state, beside its word
PICTURED = "03_device_placement"  # whose picture stands at the top, of a course that has it


def render(
    course: list[progress.Chapter], facts: dict[str, Any] | None, base: str = "/", whole: bool = False, folder: str = ""
) -> str:
    """The page as HTML; `whole` with its head, else as a part of another.

    `facts`: what `across doctor` says; None while it still looks, {} if it could not say. `folder`: where the notebooks are,
    from the folder that the server serves.
    """
    title, shows = chapters.course_title(), (facts or {}).get("chapters", {})
    return TEMPLATES.get_template("start.html").render(
        whole=whole,
        title=catalogue.page(catalogue.current()).get(title, title),
        chapters=course,
        hours=sum(each.minutes or 0 for each in course) / 60,
        here={each.name for each in course},
        next=progress.next_step(course),
        pictured=next((each for each in course if each.name == PICTURED), None),
        shapes=SHAPES,
        facts=facts,
        shows=[(each.number, shows[each.name]) for each in course if each.name in shows],
        place=lambda path: f"{folder}/{path}" if folder else path,
        address=lambda path: url_path_join(base, "lab/tree", url_escape(path)),
        language=catalogue.current(),
        tags=catalogue.TAGS,
        say=say,
        told_by=catalogue.said,
    )


def say(line: str, *values: object, language: str = "") -> Markup:
    """A line of the page in a language, this process's by default, which is HTML; what stands in its places is text."""
    found = catalogue.page(language or catalogue.current()).get(line, line)
    return Markup(found.format(*map(escape, values)))


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
