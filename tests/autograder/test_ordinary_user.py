"""A class is graded by an ordinary user, too: boxes without control groups, all of them of one user."""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ordinary_user
import pytest
from test_engine import NAME, RIGHT, hand_in, small  # noqa: F401 - fixtures

from autograder.sandbox import boxes

pytestmark = [
    pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem()),
    pytest.mark.skipif(not ordinary_user.available(), reason="only root can become an ordinary user for this test"),
]
HOG = "blocks = []\nwhile True:\n    blocks.append(b'x' * (64 << 20))"
PEEK = """
import glob
environments = [open(path).read() for path in glob.glob("/proc/[0-9]*/environ")]
print(f"environments: {len(environments)}, secret: {'SECRET' in str(environments)}")
"""


@pytest.fixture
def place(small):  # noqa: F811
    """A folder that everybody may enter, with the course; those of pytest are closed again by whoever starts another."""
    with tempfile.TemporaryDirectory(prefix="ordinary-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(small, f"{folder}/course")
        for name in ("out", "home", "mount"):
            os.mkdir(f"{folder}/{name}")
            os.chown(f"{folder}/{name}", ordinary_user.USER, ordinary_user.USER)
        yield Path(folder)


def test_an_ordinary_user_grades_a_class(place, hand_in):  # noqa: F811
    hand_in("ada")
    hand_in("bob", RIGHT | {"double": "import os; os._exit(3)"})
    hand_in("cem", RIGHT | {"double": HOG})
    shutil.copytree(hand_in("eve", RIGHT | {"double": PEEK + RIGHT["double"]}), place / "submissions")
    subprocess.run(["chmod", "-R", "a+rX", place / "course", place / "submissions"], check=True, timeout=60)
    out = place / "out"
    arguments = ["grade", NAME, "--submissions", place / "submissions", "--out", out, "--workers", "2"]
    environment = {"HOME": str(place / "home"), "ACROSS_COURSE": str(place / "course"), "SECRET": "x"}
    ran = subprocess.run(
        ordinary_user.command(place / "mount", sys.executable, "-m", "autograder", *arguments),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with open(out / "marks.csv", encoding="utf-8", newline="") as file:
        rows = {(row["student"], row["exercise"]): row for row in csv.DictReader(file)}
    verdicts = {student: rows[student, "double"]["verdict"] for student in ("ada", "bob", "cem", "eve")}
    assert verdicts == {"ada": "passed", "bob": "crashed", "cem": "memory", "eve": "passed"}
    assert {rows[student, "shift"]["verdict"] for student in verdicts} == {"passed"}
    assert "environments: 3, secret: False" in (out / "feedback" / "eve" / f"{NAME}.html").read_text()
    assert (out / "marks.csv").stat().st_uid == ordinary_user.USER
