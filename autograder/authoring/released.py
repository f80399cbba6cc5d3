"""What every released notebook has, whatever its source was: cell ids that stay, our metadata, a digest of it all."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import nbformat
from nbformat import NotebookNode

from across._process import needed_cells
from autograder.model import digests, headers
from autograder.model.course import Course
from autograder.store import files

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def finish(course: Course, name: str, notebook: NotebookNode, header: object, /, **more: str) -> None:
    """Give a chapter's notebook its cell ids and our metadata: the chapter's `header`, `more`, the digest of the release.

    Raises CourseError for a header that is none.
    """
    said = msgspec.to_builtins(headers.header(f"solutions/{name}.py, header", header))
    ours = {"chapter": name, **course.place(name), **said, **more}
    notebook["metadata"] = {"kernelspec": KERNEL, "language_info": {"name": "python"}, "across": ours}
    _give_ids(notebook)
    notebook.metadata["across"]["release"] = release_digest(notebook)
    nbformat.validate(notebook)


def release_digest(notebook: NotebookNode | dict[str, Any]) -> str:
    """SHA-256 of a release: of everything in it but the digest itself and the chapter's header."""
    content = copy.deepcopy(digests.without_header(notebook))
    content["metadata"]["across"].pop("release", None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def dumps(notebook: NotebookNode) -> str:
    """A notebook as text: sorted keys, one space of indent, one newline at its end."""
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT, indent=1, sort_keys=True).rstrip("\n") + "\n"


def write(folder: Path, wanted: Mapping[str, bytes], check: bool) -> list[str]:
    """Write what is not as `wanted` below `folder`, line ends aside; return these names. With `check` only say so."""
    changed = []
    for name, content in wanted.items():
        there = (folder / name).read_bytes() if (folder / name).is_file() else None
        if there is None or content not in (there, there.replace(b"\r\n", b"\n")):
            changed.append(name)
            if not check:
                files.replace(folder / name, content)
    return changed


def _give_ids(notebook: NotebookNode) -> None:
    """Cell ids that stay while a cell does: its grade id, or a digest of what it says."""
    given: Counter[str] = Counter()
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        base = grade_id or needed_cells.given_id(cell.cell_type, cell.source)
        given[base] += 1
        cell["id"] = base if given[base] == 1 else f"{base}-{given[base]}"
