"""What code a mark rests on, as SHA-256: the released chapter, its checks, and the grader with the students' library.

Files are read, nothing is imported: what is on the disk may be newer than what a process has loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from autograder.model import headers

GRADER = ("model", "probe", "sandbox", "submissions", "job")  # the rooms of autograder/ that decide a mark


def of_json(value: object) -> str:
    """The digest of plain JSON values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def of_release(release: Mapping[str, Any]) -> str:
    """The digest of a chapter as students open it: what its header says of grading has digests of its own."""
    return of_json(without_header(release))


def of_files(files: Iterable[tuple[str, bytes]]) -> str:
    """The digest of files by name."""
    return of_json([(name, hashlib.sha256(content).hexdigest()) for name, content in files])


def without_header(release: Mapping[str, Any]) -> dict[str, Any]:
    """A release without its header and its place in the course: a new due date makes no other release."""
    metadata = dict(release["metadata"])
    if "across" in metadata:
        metadata["across"] = {key: value for key, value in metadata["across"].items() if key not in headers.LEFT_OUT}
    return {**release, "metadata": metadata}


def of_checks(sources: Iterable[Path]) -> str:
    """The digest of a chapter's checks, `Course.check_sources`, as they are on the disk now."""
    return _of_files((path.name, path) for path in sources)


def of_grader() -> str:
    """The digest of the code that decides marks, as it is on the disk now."""
    import across

    package, library = Path(__file__).parent.parent, Path(across.__path__[0])
    own = [path for room in GRADER for path in (package / room).rglob("*.py")]
    named = [(str(path.relative_to(package)), path) for path in own]
    named += [(str(path.relative_to(library.parent)), path) for path in library.rglob("*.py")]
    return _of_files(sorted(named))


@cache
def grader() -> str:
    """The digest of the code that decides marks, as it was when this process first asked: when it loaded it."""
    return of_grader()


def _of_files(named: Iterable[tuple[str, Path]]) -> str:
    found = hashlib.sha256()
    for name, path in named:
        try:
            content = path.read_bytes()
        except OSError:  # what is missing is told by whoever needs it
            content = b""
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()
