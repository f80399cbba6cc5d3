"""What was found once and may be lost, on which no mark rests: kept for this user, in ACROSS_CACHE or where caches are kept."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from autograder.store import files


def read(name: str) -> str:
    """What is kept under a name; empty if nothing is."""
    with contextlib.suppress(OSError, ValueError):
        return (_folder() / name).read_text(encoding="utf-8")
    return ""


def keep(name: str, text: str) -> None:
    """Keep it, if the disk lets us."""
    with contextlib.suppress(OSError):
        files.replace(_folder() / name, text.encode(), 0o600)


def _folder() -> Path:
    if chosen := os.environ.get("ACROSS_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "across"
