"""Our server extension: the Validate button's answers, and the start page.

What a notebook says is run by `validation`, in a thread of its own, so that the server goes on serving.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from across._jupyter import running, start, validation
from across._language import catalogue
from across._language.catalogue import said

SAVING = 10.0  # seconds that a save may last


async def saved(notebook: Path, seconds: float = SAVING) -> None:
    """Return once the file is whole, or `seconds` are over: a save empties it, and fills it when the server has time again.

    A notebook whose last save is still under way was answered with "Notebook does not appear to be JSON".
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until and notebook.is_file():
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(notebook.read_text(encoding="utf-8"))
            return
        await asyncio.sleep(0.05)  # the save goes on


@dataclass
class Asked:
    """A validation that somebody waits for."""

    notebook: Path
    stop: running.Stop = field(default_factory=running.Stop)
    exercises: tuple[validation.Standing, ...] = ()  # as far as it is; empty before it begins
    since: float = field(default_factory=time.monotonic)  # for so long nothing of them has changed

    def note(self, exercises: tuple[validation.Standing, ...]) -> None:
        """Hear from the validation how far it is."""
        self.exercises, self.since = exercises, time.monotonic()


class Handler(APIHandler):
    """Answers the Validate button, one notebook at a time."""

    busy: asyncio.Lock | None = None
    asked: ClassVar[list[Asked]] = []  # the first of them is under way
    mine: Asked | None = None

    @web.authenticated
    def get(self) -> None:
        """How far the notebook is that is being validated: `?path=...`; `{}` if it is not."""
        notebook = self._notebook(self.get_query_argument("path", ""))
        mine = next((each for each in Handler.asked if each.notebook == notebook), None)
        self.finish(json.dumps({} if mine is None else told_under_way(mine, Handler.asked[0])))

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
        """How each exercise of the notebook stands that the body names: `{"path": ..., "anew": false}`."""
        body = self.get_json_body() or {}
        notebook = self._notebook(str(body.get("path", "")))
        if not notebook.is_file():
            raise web.HTTPError(404, f"{body.get('path')}: there is no such file; save it first")
        Handler.busy = Handler.busy or asyncio.Lock()
        self.mine = mine = Asked(notebook)
        Handler.asked.append(mine)
        try:
            async with Handler.busy:
                await saved(notebook)
                anew = bool(body.get("anew"))
                found = await asyncio.to_thread(validation.validate, notebook, anew, mine.note, mine.stop)
        except Exception as error:  # a student's file, or what its cells did to the kernel
            self.log.warning("validating %s", notebook, exc_info=True)
            await self.finish(json.dumps({"fault": f"{type(error).__name__}: {error}"}))
            return
        finally:
            Handler.asked.remove(mine)
        await self.finish(json.dumps(told(found)))

    def on_connection_close(self) -> None:
        """Nobody waits for it any more: its page is gone."""
        super().on_connection_close()
        if self.mine is not None:
            self.mine.stop.ask()

    def _notebook(self, path: str) -> Path:
        """The file that a page calls by that path. Raises HTTPError for one outside of the folder that is served."""
        root = Path(self.settings["root_dir"]).resolve()
        notebook = (root / path).resolve()
        if not notebook.is_relative_to(root):
            raise web.HTTPError(403, "the notebook is not in the folder that is served")
        return notebook


def told_under_way(mine: Asked, first: Asked) -> dict[str, Any]:
    """What the page shows while a notebook is validated, as plain values: each check, and what runs now, for how long."""
    checks = [each for each in mine.exercises if each.check]
    known = [each for each in checks if each.state not in UNKNOWN]
    now, seconds, usual = said("A kernel starts."), time.monotonic() - mine.since, 0.0
    if checks and len(known) == len(checks):
        now = said("The kernel ends.")
    if mine is not first:
        now = said("It waits: {0} is being validated.", first.notebook.name)
    for each in checks:
        if each.state == validation.PREPARED:
            now = said("Cells are run for exercise {0}.", each.exercise)
        elif each.state == validation.TRIED:
            now, usual = said("Exercise {0} is being tried.", each.exercise), each.seconds
    if mine.stop.asked:
        now, usual = said("It is being stopped."), 0.0
    took = said("{0:.0f} s", seconds)
    if usual >= 1:
        took = said("{0:.0f} s; it took {1:.0f} s the last time", seconds, usual)
    return {
        "says": said("{0} of {1} checks are known.", len(known), len(checks)) if checks else "",
        "now": now,
        "seconds": took if seconds >= 1 else "",
        "exercises": [_line(each) for each in checks],
    }


NAMED = 5  # of the cells that were left out
UNKNOWN = (validation.PENDING, validation.PREPARED, validation.TRIED)


def told(found: validation.Validation) -> dict[str, Any]:
    """What the dialog says, as plain values: what was run, and each exercise with its sentence."""
    kept = [each for each in found.exercises if not each.again]
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
    if len(kept) == 1:
        ran.append(said("One check was not run again: nothing that it uses has changed."))
    elif kept:
        ran.append(said("{0} checks were not run again: nothing that they use has changed.", len(kept)))
    if found.left_out:
        first = ", ".join([line[:40] for line in found.left_out[:NAMED]] + ["..."] * (len(found.left_out) > NAMED))
        ran.append(
            said(
                "Of your own cells these are not run, here and where marks are given: no answer needs them: {0}.", first
            )
        )
    return {
        "passed": found.passed,
        "says": _says(found),
        "headings": {
            "open": said("Open exercises"),
            "changed": said("Changed after it was measured"),
            "by_hand": said("Read by a person"),
            "not_released": said("A check that is no longer the released one"),
        },
        "ran": " ".join(ran),
        "kept": bool(kept),
        "changed": [
            said(
                "Exercise {0}: Edit, Undo, or take its cell out of your download again. What it says here may be wrong.",
                each,
            )
            for each in found.changed
        ],
        "exercises": [_line(each) for each in found.exercises],
    }


def _says(found: validation.Validation) -> str:
    if found.passed:
        return said("Success! Your notebook passes all the tests that it shows. Marks come from others.")
    checks = [each for each in found.exercises if each.check]
    return said("{0} of {1} checks pass.", sum(each.state == validation.PASSES for each in checks), len(checks))


def _line(each: validation.Standing) -> dict[str, Any]:
    if each.points == 1:
        title = said("Exercise {0} (1 point)", each.exercise)
    else:
        title = said("Exercise {0} ({1:g} points)", each.exercise, each.points)
    return {**asdict(each), "title": title}


def _load_jupyter_server_extension(server: Any) -> None:
    web, base = server.web_app, server.web_app.settings["base_url"]
    web.settings["root_dir"] = server.root_dir
    if (language := catalogue.current()) != catalogue.ENGLISH:  # what JupyterLab's page carries for lab.js
        web.settings.setdefault("page_config_data", {})["acrossWords"] = json.dumps(catalogue.page(language))
    handlers = [("across/validate", Handler), ("across/start", start.Handler)]
    web.add_handlers(".*$", [(url_path_join(base, route), handler) for route, handler in handlers])
