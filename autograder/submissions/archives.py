"""The members of a zip or tar that others wrote: listed with what is wrong with each, and read with a cap.

Nothing is extracted: names never become paths, links are never followed, archives in archives stay closed. nbgrader's own
`ExtractorPlugin` unpacks all of it, nested archives included, with no limit, which is why it is not used here.
Only zip and tar(.gz) are opened: xz and bzip2 let an archive choose how much memory reading it takes.
"""

from __future__ import annotations

import errno
import gzip
import io
import stat
import struct
import tarfile
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

HEADER = 32 * MIB  # one read of a tar: its extended header
DIRECTORY = 128 * MIB  # one read of a zip: its directory, of about a million members
EXPANDED = 4 << 30  # bytes of a tar.gz once unpacked
RATIO, SMALL = 250, 16 * MIB  # a zip member that unpacks to more than SMALL, and to RATIO times its size, is a bomb
DOS = 0  # the system on which a zip was made, as it says: only there a backslash parts folders
BROKEN = (  # what the two libraries raise for what is wrong with an archive
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    NotImplementedError,
    RuntimeError,  # a password; RecursionError, a long chain of tar headers
)


@contextmanager
def opened(source: Path) -> Iterator[_Zip | _Tar]:
    """Open a zip, tar or tar.gz: it says what its members are called, then gives as many of each student's as a quota takes.

    These can be read within the block. Raises CourseError, which names the source and the mend, when it is none of these or
    broken from the start; OSError for what is the disk's fault.
    """
    with ExitStack() as stack:
        with sound(source):
            archive = _opened(Path(source), stack)
        yield archive


@contextmanager
def sound(source: Path) -> Iterator[None]:
    """Raise CourseError for what is wrong with an archive as a whole."""
    try:
        yield
    except BROKEN as error:
        raise CourseError(f"{source}: the archive is broken ({_says(error)}); download it again") from error


def _says(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _opened(source: Path, stack: ExitStack) -> _Zip | _Tar:
    with open(source, "rb") as file:
        start = file.read(512)
    if start[:4] in (b"PK\3\4", b"PK\5\6"):
        return _Zip(source, stack)
    if start[:2] == b"\x1f\x8b":
        return _Tar(stack.enter_context(gzip.open(source)))
    if start[257:262] == b"ustar":
        return _Tar(stack.enter_context(io.FileIO(source)))
    raise CourseError(f"{source}: neither a folder nor a zip, tar or tar.gz; unpack it and give the folder")


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


class _Bounded(io.RawIOBase):
    """A file of which no more than `most` is read at once, and EXPANDED in all: libraries read what an archive claims.

    With `legacy`, the zip's directory is given out with its names marked as not UTF-8: one name that lies about it would
    cost the whole class.
    """

    def __init__(self, file: Any, most: int = HEADER, legacy: bool = False) -> None:
        self.file, self.most, self.legacy = file, most, legacy

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0 and offset > EXPANDED and not isinstance(self.file, io.FileIO):
            raise ValueError(f"it unpacks to more than {EXPANDED >> 30} GiB")
        return self.file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(self.most + 1 if size is None or size < 0 else min(size, self.most + 1))
        if len(data) > self.most:
            raise ValueError(f"a header of more than {self.most // MIB} MiB")
        if not isinstance(self.file, io.FileIO) and self.file.tell() > EXPANDED:
            raise ValueError(f"it unpacks to more than {EXPANDED >> 30} GiB")
        if self.legacy and data.startswith(b"PK\1\2"):
            self.legacy = False
            return _unmarked(data)
        return data


def _unmarked(directory: bytes) -> bytes:
    made, at = bytearray(directory), 0
    while made[at : at + 4] == b"PK\1\2" and at + 46 <= len(made):
        made[at + 9] &= ~0x08  # bit 11 of the flags: the name is UTF-8
        at += 46 + sum(struct.unpack_from("<HHH", made, at + 28))
    return bytes(made)


class _Zip:
    """A zip, whose directory is read whole."""

    def __init__(self, source: Path, stack: ExitStack) -> None:
        file = stack.enter_context(io.FileIO(source))
        try:
            self._archive = zipfile.ZipFile(_Bounded(file, DIRECTORY))  # pyright: ignore[reportArgumentType]
        except UnicodeDecodeError:
            file.seek(0)
            bounded = _Bounded(file, DIRECTORY, legacy=True)
            self._archive = zipfile.ZipFile(bounded)  # pyright: ignore[reportArgumentType]
        stack.enter_context(self._archive)
        infos = self._archive.infolist()
        by_place = sorted(infos, key=lambda info: info.header_offset)
        ends = [info.header_offset for info in by_place[1:]] + [1 << 62]
        self._ends = dict(zip(map(id, by_place), ends, strict=False))
        self._infos = [info for info in infos if not info.is_dir()]

    def names(self) -> Iterator[Parts]:
        """The names of all its files, in parts; those that are not to be trusted have none."""
        return (_zip_name(info)[1] for info in self._infos)

    def members(self, owner: Owner) -> list[Member]:
        """Its files, in its own order, as many of each `owner` as one may have."""
        quota = Quota(owner)
        made: list[Member] = []
        for info in self._infos:
            path, parts, why = _zip_name(info)
            refused = quota.refused(path, parts)
            its = (self._archive, info, path, parts, why, self._ends[id(info)])
            made += [_zipped(*its)] if refused is None else refused
        return made


def _zip_name(info: zipfile.ZipInfo) -> tuple[str, Parts, str]:
    """A member's path, its parts, and what is wrong with it."""
    path = info.orig_filename
    if not info.flag_bits & 0x800:
        try:
            path = path.encode("cp437").decode("utf-8")
        except UnicodeError:
            path = info.orig_filename
    return path, *members.parted(path, info.create_system == DOS and "/" not in path)


def _zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str, parts: Parts, why: str, end: int) -> Member:
    if not why and info.flag_bits & 0x1:
        why = "is encrypted; ask for it without a password"
    if not why and info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        why = f"is compressed by a method that is not read ({info.compress_type})"
    if not why and (mode := info.external_attr >> 16) and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        why = "is no plain file (a link or a device)"
    if not why and info.header_offset + info.compress_size > end:
        why = "overlaps another file of the archive"
    if not why and info.file_size > max(SMALL, RATIO * info.compress_size):
        why = f"unpacks to {info.file_size} bytes from {info.compress_size}: no notebook does"

    def read(cap: int) -> bytes:
        with _careful(), archive.open(info) as file:
            return members.capped(file, cap)

    return Member(path, parts, members.cannot(why) if why else read, _zip_time(info), why, size=info.file_size)


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


