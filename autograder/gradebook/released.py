"""The chapters that were graded into OUT, as they were released there: for what tells of all of them at once."""

from __future__ import annotations

import json
from pathlib import Path

from autograder.model import course
from autograder.model.course import Chapter, CourseError, Limits


def chapters(out: Path, this: Chapter) -> list[Chapter]:
    """`this` chapter and every other one that lies in OUT/release, by name.

    Of the others there is what marks need: exercises, points, title. What is no chapter of ours (nbgrader's own commands may
    have put it there) is passed over.
    """
    found = {this.name: this}
    for path in (Path(out) / "release").glob("*/*.ipynb"):
        if path.stem == path.parent.name and path.stem not in found and (made := _read(path, this.course)):
            found[path.stem] = made
    return [found[name] for name in sorted(found)]


def _read(path: Path, course_id: str) -> Chapter | None:
    name = path.stem
    try:
        release = json.loads(path.read_text(encoding="utf-8"))
        if release["metadata"]["across"]["chapter"] != name:
            return None
        exercises = course.exercises(name, release)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, CourseError):
        return None
    return Chapter(name, course.title(release) or name, release, exercises, Limits(), course=course_id)
