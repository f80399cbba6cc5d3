"""What tasks wrote: the end of each file, whose it is, where a dump in it says that a program stands, what time it was."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from across._cluster_doctor import config
from across._cluster_doctor.config import Config
from across._cluster_doctor.facts import Frame, Log

HEAD, TAIL = 1 << 16, 1 << 17  # bytes of a file that are read
FILES = 64  # of a folder
SUFFIXES = ("", ".log", ".txt", ".out", ".err", ".stdout", ".stderr")
TASK = re.compile(r"(?<![a-z])(chief|worker|ps|evaluator)[-_:.]?(\d+)(?!\d)")
BEGINS = re.compile(r"\b(chief|worker|ps|evaluator):(\d+) (?:starts|listens)")
CONFIG = re.compile(r"TF_CONFIG[^{\n]{0,20}(?={)")
THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+")
FRAME = re.compile(r'^  File "(.+)", line (\d+),? in (.+)$')
TRACEBACK = "Traceback (most recent call last):"
STAMP = re.compile(
    r"^(?:[IWEF]0000 00:00:(?P<epoch>\d{10}(?:\.\d+)?)|(?P<date>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)"
    r"|(?P<clock>\d\d:\d\d:\d\d)\b)"
)
DAY = 86400.0
OFF = 10.0  # seconds from which a clock counts as off; lines of several threads may change places


def of_process(pid: int, task: str) -> Iterator[Log]:
    """The files into which a process prints."""
    for path in dict.fromkeys(outputs(pid)):
        with contextlib.suppress(OSError):
            yield read(f"/proc/{pid}/root{path}", path, task)


def outputs(pid: int) -> Iterator[str]:
    """The files that its stdout and stderr are."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            path = os.readlink(f"/proc/{pid}/fd/{number}")
            if path.startswith("/") and not path.startswith(("/dev/", "/proc/")) and not path.endswith(" (deleted)"):
                yield path


def in_folder(folder: Path, known: Sequence[Log]) -> list[Log]:
    """The other logs in a folder, each with the task that its name or its first lines tell."""
    paths = {log.path for log in known}
    found = []
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir(), key=lambda path: -path.stat().st_mtime)[:FILES]:
            if path.suffix in SUFFIXES and path.is_file() and str(path) not in paths:
                found.append(read(str(path), str(path), ""))
    return found


def beside(known: Sequence[Log], since: float) -> list[Log]:
    """Logs of tasks that have ended: files written after `since` that lie beside those of the living and are called alike."""
    found: dict[str, Log] = {}
    for folder in {Path(log.path).parent for log in known} - {Path("/tmp"), Path.home()}:
        suffixes = {Path(log.path).suffix for log in known}
        found |= {
            log.path: log
            for log in in_folder(folder, known)
            if log.written >= since and Path(log.path).suffix in suffixes
        }
    return list(found.values())


def read(place: str, path: str, task: str) -> Log:
    """The end of the file at `place`, called `path` where its process lives."""
    with open(place, "rb") as file:
        status = os.fstat(file.fileno())
        head = file.read(HEAD).decode("utf-8", "replace")
        file.seek(max(0, status.st_size - TAIL))
        tail = file.read().decode("utf-8", "replace")
    lines, told = tail.splitlines(), shown(tail) or shown(head)
    task = task or _task(path, head) or (told.task if told else "")
    return Log(path, task, tuple(lines), status.st_mtime, dumped(lines), raised(lines), told)


def shown(text: str) -> Config | None:
    """The last TF_CONFIG that a text shows; None if it shows none."""
    for found in reversed(list(CONFIG.finditer(text))):
        with contextlib.suppress(ValueError):
            said, _ = json.JSONDecoder().raw_decode(text, found.end())
            if "cluster" in said:
                return config.read(json.dumps(said))
    return None


def dumped(lines: Sequence[str]) -> tuple[Frame, ...]:
    """Where the main thread stood in the last dump of `faulthandler`, innermost first: it is the last one of the dump."""
    last = max((number for number, line in enumerate(lines) if THREAD.match(line)), default=None)
    return () if last is None else tuple(_frames(lines[last + 1 :]))


def raised(lines: Sequence[str]) -> tuple[Frame, ...]:
    """Where the last error that was printed was raised, innermost first."""
    last = max((number for number, line in enumerate(lines) if line == TRACEBACK), default=None)
    return () if last is None else tuple(_frames(lines[last + 1 :]))[::-1]


def _frames(lines: Sequence[str]) -> Iterator[Frame]:
    for line in lines:
        if frame := FRAME.match(line):
            yield Frame(frame[1], int(frame[2]), frame[3])
        elif not line.startswith(" "):
            return


def clock(log: Log) -> float:
    """By how many seconds the clock of who wrote a log is off: set back within it, or ahead of the file's. 0.0: not seen.

    Times of one form are compared, for one library may write the time of Greenwich and another one ours.
    """
    times: dict[str, list[float]] = {}
    for line in log.lines:
        if (found := STAMP.match(line)) and (at := stamp(line, log.written)) is not None:
            times.setdefault(found.lastgroup or "", []).append(at)
    back = min((after - before for of in times.values() for before, after in itertools.pairwise(of)), default=0.0)
    ahead = times["epoch"][-1] - log.written if "epoch" in times else 0.0
    return back if back < -OFF else ahead if ahead > OFF else 0.0


def stamp(line: str, near: float) -> float | None:
    """The time with which a line begins, in seconds; of one without a date the one nearest to `near`."""
    found = STAMP.match(line)
    if found is None:
        return None
    if found["epoch"]:
        return float(found["epoch"])
    try:
        if found["date"]:
            return time.mktime(time.strptime(f"{found['date']} {found['time']}", "%Y-%m-%d %H:%M:%S"))
        day = time.strftime("%Y-%m-%d", time.localtime(near))
        at = time.mktime(time.strptime(f"{day} {found['clock']}", "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None
    return min((at - DAY, at, at + DAY), key=lambda each: abs(each - near))


def _task(path: str, head: str) -> str:
    found = TASK.search(Path(path).name) or BEGINS.search(head)
    return f"{found[1]}:{found[2]}" if found else ""
