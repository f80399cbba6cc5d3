"""What lies in a student's folder, which that student may have written: no link is followed, nothing is read past a cap."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from autograder.model.course import Chapter
from autograder.submissions import members

CONTENT_ERRORS = {errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO}


class RefusedError(Exception):
    """The file cannot be read at all; the message says why and the mend."""

    def __init__(self, why: str, other_chapter: str = "") -> None:
        super().__init__(why)
        self.other_chapter = other_chapter


@contextlib.contextmanager
def folder(student: Path, at: Chapter) -> Iterator[int | None]:
    """Open the first of a chapter's folders of a student's that there is, never through a link; None when there is none.

    Without any the student's own folder will do, if a notebook of the chapter's lies directly in it.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    opened: list[int] = []
    chapter = at.name
    try:
        opened.append(os.open(student, flags))
        chapter = next((name for name in at.folders if there(opened[0], name)), chapter)
        if not there(opened[0], chapter) and any(there(opened[0], file) for _, file in at.handed_in_as):
            chapter = "."
        opened.append(os.open(chapter, flags, dir_fd=opened[0]))
        yield opened[1]
    except OSError as error:
        if len(opened) == 2 or error.errno not in CONTENT_ERRORS:
            raise
        if error.errno == errno.ENOENT and opened:
            yield None
            return
        what = f"the folder {chapter}" if opened else "the student's folder"
        raise RefusedError(f"{what} {_trouble(error)}; submit a plain folder") from None
    finally:
        for fd in opened:
            os.close(fd)


def there(folder: int, name: str) -> bool:
    """Whether a folder has something of that name, whatever it is."""
    with contextlib.suppress(OSError):
        os.lstat(name, dir_fd=folder)
        return True
    return False


def notebook(folder: int, chapter: Chapter) -> bytes | None:
    """Read the chapter's notebook; None when there is none. Raises RefusedError, OSError."""
    found = (read(folder, file, chapter.limits.notebook_bytes) for _, file in chapter.handed_in_as)
    return next((data for data in found if data is not None), None)


def read(folder: int, name: str, cap: int) -> bytes | None:
    """Read a regular file of at most `cap` bytes; None when there is none. Raises RefusedError, OSError."""
    try:
        if not stat.S_ISREG(os.lstat(name, dir_fd=folder).st_mode):  # opening a device may already do something
            raise RefusedError("is not a plain file (a link, folder, pipe or device); submit the notebook itself")
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        if error.errno in CONTENT_ERRORS:
            raise RefusedError(f"{_trouble(error)}; submit a plain file that can be read") from None
        raise
    with open(fd, "rb", buffering=0) as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise RefusedError("is not a plain file; submit the notebook itself")
        data = b"" if status.st_size > cap else members.capped(file, cap + 1)
        size = max(status.st_size, len(data))
    if size > cap:
        raise RefusedError(f"has {size} bytes, at most {cap} are read; clear the outputs (Kernel > Restart and Clear)")
    return data


def _trouble(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "is a symbolic link or no folder"
    return f"cannot be read ({os.strerror(error.errno or 0)})"
