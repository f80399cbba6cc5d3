"""What is kept of a student's work beside the notebooks: small JSON files in the user's folder, one a notebook.

In the user's own folder, Jupyter's (`jupyter --data-dir`), because the course's may be read-only, shared, or a git checkout
in which a new file is in the way. It decides nothing: a mark comes from the notebook that is handed in.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_data_dir

from across import _system

SECONDS = 2.0  # that one waits for whoever writes the same: a cell's check is not held up for longer
IN_THIS_PROCESS = threading.Lock()


def file(kind: str, notebook: Path) -> Path:
    """Where what is of `kind` is kept of a notebook, which is known by its whole path."""
    whole = os.path.realpath(notebook)
    name = f"{notebook.stem}-{hashlib.sha256(whole.encode()).hexdigest()[:12]}.json"
    return Path(jupyter_data_dir()) / "across" / kind / name


@contextlib.contextmanager
def alone(kind: str, notebook: Path) -> Iterator[None]:
    """Between reading what is of `kind` and writing it anew, nobody else writes it who asks for that, too.

    It waits for them SECONDS at most: then, and where nothing can be locked, one goes on as if alone.
    """
    path = file(kind, notebook)
    with contextlib.ExitStack() as held:
        if IN_THIS_PROCESS.acquire(timeout=SECONDS):  # the system's lock is a process's, for all its threads
            held.callback(IN_THIS_PROCESS.release)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context(open(path.with_name(f".{path.stem}.lock"), "ab"))
            end = time.monotonic() + SECONDS
            while not _system.locked(lock.fileno()) and time.monotonic() < end:
                time.sleep(0.005)
        yield


def read(kind: str, notebook: Path) -> dict[str, Any]:
    """What is kept; nothing if it cannot be read."""
    try:
        found = json.loads(file(kind, notebook).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(kind: str, notebook: Path, values: dict[str, Any]) -> None:
    """Keep `values`, plain JSON, in place of what was there; where the user's folder cannot be written, nothing is kept."""
    path = file(kind, notebook)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(values), encoding="utf-8")
        os.replace(aside, path)


def forget(kind: str, notebook: Path) -> None:
    """Keep nothing more of `kind` of a notebook."""
    with contextlib.suppress(OSError):
        file(kind, notebook).unlink()
