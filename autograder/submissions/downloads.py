"""Where a class's submissions come from: nbgrader's folders as they are, or a download or an exchange made into them.

`gathered` finds out whose each file is (`whose`), takes the newest of each student, and writes it below a private folder
as <student>/<chapter>/<chapter>.ipynb, which `intake` reads with all its mistrust. What was not taken is listed with the
reason. A file that cannot be read costs only its own student: an empty one stands in for it, which is marked as invalid.
"""

from __future__ import annotations

import csv
import io
import os
import pwd
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from autograder.model import harmless
from autograder.model.course import Chapter, CourseError
from autograder.store import files
from autograder.submissions import archives, filenames, intake
from autograder.submissions.archives import Member, UnreadableError
from autograder.submissions.filenames import Claim, Layout, Reader, Roster

TOTAL = 4 << 30  # bytes of a class's notebooks
LISTED = 10_000  # lines of handed_in.csv
COLUMNS = ("file", "student", "taken", "when", "when_from", "note")
FORMAT = "%Y-%m-%d %H:%M:%S.%f UTC"  # as nbgrader writes timestamp.txt
SLACK = 3600  # seconds that a folder of the exchange may be younger than it says


@dataclass(frozen=True)
class Line:
    """What became of one file: a line of handed_in.csv."""

    file: str
    student: str = ""
    taken: str = "no"  # yes; no; older than the one taken; later: still being written; text: typed into the system
    when: str = ""
    when_from: str = ""
    note: str = ""


@dataclass(frozen=True)
class HandedIn:
    """A class's submissions, ready for `engine.grade_class`."""

    folder: Path  # <student>/<chapter>/<chapter>.ipynb
    layout: Layout
    lines: tuple[Line, ...] = ()  # empty for nbgrader's folders, which are used as they are
    students: tuple[str, ...] = ()  # those to be graded; none: everyone in the folder

    def trouble(self, most: int = 20) -> list[str]:
        """What an instructor should look at: a line a file, of the first `most`."""
        found = [line for line in self.lines if line.note and line.taken != "text"]
        told = []
        for line in found[:most]:
            student = f" ({line.student})" if line.student else ""
            taken = "" if line.taken == "yes" else "not taken: "
            told.append(f"{taken}{harmless.line(line.file, 100)}{student}: {harmless.line(line.note)}")
        return told + ([f"and {len(found) - most} more"] if len(found) > most else [])


@dataclass
class _One:
    """A file and what is known of it."""

    member: Member
    claim: Claim
    student: str
    order: tuple[object, ...]
    when: str = ""
    when_from: str = ""
    notes: list[str] = field(default_factory=list)


def layout_of(folder: Path, chapter: Chapter) -> tuple[Path, Layout]:
    """Who named what lies in a folder, and where in it: the inbound folder of an exchange, else the folder itself."""
    for place in (folder, *sorted(folder.glob("*"))):
        if (place / "inbound").is_dir() and (place / "outbound").is_dir():
            return place / "inbound", Layout.EXCHANGE
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    folders = [name for name, is_folder in found if is_folder]
    for layout in (Layout.MOODLE, Layout.EXCHANGE):
        reader = Reader(layout)
        if any(reader.read((name, "x.ipynb")) for name in folders):
            return folder, layout
    if any(os.path.lexists(folder / name / chapter.name) for name in folders):
        return folder, Layout.NBGRADER  # a download's loose file in it is nobody's
    for layout in (Layout.MOODLE, Layout.CANVAS):
        reader = Reader(layout)
        if any(name.lower().endswith(".ipynb") and reader.read((name,)) for name, is_folder in found if not is_folder):
            return folder, layout
    return folder, Layout.EXCHANGE if folder.name == "inbound" else Layout.NBGRADER


@contextmanager
def gathered(
    source: Path,
    chapter: Chapter,
    *,
    roster: Path | None = None,
    pattern: str = "",
    settled: Callable[[Member], bool] | None = None,
) -> Iterator[HandedIn]:
    """Find the class in `source`: a folder, zip, tar or tar.gz; its files live as long as the block.

    `pattern` is a regular expression as of nbgrader zip_collect. A file that is not `settled` is left for later. Raises
    CourseError, which names the file and the mend; OSError for what is the disk's fault.
    """
    source = Path(source)
    if source.is_dir() and not pattern:
        source, layout = layout_of(source, chapter)
        if layout is Layout.NBGRADER:
            if roster is not None:
                raise CourseError(f"{source}: its folders are the students' ids already; leave --roster out")
            yield HandedIn(source, layout, students=_steady(source, chapter, settled) if settled else ())
            return
    names = Roster(roster) if roster else None
    with archives.opened(source) as members, tempfile.TemporaryDirectory(prefix="across-handed-in-") as folder:
        yield _gather(source, members, chapter, names, pattern, settled or (lambda _: True), Path(folder))


