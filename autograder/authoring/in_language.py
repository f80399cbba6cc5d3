"""A chapter in another language: `notebooks/zh/NAME.ipynb`, the release with its prose translated, and nothing else changed.

Cell ids, metadata, code and the digest of the release are the English notebook's, so that what is handed in of it is graded
as what is handed in of the other; but for the checksum of an answer in prose, whose stub is translated, too. The words in its
pictures are in `notebooks/zh/.words.json`, for its kernels.

    solutions/zh/NAME.po        a chapter's prose, cell by cell, and (context `code`) the fixed words in its pictures

`tools/translate.py` writes these catalogues. What nobody has translated, or what changed since, is shown in English, which the
cell says, and is no fault.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from across._language import catalogue
from across._language.catalogue import BESIDE, ENGLISH
from autograder.authoring import build, released
from autograder.model import pictures, stubs
from autograder.model.course import Course, CourseError, students

CODE = "code"  # the context of the words in a chapter's pictures
ENGLISH_ONLY = {"zh": "*（这一段还没有中文。）*"}  # stands below a cell that nobody has translated


def prose_file(course: Course, language: str, name: str) -> Path:
    """The catalogue of what a student reads in a chapter's notebook."""
    return course.root / "solutions" / language / f"{name}.po"


def is_translated(course: Course, language: str, name: str) -> bool:
    """Whether somebody has begun to translate a chapter."""
    return prose_file(course, language, name).is_file()


def chapter(course: Course, language: str, name: str, release: NotebookNode | None = None) -> NotebookNode:
    """A chapter as students of a language get it; a cell that nobody has translated is English and says so.

    Raises CourseError.
    """
    from nbgrader.utils import compute_checksum  # 0.5 s

    notebook = copy.deepcopy(release or build.release(course, name))
    prose = {
        pictures.embedded(english, course.root): pictures.embedded(translated, course.root)
        for english, translated in _pairs(course, language, name).items()
    }
    notebook.metadata["across"]["language"] = language
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        if students(cell):
            if cell.source == stubs.PROSE[ENGLISH]:
                cell.source = stubs.PROSE[language]
                cell.metadata["nbgrader"]["checksum"] = compute_checksum(cell)  # Validate knows by it what nobody wrote
        elif cell.source.strip():
            cell.source = prose.get(cell.source) or f"{cell.source}\n\n{ENGLISH_ONLY[language]}"
    nbformat.validate(notebook)
    return notebook


def words(course: Course, language: str, names: Iterable[str]) -> str:
    """The file for kernels: the words in these chapters' pictures, English to translated. Raises CourseError."""
    said: dict[str, str] = {}
    for name in names:
        if is_translated(course, language, name):
            said |= _pairs(course, language, name, CODE)
    return json.dumps(said, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def files(course: Course, names: Iterable[str]) -> dict[Path, bytes]:
    """What students get of these chapters in other languages, from their folder of notebooks, with what lies beside each:
    there a kernel of these starts. Raises CourseError.
    """
    found = dict[Path, bytes]()
    for language in catalogue.LANGUAGES:
        translated = [name for name in names if is_translated(course, language, name)]
        for name in translated:
            found[Path(language) / f"{name}.ipynb"] = build.dumps(chapter(course, language, name)).encode()
            found |= {Path(language) / path: content for path, content in course.beside(name)}
        if translated:
            found[Path(language) / BESIDE] = words(course, language, translated).encode()
    return found


def write(course: Course, check: bool = False) -> list[str]:
    """Build what is not as its sources have it; return these files, from the course's folder. With `check` only say so.

    Raises CourseError.
    """
    wanted = {path.as_posix(): content for path, content in files(course, course.chapters).items()}
    return [f"notebooks/{name}" for name in released.write(course.root / "notebooks", wanted, check)]


def _pairs(course: Course, language: str, name: str, context: str | None = None) -> dict[str, str]:
    try:
        return catalogue.pairs(prose_file(course, language, name), context)
    except ValueError as error:
        raise CourseError(str(error)) from None
