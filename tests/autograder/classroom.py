"""A tiny chapter and verdicts of it, for the tests of what happens after grading."""

from dataclasses import replace

import nbformat
import nbformat.v4 as v4
from nbgrader.preprocessors import ComputeChecksums

from autograder.model import course
from autograder.model.course import Chapter, Limits
from autograder.model.verdict import Fault, Mark, Result, Verdict

NAME = "01_tiny"
STUB = "def pick(names):\n    raise NotImplementedError"
WHY = "Say why."
HOSTILE = "\ud800 \x00 \x1b[2J \u202e =1+1 <script>alert(1)</script> & ünï"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="


def _cell(kind, source, grade_id="", exercise="", points=None, **flags):
    cell = (v4.new_code_cell if kind == "code" else v4.new_markdown_cell)(source)
    cell["id"] = f"cell-{grade_id or len(source)}"
    if grade_id:
        meta = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, **flags}
        cell.metadata["nbgrader"] = {"grade_id": grade_id, **meta}
        if points is not None:
            cell.metadata["nbgrader"]["points"] = points
    if exercise:
        cell.metadata["across"] = {"exercise": exercise, "answers": [exercise]}
    return cell


def chapter(points: float = 3, extra: str = "") -> Chapter:
    """`pick` and `spread` are checked, `why` is graded by hand; `extra` is the name of one exercise more."""
    cells = [
        _cell("markdown", "# Tiny\nWhere does it run?"),
        _cell("code", "import math"),
        _cell("code", STUB, "pick", solution=True),
        _cell("code", "check(pick)", "check_pick", "pick", points, grade=True, locked=True),
        _cell("code", "def spread(n):\n    raise NotImplementedError", "spread", solution=True),
        _cell("code", "check(spread)", "check_spread", "spread", 4, grade=True, locked=True),
        _cell("markdown", WHY, "why", "why", 2, grade=True, solution=True),
    ]
    if extra:
        cells += [
            _cell("code", "raise NotImplementedError", extra, solution=True),
            _cell("code", "check()", f"check_{extra}", extra, 1, grade=True, locked=True),
        ]
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["across"] = {"chapter": NAME}
    notebook, _ = ComputeChecksums().preprocess(notebook, {})
    return Chapter(NAME, "Tiny", notebook, course.exercises(NAME, notebook), Limits(), checks=f"checks/test_{NAME}.py")


def answered(tiny: Chapter, outputs=(), **sources: str):
    """The chapter with `sources` in its answer cells and `outputs` under `pick`."""
    notebook = nbformat.from_dict(tiny.release)
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        cell.source = sources.get(grade_id, cell.source)
        if grade_id == "pick":
            cell.outputs = list(outputs)
    return notebook


PASSED = (Result.PASSED, 1.0, "Passed.")
HALF = (Result.PARTIAL, 0.5, "You sent all of them to one device.")
FAILED = (Result.FAILED, 0.0, "You added the towers; divide by how many there are.")
BLANK = (Result.BLANK, 0.0, "Not attempted: the cell is as it was released.")
BY_HAND = (Result.MANUAL, 0.0, "Graded by hand.")
INVALID = (Result.INVALID, 0.0, "01_tiny.ipynb: is no JSON; open it in JupyterLab, save it and submit it again")
TIMEOUT = (Result.TIMEOUT, 0.0, "The cell `pick` did not end within the time limit.")

FAULTS = {Result.PASSED: Fault.NONE, Result.MANUAL: Fault.NONE, Result.TIMEOUT: Fault.LIMIT}


def verdict(student: str, pick=PASSED, spread=HALF, why=BY_HAND, *, tiny: Chapter | None = None, **more) -> Verdict:
    """A verdict of the tiny chapter: for each exercise its result, the share of its points, the message."""
    tiny = tiny or chapter()
    said = dict(zip(("pick", "spread", "why"), (pick, spread, why), strict=True))
    marks = []
    for exercise in tiny.exercises:
        result, share, message = said.get(exercise.name, PASSED)
        fault = FAULTS.get(result, Fault.STUDENT)
        marks.append(Mark(exercise.name, share * exercise.max_points, exercise.max_points, result, fault, message))
    sources = {"pick": "def pick(names):\n    return names[0]", "why": WHY if why[0] is Result.BLANK else "Because."}
    notebook = more.pop("notebook", None) or answered(tiny, **sources)
    made = Verdict(student, NAME, "d" * 64, tuple(marks), 7, 0.4, notebook)
    return replace(made, **more)
