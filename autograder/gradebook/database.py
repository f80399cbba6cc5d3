"""Where a class's gradebook lies: SQLite in OUT, or the database that OUT/nbgrader_config.py names; and what it may refuse."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nbgrader.api import InvalidEntry
from sqlalchemy import create_engine, func, make_url, select
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from traitlets.config.loader import Config, PyFileConfigLoader

from autograder.model.course import CourseError
from autograder.store import files

BUSY = 60.0  # seconds to wait for a database that another process writes, the formgrader for one
SIGNS = {  # what SQLite says -> the mend
    "is full": "make room on that disk",
    "disk I/O error": "see that the disk is sound and has room",
    "readonly database": "make the file and its folder writable, or give another --out",
    "unable to open": "make its folder writable, or give another --out",
    "is locked": "end the program that holds it, a formgrader for one",
    "malformed": "the file is damaged: put back your copy of it, or move it away and grade anew",
    "not a database": "the file is damaged: put back your copy of it, or move it away and grade anew",
}

ALONE = 0x6163726F  # PostgreSQL's advisory lock of who writes: "acro"

CONFIG = '''"""Across's gradebook as an nbgrader course: run nbgrader and JupyterLab in this folder. Yours to edit."""
from nbgrader.preprocessors import CheckCellMetadata, ClearOutput, ComputeChecksums, LockCells, SaveCells

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = {course_id!r}
# source/ is the chapter as released: "Generate" has no solutions to take out of it
c.GenerateAssignment.preprocessors = [LockCells, ClearOutput, CheckCellMetadata, ComputeChecksums, SaveCells]
c.HTMLExporter.sanitize_html = True
# The late policy; "none" takes nothing off, "zero" everything:
# c.LateSubmissionPlugin.penalty_method = "zero"

# Submissions are hostile until proven otherwise. "Autograde" in the formgrader replays the recorded verdict instead of
# running a student's code here, without a sandbox; grade with `autograder grade`. Pages colour Python only, and not for long.
try:
    from autograder.gradebook.replay import replay

    c.Autograde.autograde_preprocessors = replay()
    c.GenerateFeedback.exporter_class = "autograder.report.formgrader.FeedbackPage"  # our page is nbgrader's
    c.ExportApp.plugin_class = "autograder.export.plugins.CsvExport"  # its own table, in which no name parts cells
    c.HTMLExporter.filters = {{name: "autograder.model.markup.html" for name in ("clean_html", "strip_files_prefix")}}
    c.HTMLExporter.filters["highlight_code"] = "autograder.model.markup.coloured"
except ImportError:  # another environment's nbgrader
    c.Autograde.autograde_preprocessors = []
'''


def locate(out: Path, url: str | None = None) -> str:
    """The URL of a class's gradebook: `url` if given, else what OUT/nbgrader_config.py says, else SQLite in OUT.

    Raises CourseError when the two differ: marks of one class would lie in two places.
    """
    settings = Path(out) / "nbgrader_config.py"
    said = load_config(Path(out)).get("CourseDirectory", {}).get("db_url") if settings.exists() else None
    if url and said != url and settings.exists():
        raise CourseError(f"{settings}: its db_url is {said!r}, not {url}; give that --db, or grade into a new --out")
    return url or said or f"sqlite:///{Path(out).absolute() / 'gradebook.db'}"


def exists(out: Path) -> bool:
    """Whether a class was graded into OUT."""
    parsed = make_url(locate(out))
    return parsed.get_backend_name() != "sqlite" or os.path.exists(parsed.database or "")


def shared(url: str) -> bool:
    """Whether several graders may write there, each with an OUT of its own."""
    return make_url(url).get_backend_name() != "sqlite"


class GradebookError(OSError):
    """The database will not: it is full, read-only, locked, out of reach or broken. The message says which one."""


@contextmanager
def named_in_errors(url: str) -> Iterator[None]:
    """Raise GradebookError, which names the database and the mend, for what is the database's fault and not ours."""
    try:
        yield
    except (DBAPIError, InvalidEntry) as error:
        # nbgrader takes any error for a bad entry
        met = error.__context__ if isinstance(error, InvalidEntry) else error
        said = " ".join(str(met.orig).split()) if isinstance(met, DBAPIError) else ""
        mend = next((mend for sign, mend in SIGNS.items() if sign in said), "")
        if not mend and not isinstance(met, (OperationalError, InterfaceError)):
            raise
        parsed = make_url(url)
        place = parsed.database if parsed.get_backend_name() == "sqlite" else parsed.render_as_string()
        raise GradebookError(f"{place}: {said}; {mend or 'see that the database answers'}, {files.AGAIN}") from error


@contextmanager
def alone(url: str) -> Iterator[None]:
    """One at a time, in PostgreSQL and in the folder of a file of SQLite's: until the block ends, or we do."""
    with ExitStack() as stack:
        if shared(url):
            engine = create_engine(url)
            stack.callback(engine.dispose)
            stack.enter_context(engine.begin()).execute(select(func.pg_advisory_xact_lock(ALONE)))
        elif place := make_url(url).database:  # SQLite's own locks are of another kind
            fd = os.open(os.path.dirname(place) or ".", os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, fd)
            fcntl.flock(fd, fcntl.LOCK_EX)
            stack.callback(fcntl.flock, fd, fcntl.LOCK_UN)
        yield


def patient(url: str) -> str:
    """The URL of a database that is waited for when another process writes it."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and "timeout" not in parsed.query:
        parsed = parsed.update_query_dict({"timeout": str(BUSY)})
    return parsed.render_as_string(hide_password=False)


def load_config(out: Path) -> Config:
    """OUT/nbgrader_config.py, the instructor's policy; written first if there is none. Raises CourseError."""
    path = out / "nbgrader_config.py"
    try:
        return PyFileConfigLoader(path.name, path=str(out)).load_config()
    except Exception as error:
        raise CourseError(f"{path}: {type(error).__name__}: {error}; mend it, or delete it to get a new one") from error


def default_config(course: str, url: str | None) -> str:
    """What a new OUT/nbgrader_config.py says; `course` is its id, `url` given if the gradebook is not in OUT."""
    text = CONFIG.format(course_id=course)
    return text + (f"\nc.CourseDirectory.db_url = {url!r}\n" if url else "")