def _steady(source: Path, chapter: Chapter, settled: Callable[[Member], bool]) -> tuple[str, ...]:
    """The students of nbgrader's folders of whom there is something, and none of it is still being written."""
    theirs: dict[str, bool] = {}
    for member in archives.folder(source):
        if member.parts[1:2] == (chapter.name,):
            student = intake.student_name(member.parts[0])
            theirs[student] = theirs.get(student, True) and settled(member)
    return tuple(sorted(student for student, at_rest in theirs.items() if at_rest))


def _gather(
    source: Path,
    members: list[Member],
    chapter: Chapter,
    roster: Roster | None,
    pattern: str,
    settled: Callable[[Member], bool],
    folder: Path,
) -> HandedIn:
    paths = [member.parts for member in members]
    found = (Layout.PATTERN, 0) if pattern else filenames.recognise(paths, chapter.name)
    if found is None and source.name == "inbound":
        found = Layout.EXCHANGE, 0
    if found is None:
        seen = harmless.visible(members[0].path)[:80] if members else "nothing"
        raise CourseError(
            f"{source}: these are no names of Canvas, Moodle, nbgrader's exchange or nbgrader's folders of {chapter.name} "
            f"(the first: {seen}); say how they are made with --name-pattern, as for nbgrader zip_collect"
        )
    layout, above = found
    reader = Reader(layout, pattern)
    lines: list[Line] = []
    claimed: list[tuple[Member, Claim]] = []
    for member in members:
        claim = reader.read(member.parts[above:]) if len(member.parts) > above else None
        if why := _passed_over(member, claim, chapter, layout):
            if why != SILENT:
                taken = "text" if claim and claim.text else "no"
                lines.append(Line(member.path, claim.name if claim else "", taken, note=why))
        elif not settled(member):
            lines.append(Line(member.path, taken="later", note="it is still being written"))
        elif claim:
            claimed.append((member, claim))
    names = _names(claimed, layout)
    stamps = {member.parts: member for member in members if member.parts[-1:] == ("timestamp.txt",)}
    ones: dict[str, list[_One]] = {}
    for at, (member, claim) in enumerate(claimed):
        student, note = roster.find(claim) if roster else (None, "")
        one = _One(member, claim, student or names[claim.name, claim.lms], ())
        _date(one, layout, stamps.get((*member.parts[:-1], "timestamp.txt")))
        one.order = _order(one, layout, chapter, at)
        one.notes += [note] if note else []
        ones.setdefault(one.student, []).append(one)
    left = TOTAL
    for student in sorted(ones):
        newest, *older = sorted(ones[student], key=lambda one: one.order, reverse=True)
        left -= _write(folder, newest, chapter, min(left, chapter.limits.notebook_bytes + 1))
        if older:
            newest.notes.append(f"the newest of {len(older) + 1} files")
        lines.append(_line(newest, "yes"))
        lines += [_line(one, "older") for one in older]
    return HandedIn(folder, layout, tuple(lines), tuple(map(intake.student_name, sorted(ones))))


SILENT = "nothing that a student meant to hand in"


def _passed_over(member: Member, claim: Claim | None, chapter: Chapter, layout: Layout) -> str:
    """Why a file is no submission of the chapter; empty when it is one, be it unreadable."""
    name = member.parts[-1] if member.parts else ""
    if not claim:
        if name in ("timestamp.txt", "submission_secret.txt", ".DS_Store") or member.parts[:1] == ("__MACOSX",):
            return SILENT
        return member.why_not or f"its name is none of {layout}"
    if claim.chapter and claim.chapter != chapter.name:
        return SILENT
    if claim.text:
        return "typed into Moodle's text field: no notebook"
    if not claim.file.lower().endswith(".ipynb"):
        if claim.file in ("timestamp.txt", "submission_secret.txt"):
            return SILENT
        if claim.file.lower().endswith((".zip", ".gz", ".tar", ".7z", ".rar", ".tgz")):
            return "an archive in the archive is not opened; ask for the notebook itself"
        return "no notebook (.ipynb)"
    if layout in (Layout.EXCHANGE, Layout.NBGRADER) and claim.file != f"{chapter.name}.ipynb":
        return f"its name is not {chapter.name}.ipynb"
    return ""


def _names(claimed: list[tuple[Member, Claim]], layout: Layout) -> dict[tuple[str, str], str]:
    """What each student is called. Two of one name are told apart by the system's number."""
    people = {(claim.name, claim.lms) for _, claim in claimed}
    shared = Counter(name for name, _ in people)
    return {
        (name, number): f"{name}_{number}" if number and (layout is Layout.CANVAS or shared[name] > 1) else name
        for name, number in people
    }


