"""Our exports as plugins of nbgrader's: `nbgrader export --exporter=autograder.export.plugins.CanvasExport` in OUT.

They are `autograder export`'s, on every chapter that was graded there or on those of `--assignment`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin
from traitlets import Bool, Dict, Unicode

from autograder.export import canvas, moodle, spreadsheet
from autograder.export.filling import Filled, How
from autograder.export.people import People
from autograder.export.totals import Total, totals
from autograder.gradebook import released
from autograder.model.course import Chapter, CourseError
from autograder.store import files

COLUMNS = [  # nbgrader's own, in its order
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score",
    "late_submission_penalty", "score", "max_score",
]  # fmt: skip


class CsvExport(ExportPlugin):
    """nbgrader's own table, in which no name parts cells or is taken for a formula."""

    def export(self, gradebook: Gradebook) -> None:
        """Write `to`, by default grades.csv: a line for each assignment and student, also of who handed in nothing."""
        students: list[Any] = [each for each in gradebook.students if not self.student or each.id in self.student]
        rows = []
        for assignment in gradebook.assignments:
            if not self.assignment or assignment.name in self.assignment:
                rows += [_row(gradebook, assignment, student) for student in students]
        path = files.replace(Path(self.to or "grades.csv"), spreadsheet.written(COLUMNS, rows), mode=0o600)
        self.log.info("%s: %d lines", path, len(rows))


def _row(gradebook: Gradebook, assignment: Any, student: Any) -> list[str]:
    try:
        found: Any = gradebook.find_submission(assignment.name, student.id)
        penalty = float(found.late_submission_penalty or 0.0)
        points, when = [found.score, penalty, max(0.0, found.score - penalty)], found.timestamp
    except MissingEntry:
        points, when = [0.0, 0.0, 0.0], None
    names = [student.id, student.last_name, student.first_name, student.email]
    said = [assignment.name, assignment.duedate, when, *names, *points, assignment.max_score]
    return ["" if each is None else str(each) for each in said]


class _Download(ExportPlugin):
    """What fills a file that was downloaded."""

    roster = Unicode("", help="CSV: id, lms id, name, email").tag(config=True)
    scale = Bool(False, help="to the points that are possible there").tag(config=True)
    waiting = Bool(False, help="what waits for a mark by hand, too").tag(config=True)
    download = ""  # the file

    def export(self, gradebook: Gradebook) -> None:
        """Write `to`, by default export/ and the download's name; exit code 2: somebody's mark is not in it."""
        app: Any = self.parent
        out = Path(app.coursedir.root)
        try:
            filled = self._filled(out, app.coursedir.course_id)
        except CourseError as error:
            self.log.error("%s", error)
            sys.exit(2)
        path = Path(self.to) if self.to else out / "export" / Path(self.download).name
        files.replace(path, filled.data, mode=0o600)
        self.log.info("%s: %d marks, %d cells as they were", path, filled.filled, filled.untouched)
        for line in filled.said():
            self.log.error("not exported: %s", line)
        if filled.troubles:
            sys.exit(2)

    def _filled(self, out: Path, course: str) -> Filled:
        if not self.download:
            raise CourseError(f"{type(self).__name__}: name the file that was downloaded: {self._option}=FILE")
        wanted = [each for each in released.every(out, course) if not self.assignment or each.name in self.assignment]
        class_ = [(chapter, self._totals(out, chapter)) for chapter in wanted]
        everyone = {total.student for _, found in class_ for total in found}
        people = People(out, everyone, Path(self.roster) if self.roster else None)
        return self._fill(class_, people, How(self.scale, self.waiting))

    def _totals(self, out: Path, chapter: Chapter) -> list[Total]:
        return [total for total in totals(out, chapter) if not self.student or total.student in self.student]

    @property
    def _option(self) -> str:
        raise NotImplementedError

    def _fill(self, class_: Sequence[tuple[Chapter, Sequence[Total]]], people: People, how: How) -> Filled:
        raise NotImplementedError


class CanvasExport(_Download):
    """Fills a gradebook of Canvas's."""

    gradebook = Unicode("", help="the gradebook, as Canvas exports it").tag(config=True)
    columns = Dict(help="chapter -> its column's title or id, where it is called otherwise").tag(config=True)

    @property
    def download(self) -> str:
        """The file that is filled."""
        return self.gradebook

    @property
    def _option(self) -> str:
        return "--CanvasExport.gradebook"

    def _fill(self, class_: Sequence[tuple[Chapter, Sequence[Total]]], people: People, how: How) -> Filled:
        return canvas.fill(spreadsheet.read(Path(self.gradebook)), class_, people, how, self.columns)


class MoodleExport(_Download):
    """Fills a grading worksheet of Moodle's, which is of one assignment."""

    worksheet = Unicode("", help="the grading worksheet, as Moodle's assignment gives it").tag(config=True)

    @property
    def download(self) -> str:
        """The file that is filled."""
        return self.worksheet

    @property
    def _option(self) -> str:
        return "--MoodleExport.worksheet"

    def _fill(self, class_: Sequence[tuple[Chapter, Sequence[Total]]], people: People, how: How) -> Filled:
        if len(class_) != 1:
            names = ", ".join(chapter.name for chapter, _ in class_) or "none"
            raise CourseError(
                f"a worksheet is of one assignment; name it: --assignment '[\"NAME\"]' (there are: {names})"
            )
        return moodle.fill(spreadsheet.read(Path(self.worksheet)), *class_[0], people, how)
