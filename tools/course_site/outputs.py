"""A released chapter, executed as students get it: what its demonstrations print and draw, and no answer.

Executing all chapters takes minutes, so what came out is kept for this user, in ACROSS_CACHE or where caches are kept, under
a digest of all that it depends on: the release, the files beside it, the library that it imports, TensorFlow, the kind of
machine. What is kept of anything else is not shown.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

import across
from autograder.authoring import build
from autograder.authoring.run import execute
from autograder.model.course import Course, CourseError
from autograder.store import files

PATIENCE: dict[str, Any] = {
    "cell_seconds": 600.0,
    "notebook_seconds": 1800.0,
}  # the machine may be busy; nobody is graded
FORM = 1  # of what is kept
CHECKS_OWN = re.compile(r"^cell \"check_\w+\": (NotAttempted|AssertionError)\b")  # of a blank notebook
ANYWHERE = re.compile(r"/tmp/ipykernel_\d+/\d+\.py|/tmp/[\w.-]+(?=/)")  # that a machine invents for each run


@dataclass(frozen=True)
class Executed:
    """The notebook with its outputs, and where they are from."""

    notebook: NotebookNode
    machine: str  # "Linux x86_64, 2 processors, TensorFlow 2.21.0"; empty: it was not executed


def kept(course: Course, name: str) -> Executed | None:
    """What is kept of a chapter as it is now, or None. Raises CourseError for a slip in its source."""
    try:
        known = json.loads(_place(course, name).read_text(encoding="utf-8"))
        if known["key"] == key(course, name):
            return Executed(_notebook(known["notebook"]), known["machine"])
    except (OSError, ValueError, KeyError, TypeError):  # none, or of another form
        pass
    return None


def made(course: Course, name: str, on_progress: Callable[[int], None] = lambda done: None) -> Executed:
    """Execute a chapter as it is released, keep what came out, and return it.

    Raises CourseError if a cell kills the kernel or does not end: the pages would lack what comes after it.
    """
    notebook, chapter = build.release(course, name), course.chapter(name)
    ran = execute(name, notebook, replace(chapter.limits, **PATIENCE), on_progress, chapter.files)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if ran.cells < len(code):
        stopped = [said for said in ran.problems if not CHECKS_OWN.search(said)] or ["a cell did not run"]
        raise CourseError(
            f"{name}: {stopped[-1]}; the pages need all of it: try `tools/make_site.py` again, or mend the cell"
        )
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
    notebook.metadata.pop("papermill", None)
    clean = _scrubbed(notebook, str(course.root))
    text = json.dumps({"key": key(course, name), "machine": _machine(), "notebook": clean})
    with contextlib.suppress(OSError):  # if the disk lets us
        files.replace(_place(course, name), text.encode(), 0o600)
    return Executed(_notebook(clean), _machine())


def unexecuted(course: Course, name: str) -> Executed:
    """A chapter without any output."""
    return Executed(build.release(course, name), "")


def key(course: Course, name: str) -> str:
    """The digest of what a chapter's outputs depend on."""
    chapter = course.chapter(name)
    parts = [str(FORM), build.release(course, name).metadata["across"]["release"], _library(), _machine()]
    parts += [f"{path} {hashlib.sha256(content).hexdigest()}" for path, content in chapter.files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _notebook(values: dict[str, Any]) -> NotebookNode:
    return nbformat.reads(json.dumps(values), as_version=4)


def _place(course: Course, name: str) -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "across"
    folder = Path(os.environ.get("ACROSS_CACHE") or caches)
    return folder / f"site-{course.id}-{name}.json"  # one a chapter: what is stale is overwritten


def _library() -> str:
    """The digest of the sources of what chapters import."""
    folder = Path(across.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [f"{platform.system()} {platform.machine()}", f"{cores} processors"]
    try:
        parts.append(f"TensorFlow {metadata.version('tensorflow')}")
    except metadata.PackageNotFoundError:
        parts.append(f"Python {platform.python_version()}")
    return ", ".join(parts)


def _scrubbed(value: Any, root: str) -> Any:
    """An executed notebook without what names this machine's folders."""
    if isinstance(value, str):
        for folder, stands_for in ((sys.prefix, "environment"), (root, "course"), (str(Path.home()), "~")):
            value = value.replace(folder, stands_for) if len(folder) > 1 else value
        return ANYWHERE.sub("/tmp/run", value)
    if isinstance(value, dict):
        return {name: _scrubbed(each, root) for name, each in value.items()}
    return [_scrubbed(each, root) for each in value] if isinstance(value, list) else value
