"""The versions that the lock has of what students install: for every Python and system that it knows, not for this one alone.

As constraints, which say nothing of whether a package is needed: who needs what, and where, the packages themselves say. So a
release is installed from whichever index or mirror its reader's uv, pip or conda asks, in these versions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from autograder.model.course import CourseError

LIBRARY = "across-tensorflow"
LOCK = "uv.lock"


@cache
def read(checkout: Path) -> tuple[str, ...]:
    """A line for each version of each package that the library needs, with any of its extras: `numpy==2.4.6 ; MARKER`.

    Raises CourseError where the checkout has no lock, OSError.
    """
    file = checkout / LOCK
    if not file.is_file():
        raise CourseError(
            f"{file}: is not there, and says what students install; run `autograder release` in a checkout"
        )
    packages: dict[str, list[dict[str, Any]]] = {}
    for package in tomllib.loads(file.read_text(encoding="utf-8"))["package"]:
        packages.setdefault(package["name"], []).append(package)
    return tuple(
        f"{name}=={package['version']}{_where(package)}"
        for name in sorted(_needed(packages) - {LIBRARY})
        for package in packages[name]
    )


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


def _needed(packages: dict[str, list[dict[str, Any]]]) -> set[str]:
    """The names of all that the library needs anywhere, itself among them."""
    found: set[str] = set()
    wanted = [(LIBRARY, extra) for extra in ("", *packages[LIBRARY][0].get("optional-dependencies", {}))]
    asked: set[tuple[str, str]] = set()
    while wanted:
        name, extra = one = wanted.pop()
        if one in asked:
            continue
        asked.add(one)
        found.add(name)
        wanted += [need for package in packages[name] for need in _needs(package, extra)]
    return found


def _needs(package: dict[str, Any], extra: str) -> Iterator[tuple[str, str]]:
    """What one package needs, or its extra does, each with "" and with the extras of it that are asked for."""
    needs = package.get("optional-dependencies", {}).get(extra, []) if extra else package.get("dependencies", [])
    for need in needs:
        yield from ((need["name"], each) for each in ("", *need.get("extra", [])))


def _where(package: dict[str, Any]) -> str:
    """The marker of a version that is not everywhere the one."""
    markers = package.get("resolution-markers", [])
    return f" ; {' or '.join(f'({each})' for each in markers)}" if markers else ""
