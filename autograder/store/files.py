"""The files of OUT: each written whole or not at all, by one grader at a time; and what to say when the disk will not."""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import io
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from autograder.model.course import CourseError

SEED = ".seed"  # in OUT: the class's secret
LOCK = ".lock"  # in OUT; held by flock, so it ends with its holder, however that ends
LOOK = 0.2  # seconds between two looks at a lock that another holds
ENDED = "wait until it has ended, or give another --out"
AGAIN = "then run the same command again: what was graded is kept"
MENDS = {
    errno.ENOSPC: f"make room on that disk, {AGAIN}",
    errno.EDQUOT: f"make room in your quota, {AGAIN}",
    errno.EFBIG: f"raise the limit on the size of files (ulimit -f), {AGAIN}",
    errno.EROFS: f"make it writable or give another folder, {AGAIN}",
    errno.EACCES: f"give yourself the right to it or give another folder, {AGAIN}",
    errno.EPERM: f"give yourself the right to it or give another folder, {AGAIN}",
    errno.EIO: f"that disk fails: copy the folder to a sound one, {AGAIN}",
}


class BusyError(CourseError):
    """Another grader writes into the same folder."""


def says(error: OSError) -> str:
    """An error of the disk's in one line: the path, what was wrong and, where we know it, the mend."""
    if error.errno is None or not error.strerror:
        return str(error)
    place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes, os.PathLike)) else ""
    mend = MENDS.get(error.errno, "")
    return f"{place}{error.strerror}" + (f"; {mend}" if mend else "")


def replace(path: Path, data: bytes, mode: int = 0o644) -> Path:
    """Write a file whole or not at all, and return its path. Raises OSError that names it.

    What a killed writer left half-written lies beside it under one fixed name, which the next writer takes.
    """
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        os.replace(new, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        # write(2) and close(2) fail without a name; what is told is the file that was meant, not the one beside it
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path


def replace_table(path: Path, rows: Iterable[Iterable[object]], mode: int = 0o644) -> Path:
    """Write a CSV file as `replace` does."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return replace(path, text.getvalue().encode(), mode)


def read(path: Path) -> bytes | None:
    """What a file holds; None where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


_GUARD = threading.Lock()
_HELD: dict[Path, tuple[int, int]] = {}  # a lock -> (its descriptor, how often this process holds it)


def only_writer(out: Path) -> AbstractContextManager[None]:
    """Hold OUT for this process, making the folder if there is none. May be nested.

    Raises BusyError, at once, while another process holds it; OSError if OUT cannot be used.
    """
    return _held(Path(out).absolute() / LOCK, "writes")


def only_watcher(out: Path, chapter: str) -> AbstractContextManager[None]:
    """The same of one who watches a chapter into OUT, and only now and then writes there."""
    return _held(Path(out).absolute() / f"{LOCK}_{chapter}", f"watches {chapter}")


@contextlib.contextmanager
def _held(lock: Path, does: str) -> Iterator[None]:
    with _GUARD:
        if lock in _HELD:
            fd, times = _HELD[lock]
            _HELD[lock] = fd, times + 1
        else:
            _HELD[lock] = _locked(lock, does), 1
    try:
        yield
    finally:
        with _GUARD:
            fd, times = _HELD.pop(lock)
            if times > 1:
                _HELD[lock] = fd, times - 1
            else:
                # closed alone, it would stay locked while a process that another thread forked just now has it open, too
                fcntl.flock(fd, fcntl.LOCK_UN)
                os.close(fd)


@contextlib.contextmanager
def patient_writer(out: Path, seconds: float, told: Callable[[str], None]) -> Iterator[None]:
    """As `only_writer`, but wait for another process, up to so many seconds; the first time `told` gets who holds OUT."""
    end, first = time.monotonic() + seconds, True
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(only_writer(out))
                break
            except BusyError as error:
                if time.monotonic() >= end:
                    raise
                if first:
                    told(str(error).removesuffix(f"; {ENDED}"))
                first = False
            time.sleep(LOOK)
        yield


def _locked(lock: Path, does: str) -> int:
    out = lock.parent
    out.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        out.mkdir(mode=0o700)  # marks and answers of a whole class: whoever shall read them is let in by hand
    fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise BusyError(f"{out}: another grader (process {who}) {does} there; {ENDED}") from None
    except OSError:
        os.close(fd)
        raise
    with contextlib.suppress(OSError):  # a full disk: the lock holds, nameless
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
