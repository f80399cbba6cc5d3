"""A class graded by `autograder grade` as an ordinary user: without control groups, in a user namespace, the same marks."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import courses
import ordinary_user
import pytest
from boxed import root_only
from small_course import CHECKS, NAME, RIGHT, SOURCE

USER = ordinary_user.free_number()
HOG = "def double(x):\n    held = []\n    while True:\n        held.append(bytearray(256 << 20))"
PEEK = """\
import glob
environments = []
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        environments.append(open(path).read())
    except PermissionError:  # in root's boxes process 1 is another user's
        pass
print(f"environments: {len(environments)}, secret: {'SECRET' in str(environments)}")
"""
CLASS = {
    "right": RIGHT,
    "exits": RIGHT | {"double": "import os; os._exit(3)"},
    "peeks": RIGHT | {"double": PEEK + RIGHT["double"]},
    "wrong": RIGHT | {"double": "def double(x):\n    return x + 1"},
    "hog": RIGHT | {"double": HOG},
}
DOUBLE = {
    "right": ("2", "passed", ""),
    "exits": ("0", "crashed", "STUDENT"),
    "peeks": ("2", "passed", ""),
    "wrong": ("0", "failed", "STUDENT"),
    "hog": ("0", "memory", "LIMIT"),
}


def grading(folder):
    """The command that grades the class in `folder`."""
    what = ["grade", NAME, "--submissions", f"{folder}/submitted", "--out", f"{folder}/graded"]
    return [sys.executable, "-m", "autograder", "--course", f"{folder}/course", *what]


def prepared(folder):
    """A course of one chapter, and a class that handed in."""
    course = courses.write(folder / "course", NAME, SOURCE, CHECKS)
    courses.handed_in(course, folder / "submitted", NAME, CLASS)
    return folder


def run(words, folder):
    environment = {**os.environ, "SECRET": "x"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def marks(folder):
    names = ("points", "verdict", "fault", "message")
    return {which: tuple(row[name] for name in names) for which, row in courses.marks(folder / "graded").items()}


def left_behind(user):
    """What that user still has: processes, and files where boxes and servers keep theirs."""
    owned = [path for place in ("/proc", "/tmp", "/dev/shm") for path in Path(place).iterdir() if owner(path) == user]
    return [path for path in owned if path.parent != Path("/proc") or path.name.isdigit()]


def owner(path):
    try:
        return path.lstat().st_uid
    except FileNotFoundError:  # ended meanwhile
        return None


@pytest.fixture(scope="module")
def graded():
    """A folder whose class was graded by an ordinary user; a copy of it beside it was not graded yet."""
    folder = Path(tempfile.mkdtemp(prefix="across-class-", dir="/tmp"))  # pytest's own are closed to others
    folder.chmod(0o755)
    home = prepared(folder / "home")
    shutil.copytree(home, folder / "root")
    if os.getuid() == 0:
        run(ordinary_user.command(USER, home, grading(home)), home)
    else:  # we are one
        run(grading(home), home)
    yield home
    shutil.rmtree(folder)


@pytest.mark.classes
def test_a_class_graded_by_an_ordinary_user_gets_its_marks_and_pages(graded):
    found = {which: mark[:3] for which, mark in marks(graded).items()}
    assert {student: found[student, "double"] for student in CLASS} == DOUBLE
    assert {found[student, "shift"] for student in CLASS} == {("3", "passed", "")}
    assert {page.parts[-3] for page in (graded / "graded" / "feedback").glob(f"*/{NAME}/{NAME}.html")} == set(CLASS)


@pytest.mark.classes
def test_in_an_ordinary_users_box_no_process_has_the_graders_environment(graded):
    page = (graded / "graded" / "feedback" / "peeks" / NAME / f"{NAME}.html").read_text()
    assert re.search(r"environments: [1-9]\d*, secret: False", page)


@pytest.mark.classes
@root_only
def test_an_ordinary_user_who_has_graded_leaves_nothing_behind(graded):
    assert graded.stat().st_uid == USER  # it was this user indeed
    assert left_behind(USER) == []


@pytest.mark.classes
@root_only
def test_root_gives_the_same_marks_with_the_same_words(graded):
    folder = graded.parent / "root"
    run(grading(folder), folder)
    assert marks(folder) == marks(graded)


@pytest.mark.classes
def test_each_mark_says_who_kept_its_limits(graded):
    where = ["--course", str(graded / "course"), "explain", "right", NAME, "--out", str(graded / "graded"), "--json"]
    said = json.loads(run([sys.executable, "-m", "autograder", *where], graded))
    assert said["verdict"]["evidence"]["kept_by"] == "a look every 0.1 s"


@pytest.mark.slow
@root_only
def test_every_attack_fails_against_an_ordinary_user_as_well():
    folder = Path(tempfile.mkdtemp(prefix="across-attacks-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        words = [sys.executable, str(ordinary_user.CHECKOUT / "tools" / "attacks.py")]
        environment = {**os.environ, "TMPDIR": str(folder)}
        done = subprocess.run(
            ordinary_user.command(USER, folder, words),
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=2400,
        )
        assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5000:]
        assert left_behind(USER) == [folder]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
