"""Grading that keeps nothing: a real run on a copy of the class's gradebook, compared with what there is.

What it says is what `autograder grade` would do, marks by hand and the late policy included, because it is the same run.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from autograder.engine import class_run
from autograder.engine.class_run import ClassResult, Progress
from autograder.engine.request import Request
from autograder.gradebook import database, record
from autograder.gradebook.record import Record
from autograder.model.course import CourseError
from autograder.store import files


def rehearse(request: Request, progress: Progress | None = None) -> tuple[ClassResult, list[Record], list[Record]]:
    """Grade as `engine.grade_class` does without a change in the request's OUT.

    Also returns the records of its students, as they are and would be. Raises what it raises, and sqlite3.Error when the
    gradebook cannot be read.
    """
    chapter, out = request.course.chapter(request.chapter), request.out
    if database.shared(database.locate(out, request.db_url)):
        raise CourseError("--dry-run works on a copy of the gradebook, which only one that lies in OUT can be had of")
    with tempfile.TemporaryDirectory(prefix="across-rehearsal-") as folder:
        copy = Path(folder)
        for name in ("nbgrader_config.py", files.SEED):
            if (Path(out) / name).is_file():
                shutil.copy2(Path(out) / name, copy / name)
        before = record.records(copy, chapter) if _copied(Path(out) / "gradebook.db", copy / "gradebook.db") else []
        result = class_run.grade_class(replace(request, out=copy, anyway=True), progress=progress)
        asked = {*result.graded, *result.unchanged}  # not who is recorded, and was not to be graded now
        was, then = (
            [each for each in class_ if each.student in asked] for class_ in (before, record.records(copy, chapter))
        )
        return result, was, then


def _copied(original: Path, copy: Path) -> bool:
    """Copy a database as it stands between two transactions; whether there was one."""
    if not original.is_file():
        return False
    try:
        # read only, or SQLite might tidy up in the original
        readable = f"file:{quote(str(original.absolute()))}?mode=ro"
        with (
            closing(sqlite3.connect(readable, uri=True, timeout=database.BUSY)) as there,
            closing(sqlite3.connect(copy)) as made,
        ):
            there.backup(made)
    except sqlite3.OperationalError:  # left in a transaction by who was killed: SQLite mends the copy
        copy.unlink(missing_ok=True)
        for path in (original, *original.parent.glob(f"{original.name}-*")):
            shutil.copy2(path, copy.with_name(path.name))
    return True
