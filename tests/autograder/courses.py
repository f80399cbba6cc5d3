"""A course of one chapter, made from nothing in a folder, a class graded by it, and the end of its warm servers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.authoring import build
from autograder.engine import class_run, dry_run
from autograder.engine.class_run import ClassResult
from autograder.engine.request import Request
from autograder.job import forkserver
from autograder.model.course import Course
from autograder.report import changes
from autograder.submissions.handed_in import HandedIn


def write(root: Path, name: str, source: str, checks: str = "", preload: Sequence[str] = ()) -> Course:
    """Write the source and the checks of chapter `name` below `root`, build it, and return the course."""
    for folder in ("solutions", "notebooks", "checks"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "course.toml").write_text(f'id = "tiny"\ntitle = "Tiny"\npreload = {list(preload)!r}\n', encoding="utf-8")
    (root / "solutions" / f"{name}.py").write_text(source, encoding="utf-8")
    if checks:
        (root / "checks" / f"test_{name}.py").write_text(checks, encoding="utf-8")
    course = Course.read(root)
    build.build(course)
    return course


def asked(course: Course, name: str, submissions: Path, out: Path, **options: Any) -> Request:
    """What `autograder grade` is asked with these options."""
    options = {"reference": build.solution_source(course, name)} | options
    return Request(course, name, HandedIn(submissions), out, **options)


def graded(course: Course, name: str, submissions: Path, out: Path, **options: Any) -> ClassResult:
    """Grade a class as `autograder grade` does with these options, but for pages."""
    return class_run.grade_class(asked(course, name, submissions, out, **options))


def rehearsed(course: Course, name: str, submissions: Path, out: Path, **options: Any):
    """The same with `--dry-run`: what the run did, and what would change."""
    result, was, then = dry_run.rehearse(asked(course, name, submissions, out, **options))
    return result, changes.compare(was, then)


def close(course: Course) -> None:
    """End the warm servers of `course`; those of other courses, which other tests share, stay."""
    for key in [key for key in forkserver._STARTED if key[0] == course]:
        forkserver._STARTED.pop(key).close()
