"""Watching where submissions arrive: a batch whenever something new lies there and has come to rest.

By looking, not by inotify (`watchfiles`): exchanges and the folders of downloads are mostly on file servers, whose other
users' writes no inotify sees, and a look at 300 submissions takes milliseconds.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from autograder.model.course import Chapter, CourseError
from autograder.submissions import downloads, intake, places
from autograder.submissions.filenames import Reader
from autograder.submissions.handed_in import HandedIn
from autograder.submissions.members import Member

SETTLED = 2.0  # seconds that a file must stay as it is before it is read
LOOK = 0.5  # seconds between two looks; longer where a look takes long: it is a fifth of the time at most

Mark = tuple[int, ...]


class Rest:
    """Which files have come to rest: they were the same for `settle` seconds."""

    def __init__(self, settle: float = SETTLED, clock: Callable[[], float] = time.monotonic) -> None:
        self.settle, self.clock = settle, clock
        self._seen: dict[str, tuple[Mark, float]] = {}

    def look(self, marks: dict[str, Mark]) -> dict[str, Mark]:
        """Take in how the files are now; returns those at rest."""
        now = self.clock()
        self._seen = {
            path: self._seen[path] if self._seen.get(path, ((), 0.0))[0] == mark else (mark, now)
            for path, mark in marks.items()
        }
        return {path: mark for path, (mark, since) in self._seen.items() if now - since >= self.settle}

    def at_rest(self, member: Member) -> bool:
        """Whether a file is still as it was when it came to rest."""
        mark, since = self._seen.get(member.path, ((), 0.0))
        return mark == member.mark and mark != () and self.clock() - since >= self.settle


def batches(
    source: Path,
    chapter: Chapter,
    *,
    names: Reader | None = None,
    seconds: float | None = None,
    settle: float = SETTLED,
    complain: Callable[[str], None] = lambda says: None,
    idle: Callable[[], object] = lambda: None,
    **how: Any,
) -> Iterator[HandedIn]:
    """Yield the class each time that something of it changed and came to rest, until `seconds` are over (None: never).

    `idle` is called at each look that found nothing new; where it returns a true value the class is yielded as it is. What
    cannot be read (an archive that is only half there) is told to `complain`, once, and tried again when it changes. `how`:
    see `downloads.gathered`.
    """
    rest = Rest(settle)
    end = None if seconds is None else time.monotonic() + seconds
    done: dict[str, Mark] = {}
    refused = ""
    while True:
        begun = time.monotonic()
        try:
            still = rest.look(_marks(source, chapter, names))
            refused = ""
        except CourseError as error:  # what lies there is no class yet
            still = {}
            if refused != str(error):
                complain(refused := str(error))
        pause = max(LOOK, 4 * (time.monotonic() - begun))
        # one that is being replaced is no change: it comes when it is at rest again
        if still.items() - done.items() or idle():
            done |= still
            settled = rest.at_rest if Path(source).is_dir() else lambda member: True
            try:
                with downloads.gathered(source, chapter, names=names, settled=settled, **how) as found:
                    yield found
                if time.monotonic() - begun > settle:  # what came meanwhile is seen now, and at rest at the next look
                    rest.look(_marks(source, chapter, names))
                    pause = max(pause, settle)
            except (CourseError, FileNotFoundError) as error:
                complain(str(error))
        left = pause if end is None else end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))


def prints(found: HandedIn, chapter: Chapter) -> dict[str, bytes]:
    """What each student's submission is made of, in few bytes: whose differ from before has to be graded again."""
    made = {}
    for each in intake.collect(found.folder, chapter):
        digest = hashlib.sha256(repr((found.instead.get(each.student), found.doubts.get(each.student))).encode())
        for path in sorted((each.folder / chapter.name).glob("*")):
            data = path.read_bytes()
            digest.update(f"{path.name}\0{len(data)}\0".encode() + data)
        made[each.student] = digest.digest()
    return made


def _marks(source: Path, chapter: Chapter, names: Reader | None) -> dict[str, Mark]:
    try:
        if not Path(source).is_dir():
            status = Path(source).stat()
            return {str(source): (status.st_ino, status.st_size, status.st_mtime_ns)}
        place = places.located(Path(source), chapter, names)
        return {member.path: member.mark for member in places.listed(place, chapter) if member.mark}
    except FileNotFoundError:  # not there yet, or being replaced
        return {}
