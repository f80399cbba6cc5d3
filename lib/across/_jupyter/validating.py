"""Our server extension: the Validate button's answers, and the start page.

What a notebook says is run by `validation`, in a thread of its own, so that the server goes on serving.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from across._jupyter import start, validation
from across._language import catalogue
from across._language.catalogue import said

SAVING = 10.0  # seconds that a save may last


async def saved(notebook: Path, seconds: float = SAVING) -> None:
    """Return once the file is whole, or `seconds` are over: a save empties it, and fills it when the server has time again.

    A notebook whose last save is still under way was answered with "Notebook does not appear to be JSON".
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until and notebook.is_file():
        with contextlib.suppress(ValueError):
            json.loads(notebook.read_text(encoding="utf-8"))
            return
        await asyncio.sleep(0.05)  # the save goes on


class Handler(APIHandler):
    """Answers the Validate button, one notebook at a time."""

    busy: asyncio.Lock | None = None
    done: tuple[int, int] = (0, 0)  # code cells that the notebook under way has run, and of how many

    @web.authenticated
    def get(self) -> None:
        """How far the notebook is that is being validated."""
        self.finish(json.dumps({"done": Handler.done[0], "of": Handler.done[1]}))

    @web.authenticated
    async def post(self) -> None:
        """How each exercise of the notebook stands that the body names: `{"path": ..., "anew": false}`."""
        asked = self.get_json_body() or {}
        root = Path(self.settings["root_dir"]).resolve()
        notebook = (root / str(asked.get("path", ""))).resolve()
        if not notebook.is_relative_to(root):
            raise web.HTTPError(403, "the notebook is not in the folder that is served")
        if not notebook.is_file():
            raise web.HTTPError(404, f"{asked.get('path')}: there is no such file; save it first")
        Handler.busy = Handler.busy or asyncio.Lock()
        async with Handler.busy:
            await saved(notebook)
            try:
                found = await asyncio.to_thread(validation.validate, notebook, bool(asked.get("anew")), _note)
            except Exception as error:  # a student's file, or what its cells did to the kernel
                self.log.warning("validating %s", notebook, exc_info=True)
                await self.finish(json.dumps({"fault": f"{type(error).__name__}: {error}"}))
                return
            finally:
                Handler.done = (0, 0)
        await self.finish(json.dumps(told(found)))


def _note(done: int, of: int) -> None:
    Handler.done = (done, of)


def told(found: validation.Validation) -> dict[str, Any]:
    """What the dialog says, as plain values: what was run, and each exercise with its sentence."""
    kept = [each for each in found.exercises if not each.again]
    ran = [said("No cell ran.")]
    if found.ran:
        took = f"{found.seconds:.1f}"
        ran = [
            said(f"{found.ran} of {found.cells} code cells ran in a fresh kernel, in {took} s: what the checks need.")
        ]
    if len(kept) == 1:
        ran.append(said("One check was not run again: nothing that it uses has changed."))
    elif kept:
        ran.append(said(f"{len(kept)} checks were not run again: nothing that they use has changed."))
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
                f"Exercise {each}: Edit, Undo, or take its cell out of your download again. What it says here may be wrong."
            )
            for each in found.changed
        ],
        "exercises": [_line(each) for each in found.exercises],
    }


def _says(found: validation.Validation) -> str:
    if found.passed:
        return said("Success! Your notebook passes all the tests that it shows. Marks come from others.")
    checks = [each for each in found.exercises if each.check]
    return said(f"{sum(each.state == validation.PASSES for each in checks)} of {len(checks)} checks pass.")


def _line(each: validation.Standing) -> dict[str, Any]:
    title = f"Exercise {each.exercise} ({each.points:g} point{'s' * (each.points != 1)})"
    return {**asdict(each), "title": said(title), "says": said(each.says)}


def _load_jupyter_server_extension(server: Any) -> None:
    web, base = server.web_app, server.web_app.settings["base_url"]
    web.settings["root_dir"] = server.root_dir
    if (language := catalogue.current()) != catalogue.ENGLISH:  # what JupyterLab's page carries for lab.js
        web.settings.setdefault("page_config_data", {})["acrossWords"] = json.dumps(catalogue.page(language))
    handlers = [("across/validate", Handler), ("across/start", start.Handler)]
    web.add_handlers(".*$", [(url_path_join(base, route), handler) for route, handler in handlers])
