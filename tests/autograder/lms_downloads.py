"""Downloads as Canvas and Moodle make them, and an exchange, of an invented class of six: one late, one twice."""

import itertools
import time
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

STUDENTS = ("Ada Lovelace", "Bob Brown", "Cem Öztürk", "Dana Scully", "Eve Adams", "Fay Wray")
MADE = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def canvas(path: Path, chapter: str, notebook: bytes = b"{}") -> Path:
    """submissions.zip: `lastnamefirst_[LATE_]USER_SUBMISSION_file`; Eve is late, Fay handed in three times."""
    files = {}
    for number, name in enumerate(STUDENTS):
        first, last = name.lower().split()
        late = "LATE_" if first == "eve" else ""
        again = "-2" if first == "fay" else ""
        files[f"{last}{first}_{late}{100 + number}_{9000 + number}_{chapter}{again}.ipynb"] = notebook
    files[f"wrayfay_105_8000_{chapter}-9.ipynb"] = b"older by the submission's number"
    files[f"wrayfay_105_9005_{chapter}.ipynb"] = b"older by its suffix"
    return zipped(path, {**files, "brownbob_101_9001_photo.png": b"no notebook"})


def moodle(path: Path, chapter: str, notebook: bytes = b"{}") -> Path:
    """`Full Name_NUMBER_assignsubmission_file_/file`, with a text typed in, and two people of one name.

    As Moodle writes it: each member has the moment at which it was put in, whenever it was handed in.
    """
    clock = (MADE + timedelta(seconds=2 * second) for second in itertools.count())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, name in enumerate(STUDENTS):
            folder = f"{name}_{200 + number}_assignsubmission_file_"
            put(archive, f"{folder}/{chapter}.ipynb", notebook, next(clock))
            text = f"{name}_{200 + number}_assignsubmission_onlinetext_/onlinetext.html"
            put(archive, text, b"<p>done</p>", next(clock))
        put(archive, f"Bob Brown_299_assignsubmission_file_/{chapter}.ipynb", notebook, next(clock))
    return path


def zipped(path: Path, files: Mapping[str, bytes], system: int = 3) -> Path:
    """A zip of these files, made on that system: 0 is Windows."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            put(archive, name, data)
            archive.infolist()[-1].create_system = system
    return path


def put(archive: zipfile.ZipFile, name: str, data: bytes, when: datetime = MADE, mode: int = 0o644) -> None:
    """A member with a time."""
    info = zipfile.ZipInfo(name, when.timetuple()[:6])
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
    archive.writestr(info, data)


def wait_for(what, seconds: float = 60.0):
    """The first true value of `what()`; fails when there is none in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s")
