"""Our server extension: what the panel of exercises and Validate show, and the start page.

What a notebook says is run by `validation`, in a thread of its own, so that the server goes on serving.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import nbformat
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from across._jupyter import panel, running, start, validation
from across._language import catalogue
from across._language.catalogue import said
from across._process import diary

GRACE = 15.0  # seconds for which a page that was closed, as by a reload, may ask again before its validation is stopped


@dataclass
class Asked:
    """A validation that somebody waits for."""

    notebook: Path
    stop: running.Stop = field(default_factory=running.Stop)
    exercises: tuple[validation.Standing, ...] = ()  # as far as it is; empty before it begins
    since: float = field(default_factory=time.monotonic)  # for so long nothing of them has changed
    own: validation.CellUnderWay | None = None  # the student's cell that runs, if it is one
    looked: float = field(default_factory=time.monotonic)  # when somebody last asked how far it is

    def note(self, exercises: tuple[validation.Standing, ...]) -> None:
        """Hear from the validation how far it is."""
        self.exercises, self.since = exercises, time.monotonic()

    def begins(self, cell: validation.CellUnderWay) -> None:
        """Hear from the validation which cell runs."""
        if cell.own or self.own:
            self.since = time.monotonic()
        self.own = cell if cell.own else None


class OfNotebook(APIHandler):
    """Answers about a notebook, which a page calls by its path from the folder that is served."""

    def _notebook(self, path: str) -> Path:
        """The file that a page calls by that path. Raises HTTPError for one outside of the folder that is served."""
        root = Path(self.settings["root_dir"]).resolve()
        notebook = (root / path).resolve()
        if not notebook.is_relative_to(root):
            raise web.HTTPError(403, "the notebook is not in the folder that is served")
        return notebook


class ExercisesHandler(OfNotebook):
    """What the panel shows of a notebook as it is in the browser, and the pictures that its checks drew."""

    @web.authenticated
    async def post(self) -> None:
        """How each exercise stands: `{"path": ..., "notebook": {"cells": [...]}}`; `under_way` if it is being validated."""
        body = self.get_json_body() or {}
        notebook = self._notebook(str(body.get("path", "")))
        try:
            shown = await asyncio.to_thread(panel.shown, notebook, body["notebook"])
        except (KeyError, TypeError, AttributeError):  # a student's
            shown = {"exercises": [], "says": "", "saves": panel.saves(notebook)}
        await self.finish(json.dumps(shown | {"under_way": bool(under_way(notebook))}))

    @web.authenticated
    def get(self) -> None:
        """A picture: `?path=...&exercise=...&number=0`."""
        path, exercise, number = (self.get_query_argument(each, "") for each in ("path", "exercise", "number"))
        try:
            png = panel.picture(self._notebook(path), exercise, int(number))
        except (LookupError, TypeError, ValueError):
            raise web.HTTPError(404, "there is no such picture") from None
        self.set_header("Content-Type", "image/png")
        self.set_header("Cache-Control", "no-store")
        self.finish(png)


class Handler(OfNotebook):
    """Answers the Validate button, one notebook at a time."""

    busy: asyncio.Lock | None = None
    asked: ClassVar[list[Asked]] = []  # the first of them is under way
    mine: Asked | None = None

    @web.authenticated
    def get(self) -> None:
        """How far the notebook is that is being validated: `?path=...`; `{}` if it is not."""
        notebook = self._notebook(self.get_query_argument("path", ""))
        self.finish(json.dumps(under_way(notebook)))

    @web.authenticated
    def delete(self) -> None:
        """Stop validating a notebook: `?path=...`; who asked for it is answered with what is known."""
        notebook = self._notebook(self.get_query_argument("path", ""))
        for each in Handler.asked:
            if each.notebook == notebook:
                each.stop.ask()
        self.set_status(204)
        self.finish()

    @web.authenticated
    async def post(self) -> None:
        """Validate a notebook as it is in the browser: `{"path": ..., "notebook": {...}, "anew": false}`."""
        body = self.get_json_body() or {}
        notebook = self._notebook(str(body.get("path", "")))
        Handler.busy = Handler.busy or asyncio.Lock()
        self.mine = mine = Asked(notebook)
        Handler.asked.append(mine)
        try:
            async with Handler.busy:
                cells = nbformat.from_dict(body["notebook"])
                how = {
                    "anew": bool(body.get("anew")),
                    "on_progress": mine.note,
                    "on_cell": mine.begins,
                    "stop": mine.stop,
                }
                found = await asyncio.to_thread(validation.validate, notebook, in_browser=cells, **how)
        except Exception as error:  # a student's file, or what its cells did to the kernel
            self.log.warning("validating %s", notebook, exc_info=True)
            await self.finish(json.dumps({"fault": f"{type(error).__name__}: {error}"}))
            return
        finally:
            Handler.asked.remove(mine)
        panel.keep_pictures(notebook, found.outputs)
        await self.finish(json.dumps(told(found) | panel.shown(notebook, body["notebook"])))

    def on_connection_close(self) -> None:
        """Its page is gone: it is stopped unless the page, or another one, is back soon and looks at it."""
        super().on_connection_close()
        closed = time.monotonic()
        if (mine := self.mine) is not None:
            asyncio.get_running_loop().call_later(GRACE, lambda: mine.looked > closed or mine.stop.ask())


class DiaryHandler(OfNotebook):
    """Writes down at which exercise the student is: the server has it only where a diary is kept."""

    @web.authenticated
    def post(self) -> None:
        """`{"path": ..., "exercise": ...}`; the exercise is "" where one is beside them."""
        body = self.get_json_body() or {}
        diary.note(diary.AT, self._notebook(str(body.get("path", ""))), str(body.get("exercise", "")))
        self.set_status(204)
        self.finish()


UNKNOWN = (validation.PENDING, validation.PREPARED, validation.TRIED)


def under_way(notebook: Path) -> dict[str, Any]:
    """How far a notebook is that is being validated; {} if it is not. Whoever asks is waited for."""
    mine = next((each for each in Handler.asked if each.notebook == notebook), None)
    if mine is None:
        return {}
    mine.looked = time.monotonic()
    return told_under_way(mine, Handler.asked[0])


def told_under_way(mine: Asked, first: Asked) -> dict[str, Any]:
    """What the page shows while a notebook is validated, as plain values: each check, and what runs now, for how long."""
    checks = [each for each in mine.exercises if each.check]
    known = [each for each in checks if each.state not in UNKNOWN]
    now, seconds, usual, cell = said("A kernel starts."), time.monotonic() - mine.since, 0.0, ""
    if checks and len(known) == len(checks):
        now = said("The kernel ends.")
    if mine is not first:
        now = said("It waits: {0} is being validated.", first.notebook.name)
    for each in checks:
        if each.state == validation.PREPARED and mine.own:
            now, cell = said("Your cell {0} runs for exercise `{1}`.", mine.own.number, each.exercise), mine.own.cell
        elif each.state == validation.PREPARED:
            now = said("Cells are run for exercise `{0}`.", each.exercise)
        elif each.state == validation.TRIED:
            now, usual = said("Exercise `{0}` is being tried.", each.exercise), each.seconds
    if mine.stop.asked:
        now, usual = said("It is being stopped."), 0.0
    took = said("{0:.0f} s", seconds)
    if usual >= 1:
        took = said("{0:.0f} s; it took {1:.0f} s the last time", seconds, usual)
    return {
        "says": said("{0} of {1} checks are known.", len(known), len(checks)) if checks else "",
        "now": now,
        "cell": cell,  # to go to
        "line": mine.own.line if mine.own and cell else "",
        "seconds": took if seconds >= 1 else "",
        "done": [len(known), len(checks)],
        "exercises": [_line(each) for each in checks],
    }


def _line(each: validation.Standing) -> dict[str, Any]:
    state, says = (panel.NEW, "") if each.state == validation.OPEN else (each.state, each.says)
    return panel.line(each.exercise, each.points, each.cell, state, says)


NAMED = 5  # of the cells that were left out


def told(found: validation.Validation) -> dict[str, Any]:
    """What the panel says of a validation, as plain values: what was run, and what is odd about the notebook."""
    stay = [each for each in found.exercises if not each.again and each.digest]
    ran = [said("No cell ran.")]
    if found.ran:
        ran = [
            said(
                "{0} of {1} code cells ran in a fresh kernel, in {2:.1f} s: what the checks need.",
                found.ran,
                found.cells,
                found.seconds,
            )
        ]
    if len(stay) == 1:
        ran.append(said("One check was not run again: nothing that it uses has changed."))
    elif stay:
        ran.append(said("{0} checks were not run again: nothing that they use has changed.", len(stay)))
    if found.left_out:
        first = ", ".join([line[:40] for line in found.left_out[:NAMED]] + ["..."] * (len(found.left_out) > NAMED))
        ran.append(
            said(
                "Of your own cells these are not run, here and where marks are given: no answer needs them: {0}.", first
            )
        )
    return {
        "ran": " ".join(ran),
        "success": said("Success! Your notebook passes all the tests that it shows. Marks come from others.")
        if found.passed
        else "",
        "kept": bool(stay),
        "changed": [
            said(
                "The check of `{0}` is no longer the released one: Edit, Undo, or take its cell out of your download again. "
                "What it says here may be wrong.",
                each,
            )
            for each in found.changed
        ],
    }


def _load_jupyter_server_extension(server: Any) -> None:
    web, base = server.web_app, server.web_app.settings["base_url"]
    web.settings["root_dir"] = server.root_dir
    if (language := catalogue.current()) != catalogue.ENGLISH:  # what JupyterLab's page carries for lab.js
        web.settings.setdefault("page_config_data", {})["acrossWords"] = json.dumps(catalogue.page(language))
    handlers = [("across/validate", Handler), ("across/exercises", ExercisesHandler), ("across/start", start.Handler)]
    if diary.is_kept():
        web.settings.setdefault("page_config_data", {})["acrossDiary"] = "yes"
        handlers.append(("across/diary", DiaryHandler))
    web.add_handlers(".*$", [(url_path_join(base, route), handler) for route, handler in handlers])
