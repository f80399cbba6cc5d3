"""The members of a folder, zip or tar that others wrote: listed with what is wrong with each, and read with a cap.

Nothing is extracted: names never become paths, links are never followed, archives in archives stay closed. nbgrader's own
`ExtractorPlugin` unpacks all of it, nested archives included, with no limit, which is why it is not used here.
Only zip and tar(.gz) are opened: xz and bzip2 let an archive choose how much memory reading it takes.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from autograder.model.course import MIB, CourseError

MEMBERS = 200_000  # of one source
NAME = 1000  # characters of a member's path
DEPTH = 6  # folders below a folder
HEADER = 32 * MIB  # one read: a zip's directory, a tar's extended header
EXPANDED = 4 << 30  # bytes of a tar.gz once unpacked
RATIO, SMALL = 250, MIB  # a zip member that unpacks to more than SMALL, and to RATIO times its size, is a bomb
PIECE = 1 << 16
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


class UnreadableError(Exception):
    """A member cannot be read; the message says why."""


@dataclass(frozen=True)
class Member:
    """A file, or what is in the place of one. `read` takes a cap in bytes and raises UnreadableError."""

    path: str  # as the source gives it: any characters
    parts: tuple[str, ...]  # of the path; empty where the path is not to be trusted
    read: Callable[[int], bytes]
    time: datetime | None = None  # last changed, in UTC; a zip's clock is taken for UTC where it does not say
    why_not: str = ""  # what is wrong with it
    mark: tuple[int, ...] = ()  # a folder's file: changes when the file does
    owner: int | None = None  # a folder's file: the user that its folder belongs to


@contextmanager
def opened(source: Path) -> Iterator[list[Member]]:
    """List the members of a folder, zip, tar or tar.gz; they can be read within the block.

    Raises CourseError, which names the source and the mend, when it is none of these or broken from the start; OSError
    for what is the disk's fault.
    """
    with ExitStack() as stack:
        try:
            members = _listed(Path(source), stack)
        except BROKEN as error:
            says = " ".join(str(error).split()) or type(error).__name__
            raise CourseError(f"{source}: the archive is broken ({says[:200]}); download it again") from error
        yield members


def _listed(source: Path, stack: ExitStack) -> list[Member]:
    if source.is_dir():
        return folder(source)
    with open(source, "rb") as file:
        start = file.read(512)
    if start[:4] in (b"PK\3\4", b"PK\5\6"):
        return _zip(source, stack)
    if start[:2] == b"\x1f\x8b":
        return _tar(source, stack.enter_context(gzip.open(source)))
    if start[257:262] == b"ustar":
        return _tar(source, stack.enter_context(open(source, "rb")))
    raise CourseError(f"{source}: neither a folder nor a zip, tar or tar.gz; unpack it and give the folder")


def _parts(path: str) -> tuple[tuple[str, ...], str]:
    """A member's path in parts, or no parts and what is wrong with it."""
    if len(path) > NAME:
        return (), f"its name has {len(path)} characters, at most {NAME} are read"
    if "\0" in path:
        return (), "its name holds a NUL"
    parts = tuple(part for part in path.replace("\\", "/").split("/") if part not in ("", "."))
    if path.startswith(("/", "\\")) or ".." in parts or (parts and parts[0][1:] == ":"):
        return (), "its name leads out of the archive"
    if any(len(os.fsencode(part)) > 255 for part in parts if _encodable(part)):
        return (), "its name is too long for a file"
    if not all(map(_encodable, parts)):
        return (), "its name cannot be written as a file's"
    return parts, "" if parts else "it has no name"


def _encodable(part: str) -> bool:
    try:
        return bool(os.fsencode(part))
    except UnicodeEncodeError:
        return False


def _too_many(source: Path, count: int) -> None:
    if count > MEMBERS:
        raise CourseError(f"{source}: more than {MEMBERS} files; take out what is no submission")


# folders


def folder(source: Path) -> list[Member]:
    """List the files below a folder. Raises OSError if it cannot be listed."""
    made: list[Member] = []
    _walk(source, source, (), made)
    return made


def _walk(source: Path, place: Path, above: tuple[str, ...], made: list[Member]) -> None:
    try:
        with os.scandir(place) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        owner = os.stat(place, follow_symlinks=False).st_uid
    except OSError as error:
        if not above:
            raise
        made.append(Member("/".join(above), above, _cannot(why := f"cannot be opened ({error.strerror})"), why_not=why))
        return
    for entry in found:
        parts = (*above, entry.name)
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:  # taken away meanwhile
            continue
        _too_many(source, len(made))
        if stat.S_ISDIR(status.st_mode) and len(parts) <= DEPTH:
            _walk(source, place / entry.name, parts, made)
            continue
        why = "" if stat.S_ISREG(status.st_mode) else "is no plain file (a link, a pipe, a device or too deep a folder)"
        made.append(
            Member(
                "/".join(parts),
                parts,
                _cannot(why) if why else _beneath(source, parts),
                _moment(status.st_mtime),
                why,
                (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns),
                owner,
            )
        )


