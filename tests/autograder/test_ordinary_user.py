"""A class graded by `autograder grade` as an ordinary user: without control groups, in a user namespace, the same marks."""

import csv
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

NAME = "90_numbers"
USER = ordinary_user.free_number()
SOURCE = """\
# %% [markdown]
# # Numbers

# %%
import numpy as np

# %% answer="scale"
def scale(x, by):
    ### BEGIN SOLUTION
    return x * by
    ### END SOLUTION

# %% check="scale" points=2
assert scale(2, 3) == 6, "3 times 2 is 6"

# %% answer="total"
def total(x):
    ### BEGIN SOLUTION
    return float(np.sum(x))
    ### END SOLUTION

# %% check="total" points=3
assert total([1, 2]) == 3, "1 and 2 are 3"
"""
CHECKS = """\
import numpy as np
from autograder.probe.asking import exercise, probe

@probe
def scaled(student, x, by):
    return student.scale(x, by)

@probe
def summed(student, x):
    return student.total(x)

@exercise("scale")
def test_it_scales(student, rng):
    x, by = int(rng.integers(2, 100)), int(rng.integers(3, 100))
    assert student.ask(scaled, x=x, by=by) == x * by, "The result is not the product."

@exercise("total")
def test_it_adds_up(student, rng):
    x = rng.integers(1, 100, size=4)
    assert student.ask(summed, x=x) == float(x.sum()), "The sum is off."
"""
RIGHT = {
    "scale": "def scale(x, by):\n    return by * x",
    "total": "def total(x):\n    return float(sum(x))",
}
HOG = "def scale(x, by):\n    held = []\n    while True:\n        held.append(bytearray(256 << 20))"
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
    "exits": RIGHT | {"scale": "import os; os._exit(3)"},
    "peeks": RIGHT | {"scale": PEEK + RIGHT["scale"]},
    "wrong": RIGHT | {"scale": "def scale(x, by):\n    return x + by"},
    "hog": RIGHT | {"scale": HOG},
}
MARKS = {
    ("exits", "scale"): (0.0, "crashed", "STUDENT"),
    ("exits", "total"): (3.0, "passed", ""),
    ("peeks", "scale"): (2.0, "passed", ""),
    ("peeks", "total"): (3.0, "passed", ""),
    ("right", "scale"): (2.0, "passed", ""),
    ("right", "total"): (3.0, "passed", ""),
    ("wrong", "scale"): (0.0, "failed", "STUDENT"),
    ("wrong", "total"): (3.0, "passed", ""),
    ("hog", "scale"): (0.0, "memory", "LIMIT"),
    ("hog", "total"): (3.0, "passed", ""),
}


def grading(folder):
    """The command that grades the class in `folder`."""
    what = ["grade", NAME, "--submissions", f"{folder}/submitted", "--out", f"{folder}/graded"]
    return [sys.executable, "-m", "autograder", "--course", f"{folder}/course", *what]


def prepared(folder):
    """A course of one chapter, and a class that handed in."""
    course = courses.write(folder / "course", NAME, SOURCE, CHECKS, preload=["numpy"])
    for student, answers in CLASS.items():
        courses.hand_in(folder / "submitted", student, NAME, courses.answered(course, NAME, answers))
    return folder


def run(words, folder):
    environment = {**os.environ, "SECRET": "x"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def marks(folder):
    with (folder / "graded" / "marks.csv").open(newline="") as file:
        return {
            (row["student"], row["exercise"]): (float(row["points"]), row["verdict"], row["fault"], row["message"])
            for row in csv.DictReader(file)
        }


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
    assert {which: mark[:3] for which, mark in marks(graded).items()} == MARKS
    assert {page.parts[-3] for page in (graded / "graded" / "feedback").glob(f"*/{NAME}/{NAME}.html")} == set(CLASS)


@pytest.mark.classes
def test_in_an_ordinary_users_box_no_process_has_the_graders_environment(graded):
    page = (graded / "graded" / "feedback" / "peeks" / NAME / f"{NAME}.html").read_text()
    assert re.search(r"environments: [1-9]\d*, secret: False", page)


@pytest.mark.classes
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user for this test")
def test_an_ordinary_user_who_has_graded_leaves_nothing_behind(graded):
    assert graded.stat().st_uid == USER  # it was this user indeed
    assert left_behind(USER) == []


@pytest.mark.classes
@pytest.mark.skipif(os.getuid() != 0, reason="only root can grade as root, too")
def test_root_gives_the_same_marks_with_the_same_words(graded):
    folder = graded.parent / "root"
    run(grading(folder), folder)
    assert marks(folder) == marks(graded)


@pytest.mark.classes
def test_each_mark_says_who_kept_its_limits(graded):
    where = ["--course", str(graded / "course"), "explain", "right", NAME, "--out", str(graded / "graded"), "--json"]
    said = subprocess.run(
        [sys.executable, "-m", "autograder", *where],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert json.loads(said.stdout)["verdict"]["evidence"]["kept_by"] == "a look every 0.1 s"


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user for this test")
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
