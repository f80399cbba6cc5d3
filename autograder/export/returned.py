"""Each student's feedback on a chapter in one zip, named so that Canvas's or Moodle's upload takes it to its student.

Canvas (Gradebook or SpeedGrader, "Upload Submissions"; canvas-lms, app/models/abstract_assignment.rb,
`infer_comment_context_from_filename`) parts a file's name at `_`: the first two parts that are numbers are the user and one of
the files that this user handed in; who has no such file is passed over. The page becomes a comment's attachment, which Canvas
calls as that file is called: so what is sent there is a notebook with the marks on top, and nothing to who sent none.

Moodle ("Upload multiple feedback files in a zip", of the feedback type "Feedback files"; moodle,
mod/assign/feedback/file/importziplib.php, `is_valid_filename_for_import`) takes the second part of a folder's name for the
participant, the third and fourth for the plugin; what follows is the file.

The numbers are those of the files by which the student was graded (`handed`). Of a student's own words nothing goes into a name
but letters, digits, blanks, dots and dashes of their id, and never as a part that is a number.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from autograder.export import handed
from autograder.export.handed import Handed
from autograder.export.totals import Total
from autograder.gradebook import record
from autograder.gradebook.record import Record
from autograder.model import harmless
from autograder.model.course import Chapter, CourseError
from autograder.report import feedback, feedback_notebook
from autograder.submissions.filenames import Layout
from autograder.term import kept
from autograder.term.counting import Counted

WORDS = re.compile(r"[^\w. -]|_")
NAME = 60  # characters of an id in a name
MADE = (1980, 1, 1, 0, 0, 0)  # the same pages, the same zip


class Target(StrEnum):
    """Where the pages go."""

    CANVAS = "canvas"
    MOODLE = "moodle"
    FOLDERS = "folders"


@dataclass
class Returned:
    """A zip of what is students' own, and whose is not in it."""

    pages: int = 0
    troubles: list[str] = field(default_factory=list)

    def told(self, student: str, why: str) -> None:
        """Say why something is not in it."""
        self.troubles.append(f"{harmless.line(student)}: {why}")


def write(
    path: Path, out: Path, chapter: Chapter, totals: list[Total], target: Target, waiting: bool = False
) -> Returned:
    """Zip the pages of who has a total; what waits for a mark by hand only if `waiting`.

    Raises CourseError where no list says who handed in what, or it is another system's; OSError.
    """
    made = Returned()
    names = _names(out, chapter, {total.student for total in totals}, target, made)
    whole = record.records(out, chapter) if target is Target.CANVAS else []
    records = {each.student: each for each in whole}
    counts = (kept.counts(out, chapter) if whole else None) or {}
    with archive(path) as put:
        for total in totals:
            if why := total.not_yet(waiting, unread=False):
                made.told(total.student, why)
            elif name := names.get(total.student):
                put(name, _data(out, chapter, total.student, records, counts), 0o600)
                made.pages += 1
    return made


@contextmanager
def archive(path: Path) -> Iterator[Callable[[str, bytes, int], None]]:
    """A zip that replaces `path` whole, and that only we may read; yields what puts a file into it: name, content, mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    private = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(private, "wb") as file, zipfile.ZipFile(file, "w") as made:

        def put(name: str, data: bytes, mode: int) -> None:
            info = zipfile.ZipInfo(name, MADE)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (stat.S_IFREG | mode) << 16
            made.writestr(info, data)

        yield put
    os.replace(new, path)


def _data(
    out: Path, chapter: Chapter, student: str, records: Mapping[str, Record], counts: Mapping[str, Counted]
) -> bytes:
    if student in records:
        return feedback_notebook.render(out, chapter, records[student], counts.get(student))
    return feedback.path(out, chapter.name, student).read_bytes()


def _names(out: Path, chapter: Chapter, students: set[str], target: Target, made: Returned) -> dict[str, str]:
    """What each student's page is called in the zip; of whom that cannot be known, a line in `made`."""
    if target is Target.FOLDERS:
        return _folders(chapter, students, made)
    theirs = _theirs(out, chapter, students, target)
    owners: dict[str, set[str]] = defaultdict(set)
    for student, ones in theirs.items():
        for one in ones:
            owners[one.claim.lms].add(student)
    names = {}
    for student in sorted(students):
        numbers = {one.claim.lms for one in theirs.get(student, ())}
        if numbers and target is Target.CANVAS and not theirs[student][0].notebook:
            said = "handed in no notebook, and Canvas takes back notebooks alone; give it back by hand"
            made.troubles.append(f"{harmless.line(student)}: {said}")
        elif len(numbers) != 1:
            listed = f"handed_in_{chapter.name}.csv"
            why = f"{listed} names {len(numbers)} accounts that it was graded by" if numbers else f"no file in {listed}"
            made.troubles.append(f"{harmless.line(student)}: {why}; give it back by hand, or grade the download again")
        elif len(owners[min(numbers)]) > 1:
            others = ", ".join(harmless.line(each) for each in sorted(owners[min(numbers)] - {student}))
            made.troubles.append(f"{harmless.line(student)}: {others} handed in from the same account; give a roster")
        else:
            names[student] = _name(student, theirs[student][0], chapter, target)
    return names


def _theirs(out: Path, chapter: Chapter, students: set[str], target: Target) -> Mapping[str, list[Handed]]:
    path = out / f"handed_in_{chapter.name}.csv"
    mend = f"grade the download itself (--submissions submissions.zip), or give them back by --zip {Target.FOLDERS}"
    if not path.is_file():
        raise CourseError(f"{path}: nothing says which file was whose; {mend}")
    layout, found = handed.files(path)
    if layout is not Layout[target.name]:
        raise CourseError(f"{path}: these are no files of {Layout[target.name]}; {mend}")
    shown = {harmless.field(student): student for student in students}
    theirs: dict[str, list[Handed]] = defaultdict(list)
    for one in found:
        if one.student in shown and (target is Target.MOODLE or one.claim.submission):
            theirs[shown[one.student]].append(one)
    if target is Target.CANVAS:
        return {student: [one for one in ones if one.notebook] or ones for student, ones in theirs.items()}
    return {student: sorted(ones, key=lambda one: not one.notebook) for student, ones in theirs.items()}


def _name(student: str, one: Handed, chapter: Chapter, target: Target) -> str:
    who = _words(student)
    if target is Target.MOODLE:
        return f"{who}_{one.claim.lms}_assignsubmission_file_/{chapter.name}.html"
    # without `_`: Canvas passes over what ends in `_link...`
    return f"{who}_{one.claim.lms}_{one.claim.submission}_{chapter.name.replace('_', '-')}.ipynb"


def _words(student: str) -> str:
    """An id as a part of a name: no number, nothing that parts names or hides a file."""
    made = WORDS.sub("-", student)[:NAME].strip(". -")
    return made if any(character.isalpha() for character in made) else f"student-{made}"


def _folders(chapter: Chapter, students: set[str], made: Returned) -> dict[str, str]:
    folders = {
        student: student.replace("\\", "-") for student in sorted(students)
    }  # a backslash parts folders elsewhere
    alike = Counter(map(_elsewhere, folders.values()))
    names: dict[str, str] = {}
    for student, folder in folders.items():
        if alike[_elsewhere(folder)] > 1:
            made.troubles.append(
                f"{harmless.line(student)}: another's folder would be called alike; give it back by hand"
            )
        else:
            names[student] = f"{folder}/{chapter.name}/{chapter.name}.html"
    return names


def _elsewhere(folder: str) -> str:
    """What macOS and Windows take a folder's name for."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", folder).casefold()).rstrip(". ")
