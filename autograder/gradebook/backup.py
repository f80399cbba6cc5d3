"""A copy of a class in one file, taken while nobody grades: to be unpacked elsewhere and used as it was."""

from __future__ import annotations

import os
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url

from autograder.gradebook import database
from autograder.model.course import CourseError
from autograder.store import files

SUFFIXES = (".tar.gz", ".tgz")
LEFT_OUT = (".new", "-journal", "-wal", "-shm")  # what a killed writer left, and what belongs to an open database


@dataclass(frozen=True)
class Backup:
    """What was written."""

    path: Path
    files: int
    bytes: int
    elsewhere: str  # the URL of a gradebook that lies on a server, without its password: not in the file


def write(out: Path, to: Path) -> Backup:
    """Write all of OUT into the archive `to`, which only we may read; the database as it is between two transactions.

    Raises CourseError where there is no class in OUT or `to` lies in it or is no .tar.gz, files.BusyError, OSError.
    """
    out, to = Path(out).absolute(), Path(to).absolute()
    if not to.name.endswith(SUFFIXES):
        raise CourseError(f"{to}: an archive is written; call it {to.name}.tar.gz")
    if to.is_relative_to(out):
        raise CourseError(f"{to}: that is in {out}, of which it is to be the copy; give a file elsewhere")
    if not database.exists(out):
        raise CourseError(f"{out}: nothing was graded there, so there is nothing to keep")
    url = make_url(database.locate(out))
    ours = Path(url.database or "").absolute() if url.get_backend_name() == "sqlite" else None
    new = to.with_name(f".{to.name}.new")
    count = 0
    try:
        with files.only_writer(out), tempfile.TemporaryDirectory(dir=to.parent) as place:
            new.unlink(missing_ok=True)
            with (
                open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as raw,
                tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as archive,
            ):
                for path in _files(out):
                    if path != ours:
                        archive.add(path, path.relative_to(out), recursive=False)
                        count += 1
                if ours is not None:
                    archive.add(_copied(ours, Path(place, "copy.db")), "gradebook.db")
                    count += 1
        os.replace(new, to)
    finally:
        new.unlink(missing_ok=True)
    elsewhere = "" if ours is not None else url.render_as_string(hide_password=True)
    return Backup(to, count, to.stat().st_size, elsewhere)


def _files(out: Path) -> Iterator[Path]:
    """Every regular file in OUT, in an order that does not change; no link is followed."""
    for folder, names, found in os.walk(out):
        names.sort()
        for name in sorted(found):
            path = Path(folder, name)
            if name != files.LOCK and not name.endswith(LEFT_OUT) and path.is_file() and not path.is_symlink():
                yield path


def _copied(path: Path, to: Path) -> Path:
    """A copy of a SQLite database, whole though somebody (the formgrader) may write it meanwhile: SQLite's backup API."""
    with closing(sqlite3.connect(path, timeout=database.BUSY)) as source, closing(sqlite3.connect(to)) as copy:
        source.backup(copy)
    return to
