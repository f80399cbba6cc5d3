"""The fixture course of a checkout: one small, quick chapter, shaped like a real one, on which attacks and fuzz are tried.

Its source and its checks are in `tests/course/`; what students would open is built where it is needed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograder.authoring import build
from autograder.model.course import Course, CourseError, checkout

CHAPTER = "01_places"


def build_into(folder: Path) -> Course:
    """Copy the fixture course into the new folder `folder`, build it there and return it.

    Raises CourseError where there is none: it comes with a checkout, not with a package.
    """
    source = checkout() / "tests" / "course"
    if not source.is_dir():
        raise CourseError(f"{source}: no fixture course; run this in a checkout of the repository")
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "notebooks").mkdir(exist_ok=True)
    course = Course.read(folder)
    build.build(course)
    return course


@contextmanager
def built() -> Iterator[Course]:
    """The fixture course in a temporary folder, for as long as the `with` lasts. Raises CourseError."""
    with tempfile.TemporaryDirectory(prefix="across-course-") as folder:
        yield build_into(Path(folder) / "course")
