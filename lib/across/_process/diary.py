"""A student's diary: at which exercise one was when, and what checks said. Kept where `across lab --diary` asks for it.

One file of the user's, a line an event, which nothing here sends anywhere and no grader reads. Nothing of an answer is in it
but a few digits of its digest, by which the same answer is told from another one.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_data_dir

ASKED_FOR = "ACROSS_DIARY"  # is in the environment of the JupyterLab, and of its kernels, that keep one
AT, SAID = "at", "said"  # events: one was at work on an exercise, or beside them; a check said how its exercise stands
LONGEST = 200  # characters of a name


def file() -> Path:
    """Where it is kept."""
    return Path(jupyter_data_dir()) / "across" / "diary.jsonl"


def is_kept() -> bool:
    """Whether this process was asked to keep it."""
    return bool(os.environ.get(ASKED_FOR))


def note(event: str, notebook: Path, exercise: str, **more: str) -> None:
    """Write down that something happens now at an exercise of a notebook, or at none (""), if that was asked for."""
    if not is_kept():
        return
    line = {"time": round(time.time(), 1), "event": event, "chapter": notebook.stem, "exercise": exercise, **more}
    text = json.dumps({name: each[:LONGEST] if isinstance(each, str) else each for name, each in line.items()})
    with contextlib.suppress(OSError):
        file().parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(descriptor, "ab", buffering=0) as kept:
            kept.write(text.encode() + b"\n")  # in one piece, whoever else writes


def read() -> list[Mapping[str, Any]]:
    """What is written down, oldest first; lines that are none are left out. Raises OSError for a file that is not readable."""
    found = []
    if not file().is_file():
        return found
    for line in file().read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            event = json.loads(line)
            if isinstance(event["time"], int | float) and all(
                isinstance(event[name], str) for name in ("event", "chapter", "exercise")
            ):
                found.append(event)
    return sorted(found, key=lambda event: event["time"])
