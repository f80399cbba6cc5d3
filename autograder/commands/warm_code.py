"""The digest of all code that a keeper and what it forks may run, as it is on the disk now: ours whole, others' by their names.

What decides a mark has digests of its own, for every command (`digests`); this one covers what writes and shows it, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence


def digest(path: Sequence[str]) -> str:
    """Every file of autograder/ and of the library by its content; what is installed in each folder of `path`, and when."""
    import across
    import autograder

    found = hashlib.sha256(sys.version.encode())
    for folder in (*autograder.__path__, *across.__path__):
        for file_name in sorted(_files(folder)):
            with contextlib.suppress(OSError), open(file_name, "rb") as file:
                content = file.read()
                found.update(f"{file_name}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    for folder in sorted({os.path.realpath(each) for each in path if each}):
        for name, changed in sorted(_installed(folder)):
            found.update(f"{folder}\0{name}\0{changed}\0".encode(errors="surrogateescape"))
    return found.hexdigest()


def _files(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__" and name[0] != "."]
        yield from (os.path.join(place, name) for name in names)


def _installed(folder: str) -> Iterator[tuple[str, int]]:
    """The distributions in a folder of the path: pip and uv write each into a new folder, or over the old one."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".dist-info", ".egg-info", ".pth")):
                with contextlib.suppress(OSError):
                    yield entry.name, entry.stat().st_mtime_ns
