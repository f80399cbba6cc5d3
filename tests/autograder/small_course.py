"""A course of one small chapter that needs no TensorFlow: what it is made of, a right answer, and the command on it."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import courses
import pytest

from autograder.commands import cli, terminal
from autograder.engine import class_run
from autograder.gradebook import record
from autograder.model.course import Course

NAME = "90_small"
SOURCE = """\
# %% [markdown]
# # Small

# %%
import numpy as np

# %% answer="double"
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %% check="double" points=2
assert double(2) == 4, "twice 2 is 4"

# %% answer="shift"
def shift(x, by):
    ### BEGIN SOLUTION
    return x + by
    ### END SOLUTION

# %% check="shift" points=3
assert shift(1, 2) == 3, "1 and 2 more is 3"

# %% [markdown] answer="why" points=1
# ### BEGIN SOLUTION
# Because.
# ### END SOLUTION
"""
LONG = "    total = sum(weight * share for weight, share in zip(x, x, strict=True))\n    return total"
LEAKY = SOURCE.replace("    return 2 * x", LONG)  # with a reference that is too long to stand anywhere by chance
CODE = SOURCE[: SOURCE.index("# %% [markdown] answer")]  # without its prose: 5 points, none of them by hand
CHECKS = """\
import numpy as np
from autograder.probe.asking import exercise, probe

@probe
def doubled(student, x):
    return student.double(x)

@probe
def shifted(student, x, by):
    return student.shift(x, by)

@exercise("double")
def test_it_doubles(student, rng):
    x = rng.normal(size=3)
    got = student.ask(doubled, x=x)
    assert type(got) is np.ndarray, f"`double` returned a {type(got).__name__}; expected an array like its argument."
    assert np.allclose(got, x * 2), "The result is not twice the argument."

@exercise("shift")
def test_it_shifts(student, rng):
    x, by = int(rng.integers(200, 300)), int(rng.integers(1, 100))  # no wrong answer is another, or right, by chance
    assert student.ask(shifted, x=x, by=by) == x + by, "The sum is off."
"""
PROBES = CHECKS[: CHECKS.index("@exercise")]
RIGHT = {"double": "def double(x):\n    return x + x", "shift": "def shift(x, by):\n    return by + x", "why": "So."}
OTHER = "07_other"


def with_another(root: Path) -> Course:
    """A course of the small chapter and another one that is like it."""
    courses.write(
        root, OTHER, SOURCE.replace("Small", "Other").replace("double", "triple"), CHECKS.replace("double", "triple")
    )
    return courses.write(root, NAME, SOURCE, CHECKS)


def points(course: Course, out: Path) -> dict[str, dict[str, tuple[float, str]]]:
    """What is recorded in OUT: student -> exercise -> points and verdict."""
    table: dict[str, dict[str, tuple[float, str]]] = {}
    for row in record.rows(out, course.chapter(NAME)):
        table.setdefault(row.student, {})[row.exercise] = (row.points, str(row.verdict))
    return table


def command(
    *arguments: object, root: Path | None = None, columns: int = 80, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run `autograder` on the course at `root`, in this process: the servers that it starts stay warm for the next one.

    Fails with what was said where it does not end with `code`, unless that is None.
    """
    call = ["autograder", *(["--course", str(root)] if root else []), *map(str, arguments)]
    said, complained, ended = io.StringIO(), io.StringIO(), 0
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(complained):
        patch.setattr(sys, "argv", call)
        patch.setattr(class_run, "close", lambda: None)
        patch.setattr(terminal.console, "_width", columns)
        patch.setattr(terminal.errors, "_width", columns)
        try:
            cli.main()
        except SystemExit as end:
            ended = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    assert code in (ended, None), said.getvalue() + complained.getvalue()
    return subprocess.CompletedProcess(call, ended, said.getvalue(), complained.getvalue())
