"""The members of a zip that others wrote: listed with what is wrong with each, and read with a cap.

Nothing is extracted: names never become paths, links are never followed, archives in archives stay closed. nbgrader's own
`ExtractorPlugin` unpacks all of it, nested archives included, with no limit, which is why it is not used here.
"""

from __future__ import annotations

import errno
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autograder.model.limits import MIB, CourseError
from autograder.submissions import members
from autograder.submissions.members import Member, Owner, Parts, Quota, UnreadableError

DIRECTORY = 128 * MIB  # one read of a zip: its directory, of about a million members
RATIO, SMALL = 250, 16 * MIB  # a member that unpacks to more than SMALL, and to RATIO times its size, is a bomb
DOS = 0  # the system on which a zip was made, as it says: only there a backslash parts folders
BROKEN = (  # what the library raises for what is wrong with an archive
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    NotImplementedError,
    RuntimeError,  # a password
)


@contextmanager
def opened(source: Path) -> Iterator[Zip]:
    """Open a zip: it says what its members are called, then gives as many of each student's as a quota takes.

    These can be read within the block. Raises CourseError, which names the source and the mend, when it is none or broken;
    OSError for what is the disk's fault.
    """
    with ExitStack() as stack:
        file: Any = stack.enter_context(_Bounded(source))
        if file.read(4) not in (b"PK\3\4", b"PK\5\6"):
            raise CourseError(f"{source}: neither a folder nor a zip; unpack it and give the folder")
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
        except BROKEN as error:
            mend = "download it again, or unpack it and give the folder"
            raise CourseError(f"{source}: the archive cannot be read ({_says(error)}); {mend}") from error
        yield Zip(archive)


def _says(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


@contextmanager
def _careful() -> Iterator[None]:
    """A read of the libraries', whose errors say what is wrong with this member only."""
    try:
        yield
    except BROKEN as error:
        raise UnreadableError(f"is damaged ({_says(error)})") from None
    except OSError as error:
        if error.errno == errno.EIO:
            raise
        raise UnreadableError(f"is damaged ({error.strerror or error})") from None


class _Bounded(io.FileIO):
    """A file of which no more than DIRECTORY is read at once: the library reads what an archive claims."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(DIRECTORY + 1 if size is None or size < 0 else min(size, DIRECTORY + 1))
        if len(data) > DIRECTORY:
            raise ValueError(f"a directory of more than {DIRECTORY // MIB} MiB")
        return data


class Zip:
    """A zip, whose directory has been read whole."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        infos = archive.infolist()
        by_place = sorted(infos, key=lambda info: info.header_offset)
        ends = [info.header_offset for info in by_place[1:]] + [1 << 62]
        self._ends = dict(zip(map(id, by_place), ends, strict=False))
        self._infos = [info for info in infos if not info.is_dir()]

    def names(self) -> list[Parts]:
        """The names of all its files, in parts; those that are not to be trusted have none."""
        return [_zip_name(info)[1] for info in self._infos]

    def members(self, owner: Owner) -> list[Member]:
        """Its files, in its own order, as many of each `owner` as one may have."""
        quota = Quota(owner)
        made: list[Member] = []
        for info in self._infos:
            path, parts, why = _zip_name(info)
            refused = quota.refused(path, parts)
            made += [self._member(info, path, parts, why)] if refused is None else refused
        return made

    def _member(self, info: zipfile.ZipInfo, path: str, parts: Parts, why: str) -> Member:
        if not why and info.flag_bits & 0x1:
            why = "is encrypted; ask for it without a password"
        if not why and info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            why = f"is compressed by a method that is not read ({info.compress_type})"
        if not why and (mode := info.external_attr >> 16) and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
            why = "is no plain file (a link or a device)"
        if not why and info.header_offset + info.compress_size > self._ends[id(info)]:
            why = "overlaps another file of the archive"
        if not why and info.file_size > max(SMALL, RATIO * info.compress_size):
            why = f"unpacks to {info.file_size} bytes from {info.compress_size}: no notebook does"

        def read(cap: int) -> bytes:
            with _careful(), self._archive.open(info) as file:
                return members.capped(file, cap)

        return Member(path, parts, members.cannot(why) if why else read, _zip_time(info), why, size=info.file_size)


def _zip_name(info: zipfile.ZipInfo) -> tuple[str, Parts, str]:
    """A member's path, its parts, and what is wrong with it."""
    path = info.orig_filename
    if not info.flag_bits & 0x800:
        try:
            path = path.encode("cp437").decode("utf-8")
        except UnicodeError:
            path = info.orig_filename
    return path, *members.parted(path, info.create_system == DOS and "/" not in path)


def _zip_time(info: zipfile.ZipInfo) -> datetime | None:
    extra = info.extra
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind == 0x5455 and size >= 5 and len(extra) >= 9 and extra[4] & 1:  # Info-ZIP's: seconds, UTC
            return members.moment(struct.unpack_from("<i", extra, 5)[0])
        extra = extra[4 + size :]
    try:
        return datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        return None
