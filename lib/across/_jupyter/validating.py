"""nbgrader's Validate with a dialog for readers: the exercise's name and its sentence, in place of its check's source.

A server extension: it serves nbgrader's own routes, validates by nbgrader's own code, and rewrites what the dialog shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import Any

from jupyter_server.utils import url_path_join
from nbgrader.server_extensions.validate_assignment.handlers import NbGraderVersionHandler, ValidateAssignmentHandler
from tornado import web

from across._language.catalogue import said

SAVING = 10.0  # seconds that a save may last
LISTS = ("failed", "passed", "changed")  # of cells, in what nbgrader says of a notebook


def named(result: dict[str, Any], notebook: dict[str, Any]) -> dict[str, Any]:
    """What nbgrader says of a notebook, each check's source replaced by its exercise and points."""
    names = {}
    for cell in notebook.get("cells", []):
        metadata = cell.get("metadata", {})
        exercise, points = metadata.get("across", {}).get("exercise"), metadata.get("nbgrader", {}).get("points")
        if exercise and points is not None:
            source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            names[source.strip()] = said(f"Exercise {exercise} ({points:g} point{'s' * (points != 1)})")
    shown = {
        key: [{**cell, "source": names.get(cell["source"], cell["source"])} for cell in result[key]]
        for key in LISTS
        if key in result
    }
    return {**result, **shown}


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


class Handler(ValidateAssignmentHandler):
    """Answers the Validate button."""

    @web.authenticated
    async def post(self) -> None:
        """nbgrader's answer, after a save that is under way."""
        path = self.get_argument("path", None) or (self.get_json_body() or {}).get("path", "")
        root = Path(self.root_dir).resolve()
        if (notebook := (root / path).resolve()).is_relative_to(root):  # nbgrader refuses any other
            await saved(notebook)
        super().post()

    def validate_notebook(self, path: str) -> dict[str, Any]:
        """What nbgrader says of the notebook at `path`, for readers."""
        said = super().validate_notebook(path)
        if said["success"]:
            text = (Path(self.root_dir) / path).read_text(encoding="utf-8")  # that nbgrader has just read
            said["value"] = named(said["value"], json.loads(text))
        return said


def _load_jupyter_server_extension(server: Any) -> None:
    web, base = server.web_app, server.web_app.settings["base_url"]
    web.settings["root_dir"] = server.root_dir
    handlers = [(r"/assignments/validate", Handler), (r"/nbgrader_version", NbGraderVersionHandler)]
    web.add_handlers(".*$", [(url_path_join(base, route), handler) for route, handler in handlers])
