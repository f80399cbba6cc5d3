"""Students' pages into nbgrader's exchange as they are made, as `nbgrader release_feedback` puts them there.

A page is called by a hash of the secret that `nbgrader submit` left with its notebook, in a folder that others may enter and
not list: who has no secret of a submission finds no page of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from nbgrader.utils import notebook_hash

from autograder.gradebook import receipts
from autograder.model import harmless
from autograder.model.course import Chapter, CourseError
from autograder.report import feedback
from autograder.store import files

ENTERED, READ = 0o711, 0o644


def folder(source: Path) -> Path:
    """The folder for pages of the exchange that `source` (the course's folder in it, or `inbound` there) is, made if missing.

    Raises CourseError if it is no exchange, or the folder another user's or one that others may write.
    """
    course = source.parent if source.name == "inbound" else source
    if not (course / "inbound").is_dir():
        raise CourseError(f"{source}: no folder of nbgrader's exchange; --release-feedback needs one as --submissions")
    place = course / "feedback"
    try:
        place.mkdir(mode=ENTERED)
        place.chmod(ENTERED)
    except FileExistsError:
        pass
    except OSError as error:
        raise CourseError(files.says(error)) from None
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise CourseError(f"{place}: another user's; whoever owns it could read and replace every page there")
    # where several grade, nbgrader's `groupshared`, the folder is their group's, and set-group-id says so
    if found.st_mode & (stat.S_IWOTH if found.st_mode & stat.S_ISGID else stat.S_IWOTH | stat.S_IWGRP):
        raise CourseError(f"{place}: others may write there, and so replace every page; chmod 711 it")
    return place


def give(place: Path, out: Path, chapter: Chapter, students: Iterable[str]) -> list[str]:
    """Put the pages of these students there; what could not be put, a line each."""
    troubles = []
    for student in sorted(students):
        secret = receipts.own(out, chapter.name, student)
        page = files.read(feedback.path(out, chapter.name, student))
        if not secret or page is None:
            why = "no page" if secret else "handed in without a secret of its own, by which nbgrader finds a page"
            troubles.append(f"{harmless.line(student)}: {why}")
            continue
        name = notebook_hash(secret=secret, notebook_id=chapter.name)
        files.replace(place / f"{name}.html", page, READ).chmod(READ)  # whatever our umask is
    return troubles
