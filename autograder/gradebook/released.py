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
    found = {each.name: each for each in all_of(out, this.course)} | {this.name: this}
    return [found[name] for name in sorted(found)]


def all_of(out: Path, course_id: str) -> list[Chapter]:
    """Every chapter of the course with that id that lies in OUT/release, by name; of each what marks need."""
    paths = sorted((Path(out) / "release").glob("*/*.ipynb"))
    read = [_read(path, course_id) for path in paths if path.stem == path.parent.name]
    return [chapter for chapter in read if chapter is not None]


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
