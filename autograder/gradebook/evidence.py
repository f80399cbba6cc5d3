"""What marks rest on, kept for years: every verdict that was ever recorded, its answers, and what it was graded by.

A row is added with each verdict, in its transaction, and none is ever changed. What it was graded by lies in OUT/evidence, each
file once, named by its SHA-256: a list that says which commit of the course it was, which limits and digests, and by name which
files: the checks with their listed answers, the chapter's source and release, the course's settings, the lock of its versions.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
import zlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import func, insert, select, true
from sqlalchemy.engine import Connection

from autograder.gradebook import replay, tables
from autograder.gradebook.schema import EVIDENCE, SECRETS
from autograder.gradebook.tables import Gradebook
from autograder.model import course as courses
from autograder.model.course import Course, CourseError
from autograder.model.rubric import Rubric
from autograder.model.verdict import Verdict
from autograder.store import files
from autograder.submissions.intake import Submission

FOLDER = "evidence"  # in OUT
LOCK, CODE = "uv.lock", ("autograder", "lib")  # in a checkout of the harness
GIT = 10.0  # seconds that git may take to say which commit it is


@dataclass(frozen=True)
class Basis:
    """What a chapter was graded by in one run."""

    chapter: str
    commit: str  # of the course's folder; empty: it is in no repository of git's
    changed: bool  # whether something of it had been changed since that commit
    parts: dict[str, str]  # digests, as in `Rubric.parts`
    limits: dict[str, Any]  # fields of `course.Limits`
    gpus: int
    simulated: bool
    sandboxed: bool
    files: dict[str, str]  # name -> SHA-256: a file of OUT/evidence


@dataclass(frozen=True)
class Kept:
    """A verdict as it was recorded at a moment."""

    moment: str  # UTC, ISO 8601
    timestamp: str | None
    verdict: Verdict  # without its notebook
    answers: Submission | None  # None: not kept
    basis: str  # the name of its list in OUT/evidence; empty: not kept


def basis(out: Path, course: Course, rubric: Rubric) -> str:
    """Keep what `rubric` was made from in OUT, and return the name of its list. Raises OSError."""
    chapter = rubric.chapter
    sources = [course.source(chapter.name), *course.check_sources(chapter.name)]
    sources += [course.root / courses.FILE, course.root / LOCK]
    found = {}
    for path in filter(Path.is_file, sources):
        name = path.relative_to(course.root) if path.is_relative_to(course.root) else path.name
        found[str(name)] = path.read_bytes()
    found[f"release/{chapter.name}.ipynb"] = replay.as_bytes(replay.released(chapter.release))
    found |= {f"files/{name}": content for name, content in chapter.files}
    code = [path for path in map(course.root.__truediv__, CODE) if path.is_dir()]
    commit, changed = _commit(course.root, [*sources, *code])
    made = Basis(
        chapter.name,
        commit,
        changed,
        rubric.parts,
        asdict(chapter.limits),
        chapter.gpus,
        chapter.simulated,
        rubric.sandboxed,
        {name: _keep(out, content) for name, content in sorted(found.items())},
    )
    return _keep(out, json.dumps(asdict(made), sort_keys=True, indent=1).encode())


def read_basis(out: Path, name: str) -> Basis | None:
    """The list of that name; None where it is gone or no such list."""
    try:
        content = (Path(out) / FOLDER / name).read_bytes()
        return msgspec.json.decode(content, type=Basis) if hashlib.sha256(content).hexdigest() == name else None
    except (OSError, msgspec.MsgspecError):
        return None


def add(
    connection: Connection, verdict: Verdict, timestamp: str | None, answers: Submission | None, basis: str
) -> None:
    """Add a verdict; in the transaction that records it. One recorded again without its answers has those of the one before."""
    handed_in, rests_on = b"", basis
    if answers is not None:
        handed_in = _packed(msgspec.to_builtins(answers))
    elif before := _last(connection, verdict.chapter, verdict.student):
        handed_in, rests_on = bytes(before.answers), before.basis
    values = {
        "chapter": verdict.chapter,
        "student": verdict.student,
        "moment": datetime.now(UTC).isoformat(timespec="seconds"),
        "digest": verdict.digest,
        "timestamp": timestamp,
        "verdict": _packed(verdict.to_json()),
        "answers": handed_in,
        "basis": rests_on,
    }
    connection.execute(insert(EVIDENCE).values(values))


def at(book: Gradebook, chapter: str, student: str, moment: datetime | None = None) -> Kept:
    """What was recorded of a student at a moment, or last.

    Raises CourseError if nothing had been, ValueError if it cannot be read.
    """
    with book.reading() as connection:
        row = _last(connection, chapter, student, EVIDENCE.c.moment <= stamp(moment) if moment else true())
    if row is None:
        when = f" on {stamp(moment)}" if moment else ""
        raise CourseError(
            f"{chapter}: no verdict of {student!r} is kept that stood{when}; `grade` keeps those that it gives"
        )
    return _read(row)


def answers(connection: Connection, chapter: str, student: str) -> Submission | None:
    """What was recorded last of a student's answers; None where nothing is kept, or it cannot be read."""
    row = _last(connection, chapter, student)
    with suppress(ValueError, LookupError, TypeError, zlib.error):
        return _answers(row) if row is not None else None
    return None


