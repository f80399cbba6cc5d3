"""The versions that the lock has of what students install: for every Python and system that it knows, not for this one alone.

As constraints, which say nothing of whether a package is needed: who needs what, and where, the packages themselves say. So a
release is installed from whichever index or mirror its reader's uv, pip or conda asks, in these versions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from autograder.model.course import CourseError

LIBRARY = "across-tensorflow"
EXPORT = ("export", "--frozen", "--offline", "--quiet", "--package", LIBRARY, "--all-extras", "--no-emit-workspace")
BARE = ("--no-hashes", "--no-annotate", "--no-header")


@cache
def read(checkout: Path) -> tuple[str, ...]:
    """A line for each version of each package that the library needs, with any of its extras: `numpy==2.4.6 ; MARKER`.

    Raises CourseError where uv is not there, or the checkout has no lock.
    """
    if not (uv := os.environ.get("UV") or shutil.which("uv")):  # `uv run` says where it is
        raise CourseError("uv says what students install, and is not there; install it: pip install uv")
    done = subprocess.run([uv, *EXPORT, *BARE], cwd=checkout, capture_output=True, text=True)
    if done.returncode:
        says = f"{checkout}: uv.lock says what students install, and cannot be read: {done.stderr.strip()}"
        raise CourseError(f"{says}; run `autograder release` in a checkout")
    return tuple(done.stdout.splitlines())


def others_here(pins: Sequence[str]) -> list[str]:
    """What is installed here in another version than that of its pin for here: `numpy 2.4.5, not 2.4.6`."""
    found = []
    for pin in map(Requirement, pins):
        if pin.marker is not None and not pin.marker.evaluate():
            continue
        try:
            here = metadata.version(pin.name)
        except metadata.PackageNotFoundError:  # of an extra, or of another system
            continue
        if not pin.specifier.contains(here, prereleases=True):
            found.append(f"{pin.name} {here}, not {str(pin.specifier).removeprefix('==')}")
    return found
