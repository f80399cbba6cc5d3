"""Read what a student handed in: a file that may be anything. What is kept is the source of the answer cells, and of those that
the student added and an answer needs.

Everything else that a notebook can say (tags, metadata, kernelspec, outputs, locked cells, order) is ours and is never
taken from it: see `assemble`. One bad notebook costs only its own grade, a bad cell only its own exercise.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from across._language import catalogue
from across._language.catalogue import ENGLISH
from autograder.model import cells as cells_of
from autograder.model import stubs as stubs_of
from autograder.model.course import Chapter, text
from autograder.model.harmless import UNSEEN
from autograder.model.verdict import NOTHING
from autograder.submissions import added_cells, instead, recovered, student_files
from autograder.submissions.added_cells import Added
from autograder.submissions.student_files import RefusedError

NOTES = 20  # at most, of one submission
MEANING = '\\<>&"*?[]'  # of a student's name
BLANKS = re.compile(r"^ +| +$|(?<= ) +")  # of a student's name: what a page or a table would drop
DIGEST = re.compile(r"\.{3}[0-9a-f]{16}$")  # how a long name ends: no other one may
STUDENT_BYTES = 150  # of a student's name: it becomes the name of a folder
TIMESTAMP_BYTES = 200
BROKEN = re.compile("[\x00\ud800-\udfff]")  # NUL and halves of surrogate pairs: no file or database bears them
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # its byte order marks: some editors save so
DATE = re.compile(  # strict: nbgrader would look for a time zone's file under any name
    r"((?:19|20)\d\d-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)"
    r" ?(?:Z|[+-]\d\d:?\d\d|[A-Za-z]+(?:/[A-Za-z_]+){0,2})?"
)


@dataclass(frozen=True)
class Found:
    """Where a student's notebook of a chapter should lie, whether or not it does."""

    student: str  # the folder's name, made printable: see `student_name`
    folder: Path  # DIR/<student>


@dataclass(frozen=True)
class Submission:
    """What a student handed in, as far as it counts. Plain strings, picklable."""

    student: str
    chapter: str
    answers: dict[str, str] = field(default_factory=dict)  # grade id -> source; ids of `Chapter.answers` only
    invalid: dict[str, str] = field(default_factory=dict)  # grade id -> why that cell cannot be taken, and the mend
    refused: str = ""  # why nothing could be read, and the mend
    timestamp: str | None = None  # when it was handed in: timestamp.txt as nbgrader writes it
    notes: tuple[str, ...] = ()  # what was odd about it and did not count
    other_chapter: str = ""  # whose notebook it is, if it is another chapter's
    added: tuple[Added, ...] = ()  # the student's own cells, as far as they count
    language: str = ENGLISH  # of the notebook, as it says itself: of the student's page, and of nothing that counts
    missing: tuple[str, ...] = ()  # grade ids of the answers whose cells are not in the notebook

    @property
    def nothing(self) -> bool:
        """Whether there was no notebook at all."""
        return not self.refused and any(note.startswith(NOTHING) for note in self.notes)


def collect(folder: Path, chapter: Chapter) -> list[Found]:
    """List the students of `folder`/<student>/<chapter>/<chapter>.ipynb, by name, with or without that file.

    Files in `folder` are nobody's, and so are hidden folders without the chapter. Raises OSError when `folder` itself
    cannot be listed.
    """
    with os.scandir(folder) as entries:
        names = [
            entry.name
            for entry in entries
            if (entry.is_symlink() or entry.is_dir(follow_symlinks=False))
            and (not entry.name.startswith(".") or os.path.lexists(f"{entry.path}/{chapter.name}"))
        ]
    return [Found(student_name(name), Path(folder) / name) for name in sorted(names)]


def student_name(name: str) -> str:
    """Return a folder's name as printable text that can name a folder again; different names stay different.

    Characters that are not seen or not printable (fillers, newlines, bidirectional controls, bytes that are no UTF-8),
    those that HTML or a file pattern gives a meaning (nbgrader's pages put names into HTML as they are), a dot at the
    start, blanks but a single one between words, which a page would not show, and the backslash that marks them are
    written as escapes; what is too long after that ends in a digest.
    """
    shown = "".join(c if c.isprintable() and c not in MEANING and not UNSEEN.match(c) else _escaped(c) for c in name)
    shown = BLANKS.sub(lambda found: r"\x20" * len(found[0]), "\\x2e" + shown[1:] if shown.startswith(".") else shown)
    if len(shown.encode()) <= STUDENT_BYTES and not DIGEST.search(shown):
        return shown
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{shown.encode()[: STUDENT_BYTES - 20].decode(errors='ignore')}...{digest}"


