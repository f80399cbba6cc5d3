"""`autograder new`: the smallest course that grades, to be changed into one's own.

COURSE/course.toml                        id, title, what kernels preload
COURSE/solutions/01_row_means.py          the one source of a chapter
COURSE/checks/test_01_row_means.py        what decides its marks
COURSE/checks/listed_01_row_means.toml    answers that its author knows of, right and wrong
COURSE/.github/workflows/course.yml       builds, runs and verifies at each push
COURSE/notebooks/, COURSE/submitted/      what students open, and a notebook that one handed in, with a mistake
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from autograder.authoring import build
from autograder.model.course import FILE, Course, CourseError, text

__all__ = ["CHAPTER", "COMMANDS", "new"]

CHAPTER = "01_row_means"
COMMANDS = ("autograder build", "autograder verify", "autograder grade 01 --submissions submitted --out graded")
MISTAKE = ("table.mean(axis=1)", "table.mean(axis=0)")  # of the student ada; the checks list it
SOURCE = """\
# %% [markdown]
# # Means of rows
# A table has rows and columns. What is the mean of each row?

# %%
import numpy as np

# %% [markdown]
# ## Exercise: `row_means` (2 points)
# Return the mean of each row of `table`, an array of two dimensions.


# %% answer="row_means"
def row_means(table):
    ### BEGIN SOLUTION
    return table.mean(axis=1)
    ### END SOLUTION


# %% check="row_means" points=2
assert np.allclose(row_means(np.array([[1, 3], [5, 7]])), [2, 6]), "the means of [1, 3] and [5, 7] are 2 and 6"
"""
CHECKS = """\
import numpy as np

from across.expecting import array
from autograder.probe.asking import Misconception, exercise


@exercise("row_means")
def test_each_row_has_its_mean(student, rng):
    cases = [[rng.normal(size=(3, 4))] for _ in range(4)]  # fresh inputs, that no student knows
    for (table,), got in student.call("row_means", cases, returns=array()):
        if got.shape == (4,):
            raise Misconception("columns", "You took the mean of each column; axis 1 runs along a row.")
        assert got.shape == (3,), "For a table of 3 rows, return 3 means."
        assert not np.allclose(got, table.sum(axis=1)), "You added each row; divide by how many numbers it has."
        assert np.allclose(got, table.mean(axis=1)), "These are not the means of the rows."
"""
LISTED = """\
[row_means.wrong]
columns = { says = "the mean of each column", change = ["axis=1", "axis=0"] }
sums = { says = "You added each row", change = [".mean(", ".sum("] }

[row_means.right.by_hand]
source = '''
def row_means(table):
    return [sum(row) / len(row) for row in table]
'''
"""
WORKFLOW = """\
# The notebooks are those of the sources, every solution runs, and the checks tell right from wrong.
name: course
on:
  push:
  pull_request:
permissions:
  contents: read
jobs:
  course:
    runs-on: ubuntu-latest
    timeout-minutes: 60
    env:
      # what pip installs; where no index has it, in the repository's variable AUTOGRADER the place of both wheels, too:
      # --find-links https://... across-autograder[verify]
      AUTOGRADER: ${{ vars.AUTOGRADER || 'across-autograder[verify]' }}
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: The sandbox, and user namespaces for it
        run: |
          sudo apt-get update
          sudo apt-get install -y --no-install-recommends bubblewrap
          sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 || true
      - run: pip install $AUTOGRADER
      - run: autograder build --check
      - run: autograder run
      - run: autograder verify
"""
README = """\
# {title}

`solutions/{chapter}.py` is the source of a chapter, `checks/` decides its marks, `notebooks/` is what students open.

    {commands}

`submitted/` holds the notebook of a student, ada, who made a mistake: `autograder explain ada 01 --out graded` says which.
Change the chapter, or write `solutions/02_name.py` and `checks/test_02_name.py`; `.github/workflows/` tries all at each push.
"""


def new(folder: Path) -> Course:
    """Make the course, built, in the new or empty `folder`. Raises CourseError where something is there; OSError."""
    root = Path(folder).absolute()
    if root.exists() and not root.is_dir():
        raise CourseError(f"{folder} is a file; give the name of a new folder")
    if root.is_dir() and any(path.name != ".git" for path in root.iterdir()):
        raise CourseError(f"{folder}: there is something already; give the name of a new folder, or empty that one")
    name = root.resolve().name
    title = " ".join(re.split(r"[\W_]+", name)).strip() or "Course"
    course_id = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._") or "course"
    head = {"id": course_id, "title": title[0].upper() + title[1:], "preload": ["numpy"]}
    files = {
        FILE: "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in head.items()),
        f"solutions/{CHAPTER}.py": SOURCE,
        f"checks/test_{CHAPTER}.py": CHECKS,
        f"checks/listed_{CHAPTER}.toml": LISTED,
        ".github/workflows/course.yml": WORKFLOW,
        ".gitignore": "graded/\nsubmitted/\n",
        "README.md": README.format(title=head["title"], chapter=CHAPTER, commands="\n    ".join(COMMANDS)),
    }
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    course = Course.read(root)
    build.build(course)
    _hand_in(course)
    return course


def _hand_in(course: Course) -> None:
    """Lay a student's notebook where nbgrader collects it."""
    notebook = json.loads(course.notebook(CHAPTER).read_text(encoding="utf-8"))
    answers = build.solution_source(course, CHAPTER)
    for cell in notebook["cells"]:
        answer = answers.get(cell["metadata"].get("nbgrader", {}).get("grade_id"))
        cell["source"] = text(cell) if answer is None else answer.replace(*MISTAKE)
    place = course.root / "submitted" / "ada" / CHAPTER / f"{CHAPTER}.ipynb"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(notebook, indent=1), encoding="utf-8")
