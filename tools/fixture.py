"""The fixture course: one small, quick chapter, shaped like a real one, on which attacks and fuzz are tried.

Its source and its checks are in `tests/course/`; what students would open is built where it is needed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograder.authoring import build
from autograder.model.course import Course

CHAPTER = "01_places"


def build_into(folder: Path) -> Course:
    """Copy the fixture course into the new folder `folder`, build it there and return it."""
    source = Path(__file__).resolve().parent.parent / "tests" / "course"
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "notebooks").mkdir(exist_ok=True)
    course = Course.read(folder)
    build.build(course)
    return course


@contextmanager
def built() -> Iterator[Course]:
    """The fixture course in a temporary folder, for as long as the `with` lasts."""
    with tempfile.TemporaryDirectory(prefix="across-course-") as folder:
        yield build_into(Path(folder) / "course")