class _Tar:
    """A tar, which is gone through twice: what an archive may hold without number is not kept."""

    def __init__(self, file: Any) -> None:
        self._file = _Bounded(file)
        self._opened()

    def _opened(self) -> tarfile.TarFile:
        self._file.seek(0)
        bounded: Any = self._file
        return tarfile.open(fileobj=bounded, mode="r:", errors="surrogateescape")

    def names(self) -> Iterator[Parts]:
        try:
            for info in _infos(self._opened()):
                yield members.parted(info.name)[0]
        except (OSError, *BROKEN) as error:  # told by `members`
            if getattr(error, "errno", None) == errno.EIO:
                raise

    def members(self, owner: Owner) -> list[Member]:
        quota, archive, path = Quota(owner), self._opened(), ""
        made: list[Member] = []
        try:
            for info in _infos(archive):
                path = info.name
                parts, why = members.parted(path)
                refused = quota.refused(path, parts)
                made += [_tarred(archive, info, parts, why)] if refused is None else refused
        except (OSError, *BROKEN) as error:
            if not made or getattr(error, "errno", None) == errno.EIO:
                raise
            why = f"the archive is broken after this file ({_says(error)}): what follows is lost"
            made.append(Member(path, (), members.cannot(why), why_not=why))
        return made


def _infos(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Its files, none of which it keeps. Raises ReadError where it ends before its end, which tarfile does not tell."""
    while info := archive.next():
        archive.members.clear()  # pyright: ignore[reportAttributeAccessIssue]
        if not info.isdir():
            yield info
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("no header where one should be")


def _tarred(archive: tarfile.TarFile, info: tarfile.TarInfo, parts: Parts, why: str) -> Member:
    if not why and (not info.isreg() or info.issparse()):
        why = "is no plain file (a link, a device or a file with holes)"

    def read(cap: int) -> bytes:
        with _careful():
            file = archive.extractfile(info)
            return b"" if file is None else members.capped(file, cap)

    return Member(
        info.name, parts, members.cannot(why) if why else read, members.moment(info.mtime), why, size=info.size
    )
