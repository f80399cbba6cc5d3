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
    found = {each.name: each for each in (*every(out, this.course), this)}
    return [found[name] for name in sorted(found)]


def every(out: Path, course_id: str) -> list[Chapter]:
    """Every chapter of ours in OUT/release, by name."""
    names = sorted(path.name for path in (Path(out) / "release").glob("*") if path.is_dir())
    return [made for name in names if (made := chapter(out, name, course_id))]


def chapter(out: Path, name: str, course_id: str) -> Chapter | None:
    """The chapter of that name in OUT/release; None if there is none of ours."""
    path = Path(out) / "release" / name / f"{name}.ipynb"
    try:
        release = json.loads(path.read_text(encoding="utf-8"))
        if release["metadata"]["across"]["chapter"] != name:
            return None
        exercises = course.exercises(name, release)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, CourseError):
        return None
    step = 0.0  # the course's is not in there
    return Chapter(name, course.title(release) or name, release, exercises, Limits(), course=course_id, step=step)
