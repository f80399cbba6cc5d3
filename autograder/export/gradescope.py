"""A zip for Gradescope that gives each student the mark that they have here: an autograder that replays, and grades nothing.

As Gradescope documents it (gradescope/autograder_samples, docs/specs.md and docs/submission_metadata.md): `setup.sh` and
`run_autograder` lie at the top; the latter is run in /autograder, where `source` is the zip, `submission` what was handed in
and `submission_metadata.json` says by whom, and it writes results/results.json. Ours is `run_autograder.py`, which finds

    marks/<SHA-256 of the notebook>/<SHA-256 of the e-mail address>.json

What was handed in is read anew and must be what was graded: a mark goes by the file's digest, and nobody's file is in OUT.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from autograder.export import returned, run_autograder
from autograder.export.returned import Returned
from autograder.export.totals import Total
from autograder.gradebook import evidence, record, roll
from autograder.gradebook.record import Record, Row, number, some
from autograder.model import harmless
from autograder.model.course import Chapter, CourseError
from autograder.report import feedback, term_lines
from autograder.submissions import downloads, intake, student_files
from autograder.submissions.filenames import Reader
from autograder.submissions.intake import Submission
from autograder.submissions.roster import EMAIL, Roster
from autograder.submissions.student_files import RefusedError

SETUP = """#!/usr/bin/env bash
# What run_autograder needs: any Python 3, and nothing else. It executes nothing that is handed in.
set -e
command -v python3 > /dev/null || { apt-get update && apt-get install -y python3; }
"""
SHOWN = "after_published"  # to students: when the marks of the assignment are published there
COUNTED = ("answers", "invalid", "missing", "refused", "added")  # of a `Submission`: what a verdict is of


def write(
    path: Path,
    out: Path,
    chapter: Chapter,
    totals: list[Total],
    submissions: Path,
    roster: Path | None,
    names: Reader | None,
    waiting: bool = False,
) -> Returned:
    """Write the zip for a chapter: `submissions` are what was handed in, `roster` may say whose address is which.

    Raises CourseError for submissions or a roster that cannot be right, OSError.
    """
    made = Returned()
    digests = _digests(submissions, out, chapter, roster, names, made)
    emails = _emails(out, chapter, {total.student for total in totals}, roster)
    shared = Counter(emails.values())
    records = {each.student: each for each in record.records(out, chapter)}
    with returned.archive(path) as put:
        put("setup.sh", SETUP.encode(), 0o755)
        put("run_autograder", Path(run_autograder.__file__).read_bytes(), 0o755)
        for total in totals:
            email = emails.get(total.student, "")
            if why := total.not_yet(waiting):
                made.told(total.student, why)
            elif total.student not in digests:
                made.told(total.student, f"no notebook of theirs is in {submissions}")
            elif not email or shared[email] > 1:
                what = "another has the same e-mail address" if email else "no e-mail address of theirs is known"
                made.told(total.student, f"{what}; give a --roster with the column email")
            elif digest := digests[total.student]:
                name = f"marks/{digest}/{run_autograder.of_address(email)}.json"
                put(name, json.dumps(result(chapter, records[total.student], total), indent=1).encode(), 0o644)
                made.pages += 1
    return made


def result(chapter: Chapter, one: Record, total: Total) -> dict[str, object]:
    """What results.json says of a student: their own, as their page of feedback has it."""
    said = [f"{number(one.points)} of {some(chapter.max_points, 'point')}"]
    if one.penalty:
        said.append(
            f"{some(one.penalty, 'point')} {'is' if one.penalty == 1 else 'are'} taken off, for it was handed in late"
        )
    if counts := term_lines.counts(total.counted, one.points, one.zone):
        said.append(counts)
    if one.code:
        said.append(f"You think that a mark is wrong? Tell your teacher why, and the code of this page: {one.code}")
    return {
        "score": round(total.points, 4),
        "output": "\n".join(said),
        **dict.fromkeys(("output_format", "test_output_format", "test_name_format"), "text"),
        "visibility": SHOWN,
        "stdout_visibility": "hidden",
        "tests": [_test(row) for row in one.rows],
    }


def _test(row: Row) -> dict[str, object]:
    said = [feedback.HOW[row.verdict], row.message, row.comment and f"Your teacher says: {row.comment}"]
    said.append(feedback.NOT_YOURS.get(row.fault) or feedback.TO_DO[row.verdict])
    made: dict[str, object] = {"name": row.exercise, "output": "\n\n".join(map(harmless.visible, filter(None, said)))}
    if row.waiting:  # no score: 0 would be taken for one
        return made
    return {"score": round(row.points, 4), "max_score": row.max_points, **made}


def _digests(
    submissions: Path, out: Path, chapter: Chapter, roster: Path | None, names: Reader | None, made: Returned
) -> dict[str, str]:
    """The SHA-256 of each student's notebook; empty where it is another one than was graded, which `made` tells."""
    found: dict[str, str] = {}
    gathered = downloads.gathered(submissions, chapter, names=names, roster=roster)
    with gathered as class_, record.book(out, chapter) as book:
        for each in intake.collect(class_.folder, chapter):
            data, kept = _data(each.folder, chapter), None
            if data is None:
                continue
            with suppress(CourseError, ValueError):
                kept = evidence.at(book, chapter.name, each.student).answers
            same = kept is not None and _counted(kept) == _counted(intake.of_bytes(data, chapter, []))
            found[each.student] = hashlib.sha256(data).hexdigest() if same else ""
            if not same:
                made.told(each.student, f"in {submissions} is another notebook than was graded last; grade it")
    return found


def _data(folder: Path, chapter: Chapter) -> bytes | None:
    """The notebook in a student's folder, as `intake.read` finds it; None where it finds none."""
    with suppress(RefusedError), student_files.folder(folder, chapter) as opened:
        return None if opened is None else student_files.notebook(opened, chapter)
    return None


def _counted(submission: Submission) -> list[object]:
    return [getattr(submission, name) for name in COUNTED]


def _emails(out: Path, chapter: Chapter, whose: set[str], roster: Path | None) -> Mapping[str, str]:
    """The address of each student as far as one is known: of the roster, of nbgrader's table, or their id is one."""
    told = {student: each.email for student, each in Roster(roster).enrolled.items()} if roster else {}
    entered = roll.emails(out, chapter)
    own = {student: student for student in whose if EMAIL.fullmatch(student)}
    found = {**own, **entered, **{student: email for student, email in told.items() if email}}
    return {student: email.casefold() for student, email in found.items() if student in whose}
