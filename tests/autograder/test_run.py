"""`autograder run`: what CI believes about a chapter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.authoring import build, run
from autograder.model.course import Course, Limits

NAME = "90_tiny"
HEAD = "# %% [markdown]\n# # Tiny\n\n"

Execute = Callable[..., run.Ran]


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Execute a chapter of these cells, solved."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # with it ipykernel leaves file descriptors alone
    (tmp_path / "solutions").mkdir()
    (tmp_path / "course.toml").write_text('id = "tiny"\ntitle = "Tiny"\n')

    def execute(cells: str, **limits: float) -> run.Ran:
        (tmp_path / "solutions" / f"{NAME}.py").write_text(HEAD + cells, encoding="utf-8")
        course = Course.read(tmp_path)
        build.build(course)
        return run.execute(NAME, build.solved(course, NAME), Limits(**limits))

    return execute


ANSWER = """\
# %% answer="half"
def half(n):
    ### BEGIN SOLUTION
    return n / 2
    ### END SOLUTION

# %% check="half" points=1
assert half(4) == 2, "expected 2"
"""


def test_a_chapter_whose_reference_passes_its_own_checks_runs_clean(execute: Execute):
    ran = execute(ANSWER)
    assert ran.problems == ()
    assert ran.cells == 2


WONDERS = {  # a cell, and what is said of it
    "import sys\nprint('hm', file=sys.stderr)": "cell 2 (import sys): writes to stderr: hm",
    "import warnings\nwarnings.warn('old')": "UserWarning: old",
    "print('x.py:1: FutureWarning: soon')": "shows a warning or a traceback: x.py:1: FutureWarning: soon",
    "print('Traceback (most recent call last):')": "shows a warning or a traceback",
}


def test_whatever_a_student_would_wonder_about_is_a_problem(execute: Execute):
    cells = "".join(f"# %%\n{source}\n\n" for source in WONDERS) + ANSWER.replace("== 2", "== 3")
    problems = execute(cells).problems
    wanted = [*WONDERS.values(), 'cell "check_half": AssertionError: expected 2']
    assert len(problems) == len(wanted)
    assert [(says, problem) for says, problem in zip(wanted, problems, strict=True) if says not in problem] == []


def test_a_kernel_that_dies_is_a_problem(execute: Execute):
    [problem] = execute("# %%\nimport os\nos._exit(1)").problems
    assert "cell 2 (import os): the kernel died" in problem


def test_a_cell_without_end_is_a_problem(execute: Execute):
    assert execute("# %%\nwhile True: pass", cell_seconds=1.0).problems == (
        "cell 2 (while True: pass): no end within its time limit; see `limits` in the chapter's header",
    )


def test_a_chapter_leaves_no_files_in_the_course(execute: Execute, tmp_path: Path):
    before = set(tmp_path.rglob("*"))
    assert execute("# %%\nopen('left', 'w').close()").problems == ()
    assert not [path for path in set(tmp_path.rglob("*")) - before if path.name == "left"]
