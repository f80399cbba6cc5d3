"""Where the course's chapters are: the notebooks that students open."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from across._language import catalogue
from across._language.catalogue import said

COPY = re.compile(r"(-Copy\d*| \(\d+\))+$")  # how JupyterLab and browsers mark a second file of a name


class NoSuchChapter(LookupError):  # noqa: N818 - reads as the sentence it is
    """There is no such chapter here; the message says which there are."""


class NoSuchLanguage(LookupError):  # noqa: N818 - reads as the sentence it is
    """Nothing of the course is in that language; the message says what there is."""


class NotHandedOut(LookupError):  # noqa: N818 - reads as the sentence it is
    """Nothing here has the notebook as it was handed out; the message has the mend."""


def speak(language: str) -> None:
    """Have this process, and the kernels that it starts, speak a language; "" leaves it as it is. Raises NoSuchLanguage."""
    if language and language != catalogue.ENGLISH and language not in catalogue.LANGUAGES:
        there = ", ".join(f"{name} ({called})" for name, called in catalogue.LANGUAGES.items())
        raise NoSuchLanguage(f"--lang {language}: there are en (English), {there}")
    if language:
        os.environ[catalogue.VARIABLE] = language


def folder() -> Path:
    """The folder of the notebooks: of $ACROSS_COURSE, of the working folder or one above it, or of this checkout.

    Raises NoSuchChapter if there is none.
    """
    chosen = os.environ.get("ACROSS_COURSE")
    working_folder = Path.cwd()
    places = (
        [Path(chosen)] if chosen else [working_folder, *working_folder.parents, Path(__file__).resolve().parents[3]]
    )
    for place in places:
        if any((place / "notebooks").glob("[0-9][0-9]_*.ipynb")):
            return (place / "notebooks").resolve()
    raise NoSuchChapter(
        said("no folder notebooks/ with chapters in {0}; start in the course's folder", chosen or working_folder)
    )


def course_title() -> str:
    """What the course is called, as course.toml says, or in what was handed out its pyproject.toml; "" if nothing does."""
    for file, *keys in (("course.toml",), ("pyproject.toml", "tool", "across", "released")):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            told: Any = tomllib.loads((folder().parent / file).read_text(encoding="utf-8"))
            for key in (*keys, "title"):
                told = told[key]
            return str(told)
    return ""


def names() -> list[str]:
    """Every chapter, in order; a copy of one that is here, a student's backup, is none. Raises NoSuchChapter."""
    here = {path.stem: path for path in folder().glob("[0-9][0-9]_*.ipynb")}
    numbers = Counter(name[:2] for name in here)
    twice = (name for name in here if numbers[name[:2]] > 1)  # the other files need not be read
    copies = {name for name in twice if {COPY.sub("", name), own_name(here[name])} - {name} & here.keys()}
    return sorted(here.keys() - copies)


def own_name(path: Path) -> str:
    """What the chapter in a notebook is called, as it says itself; else as its file, without a copy's mark."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["metadata"]["across"]["chapter"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # a student's file
        return COPY.sub("", path.stem)


def notebooks(name: str) -> dict[str, Path]:
    """A chapter's notebooks by their language, English first. Raises NoSuchChapter."""
    found = {each: folder() / each / f"{name}.ipynb" for each in catalogue.LANGUAGES}
    return {catalogue.ENGLISH: folder() / f"{name}.ipynb"} | {
        each: path for each, path in found.items() if path.is_file()
    }


def devices(name: str) -> int:
    """How many devices a chapter can use, as its notebook says; 1 if it does not. Raises NoSuchChapter."""
    try:
        metadata = json.loads((folder() / f"{name}.ipynb").read_text(encoding="utf-8"))["metadata"]
        return int(metadata["across"]["devices"])
    except (OSError, ValueError, KeyError, TypeError):  # a student's file
        return 1


def simulates(name: str) -> bool:
    """Whether a chapter simulates GPUs where there are none, as its notebook says. Raises NoSuchChapter."""
    try:
        return "gpus_or_cpus(" in (folder() / f"{name}.ipynb").read_text(encoding="utf-8")
    except (OSError, ValueError):  # a student's file
        return False


def find(name: str) -> Path:
    """The notebook that `name` means: `03_device_placement`, `device_placement`, `03`, `3` or its path.

    Raises NoSuchChapter.
    """
    if name.endswith(".ipynb") and Path(name).is_file():
        return Path(name).resolve()
    called, there = Path(name).stem, names()
    if (whole := folder() / f"{called}.ipynb").is_file() and called not in there:  # a copy, which was asked for
        return whole
    numbered = [full for full in there if called in (full[:2], full[:2].removeprefix("0"), full[3:])]
    matching = [called] if called in there else numbered
    if len(matching) > 1:
        several = ", ".join(matching)
        raise NoSuchChapter(said("{0} is {1} notebooks: {2}; name one in full.", repr(name), len(matching), several))
    if not matching:
        raise NoSuchChapter(said("no chapter {0}; there are: {1}", repr(name), ", ".join(there)))
    other = folder() / catalogue.current() / f"{matching[0]}.ipynb"
    return other if other.is_file() else folder() / other.name