def _escaped(character: str) -> str:
    escape = character.encode("unicode_escape").decode()
    return escape if len(escape) > 1 else f"\\x{ord(character):02x}"


def read(found: Found, chapter: Chapter) -> Submission:
    """Read one submission, whatever its file is: problems are in the value that comes back.

    Raises OSError only for what is no fault of the submission (a disk or file server that fails).
    """
    notes: list[str] = []
    timestamp, refused = None, ""
    try:
        with student_files.folder(found.folder, chapter) as folder:
            if folder is None:
                return Submission(found.student, chapter.name, notes=(f"{NOTHING}: no folder {chapter.name}",))
            timestamp = _timestamp(folder, notes)
            for other in (f"{each}/{chapter.name}.ipynb" for each in catalogue.LANGUAGES):
                if student_files.there(folder, other):  # who works there, and hands in the whole folder
                    notes.append(f"{other} lies beside it and is not read: hand it in as {chapter.name}.ipynb")
            if (data := student_files.notebook(folder, chapter)) is not None:
                return replace(of_bytes(data, chapter, notes), student=found.student, timestamp=timestamp)
            if file := instead.beside(folder, notebooks=not chapter.assignment):
                refused = instead.not_it(student_name(file), chapter)
            else:
                notes.insert(0, f"{NOTHING}: no file {chapter.name}.ipynb")
    except RefusedError as refusal:
        refused = f"{chapter.name}.ipynb: {refusal}"
    return Submission(found.student, chapter.name, refused=refused, timestamp=timestamp, notes=tuple(notes))


def of_bytes(data: bytes, chapter: Chapter, notes: list[str]) -> Submission:
    """What a file holds, nobody's yet; `notes` are those that it has already."""
    language = ENGLISH
    try:
        notebook = _parse(data)
        language = catalogue.of_notebook(notebook)
        cells = stubs_of.in_english(_cells(notebook, chapter, notes), chapter.english)
    except RefusedError as refusal:
        said = {"notes": tuple(notes[:NOTES]), "other_chapter": refusal.other_chapter, "language": language}
        return Submission("", chapter.name, refused=f"{chapter.name}.ipynb: {refusal}", **said)
    if chapter.assignment:
        cells = added_cells.unique(cells)
    cells = recovered.recovered(cells, chapter, notes)
    answers, invalid = _answers(cells, chapter, notes)
    own = added_cells.added(cells, chapter, notes)
    own = tuple((above, kind, BROKEN.sub("\ufffd", source)) for above, kind, source in own)
    added = added_cells.counted(own, answers, chapter, notes)
    missing = tuple(name for name in chapter.answers if name not in answers and name not in invalid)
    told = {"notes": tuple(notes[:NOTES]), "added": added, "language": language}
    return Submission("", chapter.name, answers, invalid, missing=missing, **told)


def _timestamp(folder: int, notes: list[str]) -> str | None:
    try:
        data = student_files.read(folder, "timestamp.txt", TIMESTAMP_BYTES)
    except RefusedError as refusal:
        notes.append(f"timestamp.txt {refusal}: ignored")
        return None
    if data is None:
        return None
    shown = data.decode("utf-8", "replace").strip()
    with contextlib.suppress(ValueError):
        if (date := DATE.fullmatch(shown)) and datetime.fromisoformat(date[1]):
            return shown
    notes.append(f"timestamp.txt holds no date ({_shown(shown)}): ignored")
    return None


def _parse(data: bytes) -> Any:
    """Return the JSON value of a file. Raises RefusedError."""
    mend = "open it in JupyterLab, save it and submit it again"
    if not data.strip():
        raise RefusedError(f"is empty; {mend}")
    if data.startswith(UTF_16):
        with contextlib.suppress(UnicodeDecodeError):
            data = data.decode("utf-16").encode()
    try:
        return json.loads(data.decode("utf-8-sig"), parse_int=_integer, parse_float=_float)
    except UnicodeDecodeError as error:
        raise RefusedError(f"is not UTF-8 text (byte {error.start}); {mend}") from None
    except (RecursionError, MemoryError):
        raise RefusedError(f"is nested too deeply to be a notebook; {mend}") from None
    except ValueError as error:
        raise RefusedError(f"is not JSON ({_shown(str(error))}); {mend}") from None


def _integer(digits: str) -> int:
    """No number of a notebook matters here; a long one would only cost time."""
    return int(digits) if len(digits) < 20 else -1


def _float(digits: str) -> float:
    return float(digits) if len(digits) < 100 else -1.0