def _beneath(source: Path, parts: tuple[str, ...]) -> Callable[[int], bytes]:
    def read(cap: int) -> bytes:
        """Every folder on the way is opened as a folder: what was swapped for a link meanwhile is not followed."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        fds = [os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        try:
            for part in parts[:-1]:
                fds.append(os.open(part, flags | os.O_DIRECTORY, dir_fd=fds[-1]))
            fds.append(os.open(parts[-1], flags | os.O_NONBLOCK, dir_fd=fds[-1]))
            if not stat.S_ISREG(os.fstat(fds[-1]).st_mode):
                raise UnreadableError("is no plain file")
            with open(fds.pop(), "rb") as file:
                return _capped(file, cap)
        except OSError as error:
            if error.errno == errno.EIO:
                raise
            raise UnreadableError(f"cannot be read ({error.strerror})") from None
        finally:
            for fd in fds:
                os.close(fd)

    return read


def _cannot(why: str) -> Callable[[int], bytes]:
    def read(cap: int) -> bytes:
        raise UnreadableError(why)

    return read


def _capped(file: IO[bytes], cap: int) -> bytes:
    pieces: list[bytes] = []
    while cap > 0 and (piece := file.read(min(PIECE, cap))):
        pieces.append(piece)
        cap -= len(piece)
    return b"".join(pieces)


def _moment(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _careful(read: Callable[[], bytes]) -> bytes:
    """A read of the libraries', whose errors say what is wrong with this member only."""
    try:
        return read()
    except BROKEN as error:
        raise UnreadableError(f"is damaged ({' '.join(str(error).split())[:200] or type(error).__name__})") from None
    except OSError as error:
        if error.errno == errno.EIO:
            raise
        raise UnreadableError(f"is damaged ({error.strerror or error})") from None


# zip and tar


class _Bounded(io.RawIOBase):
    """A file of which no more than HEADER is read at once, and EXPANDED in all: libraries read what an archive claims.

    With `legacy`, the zip's directory is given out with its names marked as not UTF-8: one name that lies about it would
    cost the whole class.
    """

    def __init__(self, file: Any, legacy: bool = False) -> None:
        self.file, self.legacy = file, legacy

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
        data = self.file.read(HEADER + 1 if size is None or size < 0 else min(size, HEADER + 1))
        if len(data) > HEADER:
            raise ValueError(f"a header of more than {HEADER // MIB} MiB")
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


def _zip(source: Path, stack: ExitStack) -> list[Member]:
    file = stack.enter_context(io.FileIO(source))
    try:
        archive = zipfile.ZipFile(_Bounded(file))  # pyright: ignore[reportArgumentType]
    except UnicodeDecodeError:
        file.seek(0)
        archive = zipfile.ZipFile(_Bounded(file, legacy=True))  # pyright: ignore[reportArgumentType]
    stack.enter_context(archive)
    infos = archive.infolist()
    _too_many(source, len(infos))
    by_place = sorted(infos, key=lambda info: info.header_offset)
    ends = dict(zip(map(id, by_place), [info.header_offset for info in by_place[1:]] + [1 << 62], strict=False))
    return [_zipped(archive, info, ends[id(info)]) for info in infos if not info.is_dir()]


def _zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, end: int) -> Member:
    path = info.orig_filename
    if not info.flag_bits & 0x800:
        try:
            path = path.encode("cp437").decode("utf-8")
        except UnicodeError:
            path = info.orig_filename
    parts, why = _parts(path)
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

    def take(cap: int) -> bytes:
        def read() -> bytes:
            with archive.open(info) as file:
                return _capped(file, cap)

        return _careful(read)

    return Member(path, parts, _cannot(why) if why else take, _zip_time(info), why)


def _zip_time(info: zipfile.ZipInfo) -> datetime | None:
    extra = info.extra
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind == 0x5455 and size >= 5 and len(extra) >= 9 and extra[4] & 1:  # Info-ZIP's: seconds, UTC
            return _moment(struct.unpack_from("<i", extra, 5)[0])
        extra = extra[4 + size :]
    try:
        return datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        return None


def _tar(source: Path, file: Any) -> list[Member]:
    bounded: Any = _Bounded(file)
    archive = tarfile.open(fileobj=bounded, mode="r:", errors="surrogateescape")  # noqa: SIM115 - `file` is what is closed
    made: list[Member] = []
    try:
        for info in archive:
            _too_many(source, len(made))
            if not info.isdir():
                made.append(_tarred(archive, info))
    except (OSError, *BROKEN) as error:
        if not made or getattr(error, "errno", None) == errno.EIO:
            raise
        why = f"the archive is broken after this file ({' '.join(str(error).split())[:200]}): what follows is lost"
        made.append(Member(made[-1].path, (), _cannot(why), why_not=why))
    return made


def _tarred(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    parts, why = _parts(info.name)
    if not why and (not info.isreg() or info.issparse()):
        why = "is no plain file (a link, a device or a file with holes)"

    def take(cap: int) -> bytes:
        def read() -> bytes:
            file = archive.extractfile(info)
            return b"" if file is None else _capped(file, cap)

        return _careful(read)

    return Member(info.name, parts, _cannot(why) if why else take, _moment(info.mtime), why)
