"""What is kept of a student's work beside the notebooks: small JSON files in the user's folder, one a notebook.

In the user's own folder, Jupyter's (`jupyter --data-dir`), because the course's may be read-only, shared, or a git checkout
in which a new file is in the way. It decides nothing: a mark comes from the notebook that is handed in.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_data_dir


def file(kind: str, notebook: Path) -> Path:
    """Where what is of `kind` is kept of a notebook, which is known by its whole path."""
    whole = os.path.realpath(notebook)
    name = f"{notebook.stem}-{hashlib.sha256(whole.encode()).hexdigest()[:12]}.json"
    return Path(jupyter_data_dir()) / "across" / kind / name


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