def _cells(notebook: Any, chapter: Chapter, notes: list[str]) -> list[Any]:
    """Return the list of cells, whatever is in it. Raises RefusedError."""
    limits = chapter.limits
    if not isinstance(notebook, dict):
        raise RefusedError(f"is {_kind(notebook)}, not a notebook; submit the chapter's own notebook")
    cells = notebook.get("cells")
    if "worksheets" in notebook and cells is None:
        raise RefusedError("is in the old notebook format 3; open it in JupyterLab, save it and submit it again")
    if not isinstance(cells, list):
        raise RefusedError(f"its `cells` is {_kind(cells)}, not a list; submit the chapter's own notebook")
    if len(cells) > limits.cells:
        raise RefusedError(f"has {len(cells)} cells, at most {limits.cells} are read; delete what is not needed")
    if name := instead.other_chapter(notebook, chapter):
        raise RefusedError(instead.wrong(name, chapter), name)
    if type(notebook.get("nbformat")) is not int or notebook["nbformat"] != 4:
        notes.append(f"its notebook format is {_shown(notebook.get('nbformat'))}, not 4: read all the same")
    for key, what in (("kernelspec", "name"), ("across", "release")):
        was, now = (cells_of.within(each, "metadata", key, what) for each in (chapter.release, notebook))
        if now != was:
            notes.append(f"its {key} {what} is {_shown(now)}, ours {_shown(was)}: ours counts")
    return cells


def _answers(cells: list[Any], chapter: Chapter, notes: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Take each answer cell by its grade id. Returns the sources and, for those that cannot be taken, the reasons."""
    stubs, released = chapter.answers, {cells_of.grade_id(cell): cell for cell in chapter.release["cells"]}
    locked = {name: text(cell) for name, cell in released.items() if name is not None and name not in stubs}
    at: dict[str, list[int]] = {}
    odd = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict):
            odd.append(f"cell {number} is {_kind(cell)}, not a cell: ignored")
            continue
        grade_id = cells_of.grade_id(cell)
        if isinstance(grade_id, str) and (grade_id in stubs or grade_id in locked):
            at.setdefault(grade_id, []).append(number)
        elif grade_id is not None:
            odd.append(f"cell {number} has the unknown grade id {_shown(grade_id)}: ignored")
    for grade_id, source in locked.items():
        numbers = at.get(grade_id, [])
        if len(numbers) != 1 or cells_of.source(cells[numbers[0] - 1]) != source:
            notes.append(f'locked cell "{grade_id}" was changed, copied or deleted: ours counts')

    answers, invalid = {}, {}
    for grade_id in stubs:
        numbers = at.get(grade_id, [])
        if not numbers:
            notes.append(f'answer cell "{grade_id}" is missing')
            continue
        kind, cap = released[grade_id]["cell_type"], chapter.limits.cell_bytes
        if reason := _reason([cells[number - 1] for number in numbers], numbers, kind, cap):
            invalid[grade_id] = f'{chapter.name}, cell "{grade_id}": {reason}'
            continue
        source = stubs_of.released(cells_of.source(cells[numbers[0] - 1]) or "", stubs[grade_id])
        answers[grade_id] = BROKEN.sub("\ufffd", source)
        if answers[grade_id] != source:
            notes.append(f'answer cell "{grade_id}" held broken characters (NUL or half a pair): replaced by \ufffd')
    notes += odd
    return answers, invalid


def _reason(cells: list[dict[str, Any]], numbers: list[int], kind: str, cap: int) -> str:
    """Why this answer cannot be taken, and the mend; empty when it can."""
    if len(cells) > 1:
        where = ", ".join(map(str, numbers[:5]))
        return f"{len(cells)} cells have this grade id (cells {where}); keep one, delete the copies"
    if cells[0].get("cell_type") != kind:
        return f'its type is {_shown(cells[0].get("cell_type"))}, expected "{kind}"; change it back'
    source = cells_of.source(cells[0])
    if source is None:
        return f"its source is {_kind(cells[0].get('source'))}, expected text; save the notebook in JupyterLab again"
    size = len(source.encode("utf-8", "surrogatepass"))
    return f"has {size} bytes, at most {cap} are read; shorten it" if size > cap else ""


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "missing"}
    return names.get(type(value), "a number")


def _shown(value: Any) -> str:
    """A value of the file in a message: short, one line, nothing that a terminal or a database obeys."""
    if not isinstance(value, str):
        return repr(value) if value is None or isinstance(value, bool | int | float) else _kind(value)
    short = value if len(value) <= 60 else value[:57] + "..."
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short) + '"'
