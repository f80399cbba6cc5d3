"""A folder to which several chapters of a course are released, one after the other: what is in it, and how one more joins it.

Its README lists them all, and its pyproject.toml has what they need, which says whose it is: `[tool.across.released]`. What
lies in the folder besides is nobody's here to touch, as `.git` of the repository that it is pushed from.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from autograder.model.address import Address
from autograder.model.course import Course, CourseError

LIBRARY = "lib"  # is replaced as a whole: a module that is gone must not stay
KEPT = (".git",)  # what a new folder may have, too


@dataclass(frozen=True)
class Folder:
    """What a folder holds already of a course."""

    chapters: tuple[str, ...] = ()  # in the course's order
    solved: frozenset[str] = frozenset()  # those whose answers are there
    published: Address | None = None  # where it is pushed to, as was said when it was written last
    new: bool = False  # there is no such folder, or nothing in it


def read(course: Course, out: Path) -> Folder:
    """What of `course` is in the folder `out`. Raises CourseError for one that holds something else."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return Folder(new=True)
    if out.is_dir() and all(each.name in KEPT for each in out.iterdir()):
        return Folder()
    try:
        said = tomllib.loads((out / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["across"]["released"]
        whose, published = said["course"], said.get("published", "")
    except (OSError, ValueError, KeyError, TypeError):
        raise CourseError(f"--out {out}: there is something already; give a new folder, or delete that one") from None
    if whose != course.id:
        raise CourseError(f"--out {out}: holds chapters of the course {whose!r}; give another folder")
    notebooks = out / "notebooks"
    return Folder(
        tuple(name for name in course.chapters if (notebooks / f"{name}.ipynb").is_file()),
        frozenset(name for name in course.chapters if (notebooks / "solutions" / f"{name}.ipynb").is_file()),
        Address.read(f"{out / 'pyproject.toml'}: published:", published) if published else None,
    )


def words(before: Path, now: str) -> str:
    """The words in several chapters' pictures in a language: those of the file `before`, if it is there, and of one more."""
    try:
        there = json.loads(before.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        there = {}
    return json.dumps(there | json.loads(now), ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def join(new: Path, out: Path) -> None:
    """Put the files below `new` into the folder `out`, each at once; what is the same is not written. Raises OSError."""
    wanted = {path.relative_to(new) for path in new.rglob("*") if path.is_file()}
    for path in sorted(wanted):
        place = out / path
        if place.is_file() and filecmp.cmp(new / path, place, shallow=False):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = place.with_name(f".{place.name}.{os.getpid()}")
        shutil.copy(new / path, aside)
        os.replace(aside, place)
    for place in sorted((out / LIBRARY).rglob("*.*")):
        gone = place.is_file() and place.relative_to(out) not in wanted
        if gone and "__pycache__" not in place.parts and not any(part.endswith(".egg-info") for part in place.parts):
            place.unlink()
