"""A chapter from the beginning: its notebooks as they were handed out, and nothing kept of them.

What is kept beside a notebook (its predictions as they were first measured, what Validate said) is known by the notebook's
path, so it would hold against whoever begins anew. It is forgotten of this chapter alone: by `across reset`, and where a
notebook is found blank that was written after it, as after taking it out of the download again. No mark is won by it: the point
of a prediction is for having written one, right or wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from across._jupyter import chapters, panel, validation
from across._language.catalogue import said
from across._process import kept, measured, recorded

BEFORE = "before_reset"  # the kind of what is kept of a notebook with answers
KINDS = (measured.KIND, recorded.KIND, panel.PICTURES)  # first predictions, how exercises stood, pictures of checks
SECONDS, OLDEST = 20.0, 100  # that git may take for one file, and commits of it that are looked at


def reset(name: str) -> list[str]:
    """Put a chapter's notebooks back as git has them blank, and forget what was kept of them; what was done, a line each.

    One with answers is kept in the user's folder. A blank one stays as it is. Raises chapters.NoSuchChapter;
    chapters.NotHandedOut, before anything is changed, for one with answers of which git has no blank version; OSError.
    """
    chapter = chapters.find(name).stem
    blank: dict[Path, bytes | None] = {}
    for path in chapters.notebooks(chapter).values():
        blank[path] = None if _read_is_blank(path) else _handed_out(path)
    done = []
    for path, content in blank.items():
        if content is not None:
            own, aside = _keep(path), path.with_name(f".{path.name}.{os.getpid()}")
            try:
                aside.write_bytes(content)
                os.replace(aside, path)
            finally:
                aside.unlink(missing_ok=True)
            done.append(f"{path}: as it was handed out. Yours is kept: {own}")
        forget(path)
    return [*done, f"{chapter}: its predictions count as not measured yet."]


def forget(notebook: Path) -> None:
    """Forget what was kept of a notebook: predictions as they were first measured, and how its exercises stood."""
    for kind in KINDS:
        kept.forget(kind, notebook)


def notice() -> None:
    """Forget what was kept of every notebook here that is blank and was written later. Raises chapters.NoSuchChapter."""
    for name in chapters.names():
        for path in chapters.notebooks(name).values():
            with contextlib.suppress(OSError):  # nothing is kept of it, or it is gone
                record, file = kept.file(measured.KIND, path).stat(), path.stat()
                # not by mtime alone: archives bring an old one. A notebook that was not saved since is older than both
                if max(file.st_mtime, file.st_ctime) > record.st_mtime and _read_is_blank(path):
                    forget(path)


def is_blank(notebook: Mapping[str, Any]) -> bool:
    """Whether every answer of a notebook is as it was handed out."""
    answers = [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    return bool(answers) and not any(validation.answered(cell) for cell in answers)


def _read_is_blank(path: Path) -> bool:
    try:
        return is_blank(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # a student's file
        return False


def _handed_out(path: Path) -> bytes:
    """The latest version of a notebook in git that is blank. Raises chapters.NotHandedOut."""
    for commit in _git(path, "rev-list", f"--max-count={OLDEST}", "HEAD", "--", path.name).split():
        content = _git(path, "show", f"{commit.decode()}:./{path.name}")
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            if is_blank(json.loads(content)):
                return content
    if (own := chapters.own_name(path)) != path.stem:
        raise chapters.NotHandedOut(_under_another_name(path, own))
    raise chapters.NotHandedOut(
        f"{path}: git has no blank version of it; take the notebook out of your download again. Its predictions are forgotten "
        "when the start page is next looked at, or by `uv run across reset` then"
    )


def _under_another_name(path: Path, chapter: str) -> str:
    """What is to be done about a notebook that is not called as it was handed out."""
    number, wanted = chapter[:2] if chapter[:2].isdigit() else chapter, f"{chapter}.ipynb"
    if (path.parent / wanted).exists():
        return said(
            "`{0}` is a copy of chapter {1}; `uv run across reset {1}` begins `{2}` again.", path.name, number, wanted
        )
    return said("`{0}` is chapter {1} under another name; rename it to `{2}` first.", path.name, number, wanted)


def _git(path: Path, *arguments: str) -> bytes:
    try:
        ended = subprocess.run(["git", *arguments], cwd=path.parent, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):  # no git here
        return b""
    return ended.stdout if ended.returncode == 0 else b""


def _keep(path: Path) -> Path:
    """Copy a notebook with answers into the user's folder; where to."""
    place = kept.file(BEFORE, path)
    place = place.with_name(f"{place.stem}-{datetime.now():%Y%m%d-%H%M%S}.ipynb")
    place.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(path, place))