def _date(one: _One, layout: Layout, stamp: Member | None) -> None:
    """When it was handed in: timestamp.txt, the name, the member's own time, in this order; and which it was."""
    said = ""
    if stamp and layout in (Layout.EXCHANGE, Layout.NBGRADER):  # in a download a student may have written it
        try:
            said = stamp.read(intake.TIMESTAMP_BYTES).decode("utf-8", "replace").strip()
        except UnreadableError as error:
            one.notes.append(f"timestamp.txt {error}: ignored")
    in_name, in_file = _readable(one.claim.when), _readable(said)
    name = "the folder's name" if layout is Layout.EXCHANGE else "the file's name"
    if in_file and in_name and in_name > in_file:
        one.when, one.when_from = in_name, name
        one.notes.append("its timestamp.txt is older than the folder's name: the name counts")
    elif in_file or intake.DATE.fullmatch(said):
        one.when, one.when_from = in_file or said, "timestamp.txt"
    elif in_name or intake.DATE.fullmatch(one.claim.when):
        one.when, one.when_from = in_name or one.claim.when, name
    elif one.member.time:
        one.when, one.when_from = f"{one.member.time:{FORMAT}}", "the file's own time, taken for UTC"
    if one.claim.late:
        one.notes.append("Canvas says LATE")
    if layout is not Layout.EXCHANGE:
        return
    if not _owned(one):
        one.notes.append(f"its folder belongs to another user ({_user(one.member.owner)}): is it theirs?")
    told, seen = _readable(one.when), one.member.time
    if told and seen and (seen - datetime.strptime(told, FORMAT).replace(tzinfo=UTC)).total_seconds() > SLACK:
        one.notes.append(f"the file is from {seen:%Y-%m-%d %H:%M} UTC, later than that")


def _readable(said: str) -> str:
    """A time in the one form, comparable as text; empty if it is none."""
    shown = said.strip()
    if (date := intake.DATE.fullmatch(shown)) and shown.endswith(("UTC", "Z", "+00:00", "+0000", date[1])):
        shown = date[1]
    elif not (shown := _digits(shown)):
        return ""
    try:
        return f"{datetime.fromisoformat(shown):{FORMAT}}"
    except ValueError:
        return ""


def _digits(said: str) -> str:
    """2016-01-30-15-00-00, as names of files have it."""
    numbers = said.split("-")
    if len(numbers) not in (5, 6) or not all(number.isascii() and number.isdigit() for number in numbers):
        return ""
    return f"{'-'.join(numbers[:3])} {':'.join(numbers[3:])}"


def _user(owner: int | None) -> str:
    try:
        return "unknown" if owner is None else pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}"


def _owned(one: _One) -> bool:
    return one.member.owner is None or _user(one.member.owner) == one.claim.name


def _order(one: _One, layout: Layout, chapter: Chapter, at: int) -> tuple[object, ...]:
    """What makes a file the newest. In an exchange, where anybody may write, the student's own goes before others'."""
    named, number = filenames.rank(one.claim.file, chapter.name)
    if layout is Layout.EXCHANGE:
        return _owned(one), _readable(one.claim.when), at
    changed = f"{one.member.time:{FORMAT}}" if one.member.time else ""
    if not named:
        one.notes.append(f"it is called {harmless.visible(one.claim.file)[:80]}, not {chapter.name}.ipynb")
    return named, _readable(one.claim.when), one.claim.submission, number, changed, at


def _write(folder: Path, one: _One, chapter: Chapter, cap: int) -> int:
    """Write what `intake` reads; returns how many bytes it has."""
    place = folder / one.student / chapter.name
    place.mkdir(parents=True)
    try:
        data = one.member.read(cap)
        if not cap:
            raise UnreadableError(f"the class has more than {TOTAL >> 30} GiB")
    except UnreadableError as error:
        one.notes.insert(0, f"it {error}: marked as invalid")
        data = b""
    (place / f"{chapter.name}.ipynb").write_bytes(data)
    if one.when:
        (place / "timestamp.txt").write_text(one.when, encoding="utf-8")
    return len(data)


def _line(one: _One, taken: str) -> Line:
    student = intake.student_name(one.student)
    return Line(one.member.path, student, taken, one.when, one.when_from, "; ".join(one.notes))


def write_list(out: Path, found: HandedIn) -> Path:
    """Write OUT/handed_in.csv: what became of each file, and why."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in found.lines[:LISTED]:
        writer.writerow([harmless.field(value) for value in vars(line).values()])
    if len(found.lines) > LISTED:
        writer.writerow([f"and {len(found.lines) - LISTED} more files", "", "", "", "", ""])
    return files.replace(Path(out) / "handed_in.csv", text.getvalue().encode())
