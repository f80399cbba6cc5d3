"""The gettext catalogues of a course's chapters: which there are, and what they say. `tools/translate.py` writes them.

    solutions/zh/NAME.po        a chapter's prose, cell by cell, and (context `code`) the fixed words in its pictures

What nobody has translated, or what changed since, is shown in English, and no fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from across._language import catalogue
from autograder.model.course import Course

CODE = "code"  # the context of the words in a chapter's pictures


def languages(course: Course) -> list[str]:
    """The languages that a course has catalogues of."""
    return [each for each in catalogue.LANGUAGES if any((course.root / "solutions" / each).glob("*.po"))]


def prose_file(course: Course, language: str, name: str) -> Path:
    """The catalogue of what a student reads in a chapter's notebook."""
    return course.root / "solutions" / language / f"{name}.po"


def is_translated(course: Course, language: str, name: str) -> bool:
    """Whether somebody has begun to translate a chapter."""
    return prose_file(course, language, name).is_file()


def prose(course: Course, language: str, name: str) -> Mapping[str, str]:
    """A chapter's prose: English cell to translated cell. Raises ValueError."""
    return catalogue.pairs(prose_file(course, language, name))


def code(course: Course, language: str, name: str) -> Mapping[str, str]:
    """The fixed words in a chapter's pictures: English to translated. Raises ValueError."""
    return catalogue.pairs(prose_file(course, language, name), CODE)
