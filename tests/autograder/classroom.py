"""A tiny chapter, verdicts of it, and their record, for the tests of what happens after grading."""

from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import nbformat
import nbformat.v4 as v4
from bs4 import BeautifulSoup
from nbgrader.preprocessors import ComputeChecksums

from autograder.gradebook.record import Record, Recorder, book, records
from autograder.model import course
from autograder.model.course import Chapter, Limits
from autograder.model.verdict import Fault, Mark, Result, Verdict
from autograder.submissions.extensions import Extension

NAME = "01_tiny"
STUB = "def pick(names):\n    raise NotImplementedError"
WHY = "Say why."
HOSTILE = "\ud800 \x00 \x1b[2J \u202e =1+1 <script>alert(1)</script> & ünï"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="


def cell(kind, source, grade_id="", exercise="", points=None, **flags):
    made = (v4.new_code_cell if kind == "code" else v4.new_markdown_cell)(source)
    made["id"] = f"cell-{grade_id or len(source)}"
    if grade_id:
        meta = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, **flags}
        made.metadata["nbgrader"] = {"grade_id": grade_id, **meta}
        if points is not None:
            made.metadata["nbgrader"]["points"] = points
    if exercise:
        made.metadata["across"] = {"exercise": exercise, "answers": [exercise]}
    return made


def chapter(points: float = 3, extra: str = "") -> Chapter:
    """`pick` and `spread` are checked, `why` is graded by hand; `extra` is the name of one exercise more."""
    cells = [
        cell("markdown", "# Tiny\nWhere does it run?"),
        cell("code", "import math"),
        cell("code", STUB, "pick", solution=True),
        cell("code", "check(pick)", "check_pick", "pick", points, grade=True, locked=True),
        cell("code", "def spread(n):\n    raise NotImplementedError", "spread", solution=True),
        cell("code", "check(spread)", "check_spread", "spread", 4, grade=True, locked=True),
        cell("markdown", WHY, "why", "why", 2, grade=True, solution=True),
    ]
    if extra:
        cells += [
            cell("code", "raise NotImplementedError", extra, solution=True),
            cell("code", "check()", f"check_{extra}", extra, 1, grade=True, locked=True),
        ]
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["across"] = {"chapter": NAME}
    notebook, _ = ComputeChecksums().preprocess(notebook, {})
    return Chapter(NAME, "Tiny", notebook, course.exercises(NAME, notebook), Limits(), checks=f"checks/test_{NAME}.py")


def answered(tiny: Chapter, outputs=(), **sources: str):
    """The chapter with `sources` in its answer cells and `outputs` under `pick`."""
    notebook = nbformat.from_dict(tiny.release)
    for each in notebook.cells:
        grade_id = each.metadata.get("nbgrader", {}).get("grade_id", "")
        each.source = sources.get(grade_id, each.source)
        if grade_id == "pick":
            each.outputs = list(outputs)
    return notebook


TINY = chapter()
PASSED = (Result.PASSED, 1.0, "Passed.")
HALF = (Result.PARTIAL, 0.5, "You sent all of them to one device.")
FAILED = (Result.FAILED, 0.0, "You added the towers; divide by how many there are.")
BLANK = (Result.BLANK, 0.0, "Not attempted: the cell is as it was released.")
BY_HAND = (Result.MANUAL, 0.0, "Graded by hand.")
INVALID = (Result.INVALID, 0.0, "01_tiny.ipynb: is no JSON; open it in JupyterLab, save it and submit it again")
TIMEOUT = (Result.TIMEOUT, 0.0, "The cell `pick` did not end within the time limit.")

FAULTS = {Result.PASSED: Fault.NONE, Result.MANUAL: Fault.NONE, Result.TIMEOUT: Fault.LIMIT}


def verdict(student: str, pick=PASSED, spread=HALF, why=BY_HAND, *, tiny: Chapter = TINY, **more) -> Verdict:
    """A verdict of the tiny chapter, or of another one: for each exercise its result, the share of its points, the message."""
    marks = []
    for exercise, said in zip_longest(tiny.exercises, (pick, spread, why), fillvalue=PASSED):
        result, share, message = said
        fault = FAULTS.get(result, Fault.STUDENT)
        marks.append(Mark(exercise.name, share * exercise.max_points, exercise.max_points, result, fault, message))
    sources = {"pick": "def pick(names):\n    return names[0]", "why": WHY if why[0] is Result.BLANK else "Because."}
    notebook = more.pop("notebook", None) or answered(tiny, **sources)
    made = Verdict(student, tiny.name, "d" * 64, tuple(marks), 7, 0.4, notebook)
    return replace(made, **more)


def mistaken(made: Verdict, name: str) -> Verdict:
    """The same verdict, the first of whose marks has the name of a misconception."""
    return replace(made, marks=(replace(made.marks[0], misconception=name), *made.marks[1:]))


def record(out: Path, *verdicts: Verdict, at: str | None = None, tiny: Chapter = TINY, book: str | None = None) -> None:
    """Record verdicts on what was handed in at one time, as grading does."""
    with Recorder(out, tiny, book) as recorder:
        for each in verdicts:
            recorder.write(each, at)


def write(out: Path, when: str, *said: Extension, student: str = "ada", tiny: Chapter = TINY) -> Record:
    """Grade, or grade again, what did not change and was handed in `when`; with extensions."""
    with Recorder(out, tiny, extensions=said) as recorder:
        if not recorder.renew(student, when) and recorder.known(student) is None:
            recorder.write(verdict(student), when)
    return next(each for each in records(out, TINY) if each.student == student)


def by_hand(
    out: Path,
    points: float | None = None,
    student: str = "ada",
    cell: str = "why",
    *,
    extra: float | None = None,
    comment: str = "",
) -> None:
    """As the formgrader gives, or takes back, a mark, and its extra credit; and a comment."""
    with book(out, TINY) as opened:
        grade: Any = opened.find_grade(cell, NAME, NAME, student)
        grade.manual_score, grade.extra_credit = points, extra
        grade.needs_manual_grade &= points is None
        if comment:
            remark: Any = opened.find_comment(cell, NAME, NAME, student)
            remark.manual_comment = comment
        opened.db.commit()


def shown(page: Path) -> BeautifulSoup:
    """A page as it is read."""
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
