"""A released chapter, executed as students get it: what its demonstrations print and draw, and no answer.

In another language it is executed by itself: what is drawn is in that language, and so is what checks say.

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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

import across
from across._language import catalogue, pictured
from across._language.catalogue import ENGLISH
from autograder.authoring import build, in_language
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


def kept(course: Course, name: str, language: str = ENGLISH) -> Executed | None:
    """What is kept of a chapter as it is now, or None. Raises CourseError for a slip in its source."""
    try:
        known = json.loads(_place(course, name, language).read_text(encoding="utf-8"))
        if known["key"] == key(course, name, language):
            return Executed(
                _with_prose(_notebook(known["notebook"]), released(course, name, language)), known["machine"]
            )
    except (OSError, ValueError, KeyError, TypeError):  # none, or of another form
        pass
    return None


def made(course: Course, name: str, language: str = ENGLISH) -> Executed:
    """Execute a chapter as it is released, keep what came out, and return it.

    Raises CourseError if a cell kills the kernel or does not end: the pages would lack what comes after it.
    """
    notebook, chapter = released(course, name, language), course.chapter(name)
    words = [(catalogue.BESIDE, _words(course, name, language))] if language != ENGLISH else []
    with _spoken(language):
        ran = execute(name, notebook, replace(chapter.limits, **PATIENCE), files=[*chapter.files, *words])
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if ran.cells < len(code):
        stopped = [said for said in ran.problems if not CHECKS_OWN.search(said)] or ["a cell did not run"]
        raise CourseError(
            f"{name}: {stopped[-1]}; the pages need all of it: try `tools/make_site.py` again, or mend the cell"
        )
    clean = _scrubbed(notebook, str(course.root))
    text = json.dumps({"key": key(course, name, language), "machine": _machine(), "notebook": clean})
    with contextlib.suppress(OSError):  # if the disk lets us
        files.replace(_place(course, name, language), text.encode(), 0o600)
    return Executed(_notebook(clean), _machine())


def unexecuted(course: Course, name: str, language: str = ENGLISH) -> Executed:
    """A chapter without any output."""
    return Executed(released(course, name, language), "")


def released(course: Course, name: str, language: str = ENGLISH) -> NotebookNode:
    """A chapter as students of a language get it. Raises CourseError."""
    return build.release(course, name) if language == ENGLISH else in_language.chapter(course, language, name)


def key(course: Course, name: str, language: str = ENGLISH) -> str:
    """The digest of what a chapter's outputs depend on; its translated prose is no part of it."""
    chapter = course.chapter(name)
    parts = [str(FORM), build.release(course, name).metadata["across"]["release"], _library(), _machine()]
    parts += [f"{path} {hashlib.sha256(content).hexdigest()}" for path, content in chapter.files]
    if language != ENGLISH:
        parts += [language, pictured.font(), _words(course, name, language).decode()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _words(course: Course, name: str, language: str) -> bytes:
    """The file beside the notebook with the words in its pictures."""
    return in_language.words(course, language, [name]).encode()


@contextlib.contextmanager
def _spoken(language: str) -> Iterator[None]:
    """Kernels that are started meanwhile speak a language."""
    before = os.environ.get(catalogue.VARIABLE)
    os.environ[catalogue.VARIABLE] = language
    try:
        yield
    finally:
        os.environ.pop(catalogue.VARIABLE)
        if before is not None:
            os.environ[catalogue.VARIABLE] = before


def _with_prose(executed: NotebookNode, now: NotebookNode) -> NotebookNode:
    """An executed chapter with its prose as it is now."""
    for cell, current in zip(executed.cells, now.cells, strict=True):
        if cell.cell_type == "markdown":
            cell.source = current.source
    return executed


def _notebook(values: dict[str, Any]) -> NotebookNode:
    return nbformat.reads(json.dumps(values), as_version=4)


def _place(course: Course, name: str, language: str) -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "across"
    folder = Path(os.environ.get("ACROSS_CACHE") or caches)
    spoken = "" if language == ENGLISH else f"-{language}"
    return folder / f"site-{course.id}-{name}{spoken}.json"  # one a chapter: what is stale is overwritten


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
