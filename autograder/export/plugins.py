"""What `nbgrader export` writes in OUT: nbgrader's own table, safely quoted. OUT/nbgrader_config.py names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

from autograder.export import spreadsheet
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
