"""Whatever one student's files are called, and however many they are, the others' submissions stay as they are."""

from __future__ import annotations

import os
import pwd
import tempfile
import zipfile
from pathlib import Path

import classroom
import pytest
from classroom import NAME
from fuzzing import examples
from hypothesis import example, given
from hypothesis import strategies as st

from autograder.submissions import arrivals, intake
from autograder.submissions.downloads import gathered
from autograder.submissions.filenames import Layout

TINY = classroom.chapter()
OTHERS = {"Ada Lovelace": 7, "Bob Brown": 8}
PIECES = [
    *"_/\\+.-'; \n\u3164\u202e",
    *("1", "12_34_", "7_8_", "LATE_", "..", "inbound", "outbound", "é", "=", "__MACOSX/", "timestamp.txt", "?"),
    *(
        NAME,
        ".ipynb",
        f"{NAME}.ipynb",
        f"/{NAME}/",
        f"ada+{NAME}+2026-11-30 12:00:00 UTC+x/",
        "ada/",
        "Ada Lovelace_7_",
    ),
    *("_9_assignsubmission_file_", "Ada Lovelace_7_assignsubmission_file_/", "lovelaceada_7_8_", "x" * 200),
]
NAMES = st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join), max_size=12, unique=True)
ME = pwd.getpwuid(os.getuid()).pw_name  # whose files this test writes


def theirs(found, hers):
    """What the others handed in, as it would be graded: name to bytes."""
    there = {each.student: each.folder / NAME / f"{NAME}.ipynb" for each in intake.collect(found.folder, TINY)}
    return {who: path.read_bytes() for who, path in there.items() if who != hers and path.is_file()}


def zipped(folder, names):
    path = Path(folder) / "class.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number, name in enumerate(names):
            info = zipfile.ZipInfo(name.replace("\0", ""))
            info.create_system = 3
            archive.writestr(info, b"%d" % number)
    return path


@examples(100)
@given(names=NAMES)
@example(names=[f"x\\{NAME}\\{NAME}.ipynb", "_9_assignsubmission_file_", f"a\\{NAME}\\b"])
@example(names=[f"lovelaceada_7_9_{NAME}.ipynb", f"brownbob_8_0_{NAME}.ipynb"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_no_file_of_a_student_changes_what_others_handed_in_by_canvas(names):
    mine = [f"evee_5_{6 + number}_{name.replace('/', '')}" for number, name in enumerate(names)]
    others = [f"{''.join(reversed(name.lower().split()))}_{number}_1_{NAME}.ipynb" for name, number in OTHERS.items()]
    with tempfile.TemporaryDirectory() as folder, gathered(zipped(folder, [*others, *mine]), TINY) as found:
        assert found.layout is Layout.CANVAS
        assert theirs(found, "evee_5") == {"lovelaceada_7": b"0", "brownbob_8": b"1"}


@examples(100)
@given(names=NAMES)
@example(names=[f"inbound/ada+{NAME}+2026-11-30 12:00:00 UTC+x/{NAME}.ipynb", "outbound/x"])
@example(names=[f"Ada Lovelace_7_assignsubmission_file_/{NAME}.ipynb", f"{NAME}/{NAME}.ipynb"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_no_file_of_a_student_changes_what_others_handed_in_by_moodle(names):
    mine = [f"Eve_5_assignsubmission_file_/{name}" for name in names]
    others = [f"{name}_{number}_assignsubmission_file_/{NAME}.ipynb" for name, number in OTHERS.items()]
    with tempfile.TemporaryDirectory() as folder, gathered(zipped(folder, [*others, *mine]), TINY) as found:
        assert found.layout is Layout.MOODLE
        assert theirs(found, "Eve") == {"Ada Lovelace": b"0", "Bob Brown": b"1"}


def laid(folder, front, names):
    """Write files below `folder`/`front`, as far as a file system takes their names."""
    (folder / front).mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / front / name.replace("\0", "").lstrip("/").replace("..", "_")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"hers")
        except OSError:  # too long, or a folder is there
            continue


@pytest.mark.parametrize("watched", [False, True])
@examples(100)
@given(names=NAMES)
@example(names=[f"inbound/ada+{NAME}+2026-11-30 12:00:00 UTC+x/{NAME}.ipynb", "outbound/x", f"{NAME}/{NAME}.ipynb"])
def test_no_file_of_a_student_changes_what_others_handed_in_by_nbgrader(watched, names):
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "in"
        for name in ("ada", "bob"):
            laid(source, f"{name}/{NAME}", [f"{NAME}.ipynb"])
        laid(source, "eve", names)
        if watched:
            batches = arrivals.batches(source, TINY, seconds=5.0, settle=0.0)
            found = next(batches)
            assert {"ada", "bob"} <= set(found.students)
            assert set(theirs(found, "eve")) == {"ada", "bob"}
            batches.close()
            return
        with gathered(source, TINY) as found:
            assert found.layout is Layout.NBGRADER
            assert set(theirs(found, "eve")) == {"ada", "bob"}


@examples(100)
@given(names=NAMES)
@example(names=[f"Eve{n}_{n}_assignsubmission_file_/{NAME}.ipynb" for n in range(5)])
def test_no_folder_in_an_exchange_takes_a_students_own(names):
    """Names are anybody's there: but what belongs to the user of that name stays."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place)
        laid(source, f"inbound/{ME}+{NAME}+2026-11-01 12:00:00 UTC+x", [f"{NAME}.ipynb"])
        (source / "outbound").mkdir()
        laid(source, "inbound", [name for name in names if not name.lstrip("/").startswith(ME)])
        with gathered(source, TINY) as found:
            assert found.layout is Layout.EXCHANGE
            assert (found.folder / ME / NAME / f"{NAME}.ipynb").read_bytes() == b"hers"
