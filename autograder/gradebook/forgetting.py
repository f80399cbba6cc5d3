"""Everything that is kept of one student goes: rows, files, lines; what else in OUT has the name is told."""

from __future__ import annotations

import csv
import json
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import MissingEntry
from sqlalchemy import Table, delete, select, text
from sqlalchemy.engine import Connection

from autograder.gradebook import database, schema, tables
from autograder.model import harmless
from autograder.model.course import CourseError
from autograder.store import files, log

FOLDERS = ("submitted", "autograded", "feedback")
SEARCHED = 64 << 20  # bytes of a file that is searched for the name
SHORT = 4  # characters: a shorter name is too often a word; it is looked for in lists, pages and archives alone
LISTS = (".csv", ".html", ".zip")
TERM = "term.html"  # of the whole class, from term.toml: `autograder term` writes it again


@dataclass(frozen=True)
class Kept:
    """What is kept of a student."""

    chapters: tuple[str, ...]  # that were graded
    folders: tuple[Path, ...]
    tables: tuple[Path, ...]  # CSV files with lines of theirs
    pages: tuple[Path, ...] = ()  # of the class, that are not made from the gradebook alone


def kept(out: Path, student: str, course: str) -> Kept:
    """What is kept of a student. Raises CourseError where that is nothing, with the nearest name."""
    if not database.exists(out):
        raise CourseError(f"{out}: nothing was graded there")
    folders = tuple(
        place for step in FOLDERS if harmless.names_a_folder(student) and (place := out / step / student).is_dir()
    )
    held = tuple(path for path in sorted(out.rglob("*.csv")) if _lines(path, student)[1])
    with tables.opened(out, course) as book, book.reading() as connection:
        found = {
            chapter
            for table in _ours()
            for chapter in connection.scalars(select(table.c.chapter).where(table.c.student == student))
        }
        with suppress(MissingEntry):
            found |= {each.assignment.name for each in book.find_student(student).submissions}
    if not (found or folders or held):
        raise CourseError(f"{out}: nothing is kept of a student {student!r}")
    return Kept(tuple(sorted(found)), folders, held, tuple(path for path in (out / TERM,) if path.is_file()))


def forget(out: Path, student: str, course: str) -> None:
    """Remove what is kept of a student.

    What was removed from a SQLite gradebook is not in its file any more. The pages of the class are to be written anew.
    Raises CourseError where nothing is kept, files.BusyError, OSError, GradebookError.
    """
    with files.only_writer(out):
        found = kept(out, student, course)
        with tables.opened(out, course) as book:
            with book.transaction() as connection:
                for table in _ours():
                    take_out(connection, table, student)
                with suppress(MissingEntry):
                    book.remove_student(student)
            if not database.shared(book.url):
                with book.engine.connect() as connection:
                    connection.exec_driver_sql("VACUUM")
        for folder in found.folders:
            shutil.rmtree(folder)
        for path in found.tables:
            files.replace_table(path, _lines(path, student)[0], mode=path.stat().st_mode & 0o777)
        for path in found.pages:
            path.unlink()
        _forget_in_log(out / log.NAME, student)


def _ours() -> list[Table]:
    """Our own tables that hold lines of a student."""
    return [table for table in schema.TABLES.sorted_tables if "student" in table.c]


def take_out(connection: Connection, table: Table, student: str) -> None:
    """Take a student's lines out of a table, in a transaction; as the law may ask, of those that are only added to, too."""
    name, dialect = table.name, connection.dialect.name
    if table in schema.ADDED_TO:
        rule = f"{name}_DELETE"
        connection.execute(text(f"DROP TRIGGER {rule}" if dialect == "sqlite" else f"DROP RULE {rule} ON {name}"))
    connection.execute(delete(table).where(table.c.student == student))
    if table in schema.ADDED_TO:
        connection.execute(text(schema.KEPT[dialect].format(name=name, verb="DELETE")))


def _lines(path: Path, student: str) -> tuple[list[list[str]], int]:
    """The rows of a CSV file without those whose column `student` (or `id`) says this one, and how many these are."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
    except (OSError, ValueError, csv.Error):
        return [], 0
    columns = [i for i, name in enumerate(rows[0]) if name in ("student", "id")] if rows else []
    named = {harmless.field(student)}
    if harmless.unfield(student) == student:  # else it is how another's name is written
        named.add(student)
    rest = [row for row in rows if not any(i < len(row) and row[i] in named for i in columns)]
    return rest, len(rows) - len(rest)


def _forget_in_log(path: Path, student: str) -> None:
    if not path.exists():
        return
    rest = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        with suppress(ValueError):
            if json.loads(line).get("student") == student:
                continue
        rest.append(line)
    files.replace(path, "".join(rest).encode())


def mentions(out: Path, student: str) -> list[Path]:
    """The files in OUT that have the name as a word of its own; a name of three characters is looked for in LISTS alone."""
    word = re.compile(rb"(?<![\w-])" + re.escape(student.encode("utf-8", "replace")) + rb"(?![\w-])")
    found = []
    for path in sorted(out.rglob("*")):
        if path.is_file() and not path.is_symlink() and (len(student) >= SHORT or path.suffix in LISTS):
            with suppress(OSError), path.open("rb") as file:
                if word.search(file.read(SEARCHED)):
                    found.append(path)
    return found
