"""A course of one chapter, made from nothing in a folder, a class graded by it, and the end of its warm servers."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autograder.authoring import build
from autograder.engine import class_run, dry_run
from autograder.engine.class_run import ClassResult
from autograder.engine.request import Request
from autograder.job import forkserver
from autograder.job.kernel_process import KernelProcess
from autograder.model.course import Course, Limits
from autograder.report import changes
from autograder.sandbox import owners
from autograder.submissions.handed_in import HandedIn

SHARED: set[Path] = set()  # the folders of courses whose warm servers live as long as the session


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


def answered(course: Course, name: str, answers: Mapping[str, str], *more: Any) -> bytes:
    """The released notebook of a chapter with these answers, and cells `more` at its end."""
    notebook = json.loads(course.notebook(name).read_text())
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["metadata"].get("nbgrader", {}).get("grade_id"), cell["source"])
    notebook["cells"] += more
    return json.dumps(notebook).encode()


def hand_in(folder: Path, student: str, name: str, notebook: bytes) -> Path:
    """Lay a notebook where nbgrader collects that of a student; returns the folder of submissions."""
    place = folder / student / name / f"{name}.ipynb"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(notebook)
    return folder


def handed_in(course: Course, folder: Path, name: str, class_: Mapping[str, Mapping[str, str]]) -> Path:
    """Hand in for a class: student -> answers; returns the folder of submissions."""
    for student, answers in class_.items():
        hand_in(folder, student, name, answered(course, name, answers))
    return folder


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def marks(out: Path) -> dict[tuple[str, str], dict[str, str]]:
    """The rows of OUT's table of marks, by student and exercise."""
    return {(row["student"], row["exercise"]): row for row in table(out / "marks.csv")}


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


@contextmanager
def kernel(servers: forkserver.Servers) -> Iterator[KernelProcess]:
    """A student's kernel in a box of its own, for as long as the `with` lasts."""
    started = KernelProcess(servers.student.path, owners.new_name("j"), Limits())
    try:
        started.ready()
        yield started
    finally:
        started.close()


def close(below: Path | None = None) -> None:
    """End the warm servers of the courses below a folder; by default of all but those that a session shares."""
    for key in [*forkserver._STARTED]:
        root = key[0].root
        if root.is_relative_to(below) if below else root not in SHARED:
            forkserver._STARTED.pop(key).close()
