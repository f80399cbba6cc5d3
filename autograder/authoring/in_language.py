"""A chapter in another language: `notebooks/zh/NAME.ipynb`, the release with its prose translated, and nothing else changed.

Cell ids, metadata, code and the digest of the release are the English notebook's, so that what is handed in of it is graded
as what is handed in of the other; but for the checksum of an answer in prose, whose stub is translated, too. The words in its
pictures are in `notebooks/zh/.words.json`, for its kernels.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from across._language.catalogue import BESIDE, ENGLISH
from autograder.authoring import build, catalogues
from autograder.model import stubs
from autograder.model.course import Course, CourseError, students
from autograder.store import files as store


def chapter(course: Course, language: str, name: str, release: NotebookNode | None = None) -> NotebookNode:
    """A chapter as students of a language get it; a cell that nobody has translated is English. Raises CourseError."""
    from nbgrader.utils import compute_checksum  # 0.5 s

    notebook = copy.deepcopy(release or build.release(course, name))
    prose = _read(lambda: catalogues.prose(course, language, name))
    notebook.metadata["across"]["language"] = language
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        if students(cell):
            if cell.source == stubs.PROSE[ENGLISH]:
                cell.source = stubs.PROSE[language]
                cell.metadata["nbgrader"]["checksum"] = compute_checksum(cell)  # Validate knows by it what nobody wrote
        else:
            cell.source = prose.get(cell.source, cell.source)
    nbformat.validate(notebook)
    return notebook


def words(course: Course, language: str, names: Iterable[str]) -> str:
    """The file for kernels: the words in these chapters' pictures, English to translated. Raises CourseError."""
    said: dict[str, str] = {}
    for name in names:
        said |= _read(lambda name=name: catalogues.code(course, language, name))
    return json.dumps(said, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def files(course: Course) -> dict[Path, str]:
    """Every file of the course's other languages, as its sources have it now. Raises CourseError."""
    found = {}
    for language in catalogues.languages(course):
        folder = course.root / "notebooks" / language
        names = [name for name in course.chapters if catalogues.is_translated(course, language, name)]
        for name in names:
            found[folder / f"{name}.ipynb"] = build.dumps(chapter(course, language, name))
        found[folder / BESIDE] = words(course, language, names)
    return found


def of_chapter(course: Course, name: str) -> dict[Path, str]:
    """What students get of one chapter in other languages, from their folder of notebooks. Raises CourseError."""
    found = {}
    for language in catalogues.languages(course):
        if catalogues.is_translated(course, language, name):
            found[Path(language) / f"{name}.ipynb"] = build.dumps(chapter(course, language, name))
            found[Path(language) / BESIDE] = words(course, language, [name])
    return found


def write(course: Course, check: bool = False) -> list[str]:
    """Build what is not as its sources have it; return these files, from the course's folder. With `check` only say so.

    Raises CourseError.
    """
    changed = []
    for path, text in files(course).items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        changed.append(path.relative_to(course.root).as_posix())
        if not check:
            store.replace(path, text.encode())
    return changed


def _read(read: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
    try:
        return read()
    except ValueError as error:
        raise CourseError(str(error)) from None
