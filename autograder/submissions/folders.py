"""The files below a folder that others may write while it is read: links are never followed, nobody's files stop it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from autograder.submissions import members
from autograder.submissions.members import Member, Owner, Parts, Quota, UnreadableError

DEPTH = 6  # folders below a folder
WHY = "is no plain file (a link, a pipe, a device or too deep a folder)"


def top(source: Path) -> list[tuple[str, bool]]:
    """What lies directly in a folder, by name, and whether it is a folder. Raises OSError if it cannot be listed."""
    with os.scandir(source) as entries:
        return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)


def listed(source: Path, wanted: Callable[[str], bool], owner: Owner) -> list[Member]:
    """List the files of a folder, and those below its folders that are `wanted` by name.

    What is named last comes first where there are too many, as an exchange names what is new; a student's own file comes
    before those in folders below it. Raises OSError if the folder itself cannot be listed.
    """
    made: list[Member] = []
    quota = Quota(owner)
    with _opened(source) as within:
        above = os.fstat(within).st_uid
        for name, is_folder in reversed(top(source)):
            if not is_folder:
                made += _file(source, within, (name,), quota, above)
            elif wanted(name):
                made += _below(source, within, (name,), quota)
    return sorted(made, key=lambda member: member.parts)


@contextlib.contextmanager
def _opened(folder: Path | str, within: int | None = None) -> Iterator[int]:
    """A folder, as a folder where it lies `within` one: what was swapped for a link meanwhile is not followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if within is None else os.O_NOFOLLOW)
    fd = os.open(folder, flags, dir_fd=within)
    try:
        yield fd
    finally:
        os.close(fd)


def _below(source: Path, within: int, parts: Parts, quota: Quota) -> Iterator[Member]:
    """The files below one folder, which lies in the one that is opened."""
    path = "/".join(parts)
    with contextlib.ExitStack() as stack:
        try:
            owner = os.stat(parts[-1], dir_fd=within, follow_symlinks=False).st_uid
            if not quota.see(parts, owner):
                return
            folder = stack.enter_context(_opened(parts[-1], within))
            with os.scandir(folder) as entries:
                found = sorted(
                    (entry.is_dir(follow_symlinks=False), entry.name) for entry in islice(entries, members.SEEN + 1)
                )
        except FileNotFoundError:  # taken away meanwhile
            return
        except OSError as error:
            yield _unseen(path, (*parts, "?"), "opened", error)
            return
        for is_folder, name in found:
            below = (*parts, name)
            if not quota.see(below, owner):
                yield from quota.beyond(f"{path}/{name}", below, owner)
                return
            if is_folder and len(below) <= DEPTH:
                yield from _below(source, folder, below, quota)
            else:
                yield from _file(source, folder, below, quota, owner)


def _unseen(path: str, parts: Parts, what: str, error: OSError) -> Member:
    """In place of a file that cannot be looked at: its student's fault. Raises the error that is the disk's."""
    if error.errno == errno.EIO:
        raise error
    why = f"cannot be {what} ({error.strerror})"
    return Member(path, parts, members.cannot(why), why_not=why)


def _file(source: Path, within: int, parts: Parts, quota: Quota, owner: int) -> Iterator[Member]:
    path = "/".join(parts)
    if (refused := quota.refused(path, parts, owner)) is not None:
        yield from refused
        return
    try:
        status = os.stat(parts[-1], dir_fd=within, follow_symlinks=False)
    except FileNotFoundError:  # taken away meanwhile
        return
    except OSError as error:
        yield _unseen(path, parts, "looked at", error)
        return
    why = "" if stat.S_ISREG(status.st_mode) else WHY
    yield Member(
        path,
        parts,
        members.cannot(why) if why else _beneath(source, parts),
        members.moment(status.st_mtime),
        why,
        (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns),
        owner,
        status.st_size,
    )


def _beneath(source: Path, parts: Parts) -> Callable[[int], bytes]:
    def read(cap: int) -> bytes:
        try:
            with contextlib.ExitStack() as stack:
                within = stack.enter_context(_opened(source))
                for part in parts[:-1]:
                    within = stack.enter_context(_opened(part, within))
                fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=within)
                stack.callback(os.close, fd)
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise UnreadableError("is no plain file")
                with open(fd, "rb", closefd=False) as file:
                    return members.capped(file, cap)
        except OSError as error:
            if error.errno == errno.EIO:
                raise
            raise UnreadableError(f"cannot be read ({error.strerror})") from None

    return read