def latest(book: Gradebook, chapter: str) -> tuple[dict[str, Submission], str]:
    """What is kept of each student's answers as they stand, and what the newest verdict rests on: the name of its list."""
    newest = select(func.max(EVIDENCE.c.id)).where(EVIDENCE.c.chapter == chapter).group_by(EVIDENCE.c.student)
    with book.reading() as connection:
        rows = connection.execute(select(EVIDENCE).where(EVIDENCE.c.id.in_(newest)).order_by(EVIDENCE.c.id)).all()
    found = {row.student: answers for row in rows if (answers := _answers(row))}
    return found, next((row.basis for row in reversed(rows) if row.basis), "")


def every(connection: Connection, chapter: str, students: Collection[str] | None) -> dict[str, list[Kept]]:
    """All that was recorded of everyone, or of these students, oldest first, but what cannot be read."""
    query = select(EVIDENCE).where(EVIDENCE.c.chapter == chapter).order_by(EVIDENCE.c.id)
    if students is not None:
        query = query.where(EVIDENCE.c.student.in_(students))
    found: dict[str, list[Kept]] = {}
    for row in connection.execute(query):
        with suppress(ValueError, LookupError, TypeError, zlib.error):
            found.setdefault(row.student, []).append(_read(row))
    return found


def _read(row: Any) -> Kept:
    verdict = Verdict.from_json(tables.unpacked(row.verdict, "it"), {})
    return Kept(row.moment, row.timestamp, verdict, _answers(row), row.basis)


def _answers(row: Any) -> Submission | None:
    try:
        return msgspec.convert(tables.unpacked(row.answers, "it"), Submission) if row.answers else None
    except msgspec.ValidationError as error:
        raise ValueError(f"no submission: {error}") from None


def codes(book: Gradebook, out: Path, chapter: str) -> dict[tuple[str, str], str]:
    """The codes of the pages of a chapter: of each verdict that is kept, by student and digest; none where there is no secret.

    A code is of this verdict alone, and guessed by nobody.
    """
    with book.reading() as connection:
        made = connection.execute(select(SECRETS.c.value).where(SECRETS.c.name == "seed")).scalar()
        rows = connection.execute(
            select(EVIDENCE.c.student, EVIDENCE.c.digest).where(EVIDENCE.c.chapter == chapter)
        ).all()
    key = bytes(made) if made else files.read(Path(out) / files.SEED)
    return {} if key is None else {(who, digest): _code(key, chapter, who, digest) for who, digest in rows}


def _code(key: bytes, chapter: str, student: str, digest: str) -> str:
    drawn = hmac.digest(key, f"contest\0{chapter}\0{student}\0{digest}".encode(), "sha256")
    letters = base64.b32encode(drawn[:5]).decode().lower()
    return f"{letters[:4]}-{letters[4:]}"


def coded(book: Gradebook, out: Path, chapter: str, code: str) -> tuple[Kept, bool] | None:
    """The verdict that a code is of, and whether it still stands; None for no code of this chapter."""
    found = [key for key, its in codes(book, out, chapter).items() if its == code]
    if not found:
        return None
    (student, digest) = found[0]
    with book.reading() as connection:
        its = _last(connection, chapter, student, EVIDENCE.c.digest == digest)
        return _read(its), its == _last(connection, chapter, student)


def stamp(moment: datetime) -> str:
    """A moment as rows have it: they are compared as text."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _last(connection: Connection, chapter: str, student: str, *which: Any) -> Any:
    query = select(EVIDENCE).where(EVIDENCE.c.chapter == chapter, EVIDENCE.c.student == student, *which)
    return connection.execute(query.order_by(EVIDENCE.c.id.desc()).limit(1)).one_or_none()


def _packed(value: object) -> bytes:
    return zlib.compress(json.dumps(value).encode("ascii"), 6)


def _keep(out: Path, content: bytes) -> str:
    name = hashlib.sha256(content).hexdigest()
    path = Path(out) / FOLDER / name
    if not path.exists():
        files.replace(path, content, mode=0o600)  # checks and solutions are in it
    return name


def _commit(root: Path, sources: Sequence[Path]) -> tuple[str, bool]:
    """The commit of a course's folder, and whether one of its `sources` is another by now; empty where git knows of none."""
    named = [str(path) for path in sources if path.is_relative_to(root)]
    commit, changed = _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain", "--", *named)
    return ("", False) if commit is None or changed is None else (commit, bool(changed))


def repository(root: Path) -> tuple[Path, Path]:
    """The folder of the repository that a course's folder is in, and where in it."""
    top, place = (_git(root, "rev-parse", f"--show-{what}") for what in ("toplevel", "prefix"))
    return (root, Path()) if top is None or place is None else (Path(top), Path(place))


def _git(root: Path, *arguments: str) -> str | None:
    """What git says of a folder; None where it is missing, slow, or knows nothing of it."""
    command, none = ["git", "-C", str(root), *arguments], subprocess.DEVNULL
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT, check=True, stdin=none)
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
