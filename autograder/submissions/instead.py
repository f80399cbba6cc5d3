"""What was handed in instead of a chapter's notebook: another chapter's, or a file that is no notebook."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from autograder.model import headers
from autograder.model.cells import grade_id, within
from autograder.model.course import Chapter

CHAPTER = re.compile(r"[0-9][0-9]_[a-z0-9_]{1,100}|[A-Za-z][A-Za-z0-9_]{0,100}")
BESIDE = {"timestamp.txt", "submission_secret.txt"}  # nbgrader's own
LOOKED_AT = 100  # files of a student's folder


def other_chapter(notebook: Mapping[str, Any], chapter: Chapter) -> str:
    """The chapter whose notebook it says that it is, if that is not ours; empty where all of our answer cells are in it."""
    name = within(notebook, "metadata", "across", "chapter")
    if not isinstance(name, str) or name == chapter.name or not CHAPTER.fullmatch(name):
        return ""
    there = {each for cell in notebook.get("cells", ()) if isinstance(each := grade_id(cell), str)}
    return "" if chapter.answers.keys() <= there else name


def wrong(name: str, chapter: Chapter) -> str:
    """What is wrong with another chapter's notebook, and the mend."""
    if headers.NUMBERED.match(name) and headers.NUMBERED.match(chapter.name):
        return f"this is chapter {name[:2]}'s notebook ({name}); hand in chapter {chapter.name[:2]}'s"
    return f"this is the notebook of {name}; hand in that of {chapter.name}"


def short(name: str) -> str:
    """`03` of `03_device_placement`; of an imported chapter all of its name."""
    return name[:2] if headers.NUMBERED.match(name) else name


def called(name: str) -> str:
    """`chapter 03's (03_device_placement)`."""
    return f"chapter {short(name)}'s ({name})" if short(name) != name else f"{name}'s"


def not_it(file: str, chapter: Chapter) -> str:
    """What is wrong with a file that is not the chapter's notebook, and the mend; `file` is shown as it is."""
    mend = f"call it {chapter.name}.ipynb" if file.endswith(".ipynb") else f"hand in the notebook {chapter.name}.ipynb"
    return f"handed in {file}; {mend}"


def mostly(chapters: Collection[str]) -> tuple[str, int]:
    """The other chapter of which most of these notebooks are, and how many; `chapters` has "" for ours. ("", 0) if none.

    One alone is a slip of its student's.
    """
    if not chapters:
        return "", 0
    name, count = Counter(chapters).most_common(1)[0]
    return (name, count) if name and count > 1 and 2 * count > len(chapters) else ("", 0)


def beside(folder: int, *, notebooks: bool = True) -> str:
    """A file in a student's folder of a chapter (by its descriptor), a notebook if there is one; empty if there is none.

    Without `notebooks` these are not looked at: an assignment of nbgrader's may have several.
    """
    with os.scandir(folder) as entries:
        names = [
            entry.name
            for entry in itertools.islice(entries, LOOKED_AT)
            if entry.name not in BESIDE and not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
            if notebooks or not entry.name.endswith(".ipynb")
        ]
    return min(names, key=lambda name: (not name.endswith(".ipynb"), name), default="")
