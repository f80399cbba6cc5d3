"""An error that is carried over: told, asked again on top of the reference's earlier answers, and no way to what these are."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise

import courses
import pytest
from boxed import needs_a_box
from small_course import command

from autograder.authoring import build
from autograder.gradebook import evidence, record
from autograder.job import carried, forkserver, grade
from autograder.model.course import Course, CourseError
from autograder.model.rubric import Rubric
from autograder.model.verdict import Fault, Mark, Result
from autograder.submissions.intake import Submission

pytestmark = needs_a_box
NAME = "91_chain"
PREFIX = "wholly_secret_prefix"
SOURCE = f"""\
# %% [markdown]
# # Chain

# %% answer="double"
def double(x):
    ### BEGIN SOLUTION
    {PREFIX} = 2
    return {PREFIX} * x
    ### END SOLUTION

# %% check="double" points=2
assert double(2) == 4

# %% answer="shift"
def shift(x, by):
    ### BEGIN SOLUTION
    return x + by
    ### END SOLUTION

# %% check="shift" points=2
assert shift(1, 2) == 3

# %% answer="fourfold"
def fourfold(x):
    ### BEGIN SOLUTION
    return double(double(x))
    ### END SOLUTION

# %% check="fourfold" points=3
assert fourfold(1) == 4

# %% [markdown] answer="why" points=1
# Say why both double x, and shift by what.
# ### BEGIN SOLUTION
# Because.
# ### END SOLUTION

# %% answer="both"
def both(x, by):
    ### BEGIN SOLUTION
    return shift(fourfold(x), by)
    ### END SOLUTION

# %% check="both" points=3
assert both(1, 2) == 6
"""
CHECKS = """\
from autograder.probe.asking import exercise

def asked(student, rng, function, right, arity):
    for _ in range(3):
        arguments = [int(each) for each in rng.integers(3, 99, size=arity)]
        got = student.call_once(function, *arguments)
        assert got == right(*arguments), f"`{function}` of {arguments} returned {got!r}."

@exercise("double")
def test_it_doubles(student, rng):
    asked(student, rng, "double", lambda x: 2 * x, 1)

@exercise("shift")
def test_it_shifts(student, rng):
    asked(student, rng, "shift", lambda x, by: x + by, 2)

@exercise("fourfold")
def test_it_is_fourfold(student, rng):
    asked(student, rng, "fourfold", lambda x: 4 * x, 1)

@exercise("both")
def test_it_does_both(student, rng):
    asked(student, rng, "both", lambda x, by: 4 * x + by, 2)
"""
RIGHT = {
    "double": "def double(x):\n    return x + x",
    "shift": "def shift(x, by):\n    return by + x",
    "fourfold": "def fourfold(number):\n    return double(double(number))",
    "both": "def both(x, by):\n    return shift(fourfold(x), by)",
}
TRIPLE = {"double": "def double(x):\n    return 3 * x"}
OWN_FAULT = {"fourfold": "def fourfold(x):\n    return double(x)"}
STEALS = {  # whatever it gets to know of the reference it says wherever it can
    "double": "def double(x):\n    return 3 * x",
    "fourfold": """\
import inspect, os, sys

def fourfold(x):
    found = repr(double.__code__.co_varnames) + inspect.getsource(double)
    print(found)
    print(found, file=sys.stderr)
    os.system(f"echo {found!r}")
    open("/tmp/kept", "w").write(found)
    if double(1) == 2:
        raise ValueError(found)
    return found

print(inspect.getsource(double), double.__code__.co_varnames)
""",
}
ENDS_THE_SECOND_RUN = {
    **TRIPLE,
    "fourfold": """\
def fourfold(x):
    if double(1) == 2:
        import os
        os._exit(0)
    return double(double(x))
""",
}
CHEATS = {  # looks for a right `double` beside it where nothing says that it uses it
    **TRIPLE,
    "shift": "def shift(x, by):\n    return x + by if globals()['dou' + 'ble'](1) == 2 else 0",
}


def course(folder, follow="", header=""):
    top = f"# ---\n# jupyter:\n#   across:\n#     {header}\n# ---\n\n" if header else ""
    made = courses.write(folder, NAME, SOURCE, CHECKS)
    (made.root / "course.toml").write_text(f'id = "tiny"\ntitle = "Tiny"\n{follow}\n')
    (made.root / "solutions" / f"{NAME}.py").write_text(top + SOURCE)
    made = Course.read(made.root)
    build.build(made)
    return made


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    return course(tmp_path_factory.mktemp("half") / "course", "follow_through = 0.5")


def handed_in(course, folder, class_):
    answers = {
        who: {name: source for name, source in (RIGHT | wrong).items() if source} for who, wrong in class_.items()
    }
    return courses.handed_in(course, folder, NAME, answers)


CLASS = {
    "ann": TRIPLE,
    "ben": {**TRIPLE, **OWN_FAULT},
    "cat": {"double": ""},  # left as released
    "dan": {"double": "import os; os._exit(0)"},
    "eva": OWN_FAULT,
    "fay": STEALS,
    "gil": CHEATS,
    "hal": ENDS_THE_SECOND_RUN,
    "zoe": {},
}


@pytest.fixture(scope="module")
def graded(half, tmp_path_factory):
    root = tmp_path_factory.mktemp("carried")
    folder, out = handed_in(half, root / "submitted", CLASS), root / "out"
    command("grade", NAME, "--submissions", folder, "--out", out, root=half.root)
    return out


@pytest.fixture(scope="module")
def marks(graded):
    return courses.marks(graded)


MARKS = {  # points for double, shift, fourfold and both, and what they are carried over from
    "ann": ["0", "2", "1.5 `double`", "1.5 `fourfold`"],
    "ben": ["0", "2", "0", "1.5 `fourfold`"],  # what is wrong by itself is not carried over
    "cat": ["0", "2", "1.5 `double`", "1.5 `fourfold`"],  # an earlier answer that is missing is as wrong
    "dan": ["0", "2", "1.5 `double`", "1.5 `fourfold`"],  # and so is one that ends its kernel
    "eva": ["2", "2", "0", "1.5 `fourfold`"],
    "fay": ["0", "2", "0", "1.5 `fourfold`"],
    "gil": ["0", "0", "1.5 `double`", "1.5 `shift` and `fourfold`"],  # `shift` does not say that it uses `double`
    "hal": ["0", "2", "0", "1.5 `fourfold`"],  # who ends the second run has the marks of the first
    "zoe": ["2", "2", "3", "3"],  # who is right is not asked again
}


@pytest.mark.parametrize("student", MARKS)
def test_what_is_right_on_top_of_a_right_answer_is_carried_over_and_nothing_else_is(marks, student):
    rows = [marks[student, name] for name in ("double", "shift", "fourfold", "both")]
    said = [f"{row['points']} {row['misconception'].removeprefix('carried over from ')}".rstrip() for row in rows]
    assert said == MARKS[student]


def test_a_student_reads_what_was_carried_over_and_what_to_mend_first(graded, marks):
    says = "Carried over from `double`: with that right, your answer passes."
    assert marks["ann", "fourfold"]["message"].startswith(says)
    assert marks["ann", "fourfold"]["misconception"] == "carried over from `double`"
    assert "Carried over from" in (graded / "feedback" / "ann" / NAME / f"{NAME}.html").read_text()
    assert "It uses `double`, not right yet: mend that first." in marks["ben", "fourfold"]["message"]
    assert "mend that first" not in marks["eva", "fourfold"]["message"]
    assert marks["hal", "fourfold"]["verdict"] == "failed"


def test_prose_that_was_left_blank_is_nothing_that_code_uses(marks):
    assert marks["ann", "why"]["verdict"] == "blank"
    assert not [row for row in marks.values() if "`why`" in row["message"]]


def test_nothing_of_the_reference_comes_out_of_the_second_run(half, graded):
    """Not into marks, feedback, gradebook, notebook or log; the student's code is looked at by itself, too.

    OUT/evidence has the chapter's source by itself, for who grades alone.
    """
    for path in graded.rglob("*"):
        if path.is_file() and path.parent == graded / evidence.FOLDER:
            assert path.stat().st_mode & 0o777 == 0o600
        elif path.is_file():
            assert PREFIX.encode() not in path.read_bytes(), path
    verdicts = [each.verdict for each in record.whole(graded, half.chapter(NAME))]
    assert PREFIX not in json.dumps([each.to_json() for each in verdicts])


def test_without_the_policy_no_reference_comes_near_a_student(tmp_path, monkeypatch):
    plain = course(tmp_path / "course")
    jobs, real = [], grade.grade_job
    monkeypatch.setattr(grade, "grade_job", lambda job, course: jobs.append(job) or real(job, course))
    courses.graded(plain, NAME, handed_in(plain, tmp_path / "in", {"ann": TRIPLE}), tmp_path / "out")
    [found] = record.records(tmp_path / "out", plain.chapter(NAME))
    assert [row.points for row in found.rows] == [0.0, 2.0, 0.0, 0.0, 0.0]
    assert found.rows[2].message.endswith("It uses `double`, not right yet: mend that first.")
    assert all(job.rubric.reference == () for job in jobs)


@pytest.mark.parametrize(("share", "points"), [("0", 0.0), ("0.3", 0.75)])
def test_a_header_goes_before_the_course_and_at_0_it_is_only_said(half, tmp_path, share, points):
    chapter = course(tmp_path / "course", "follow_through = 0.5", f"follow_through: {share}").chapter(NAME)
    rubric = followed(half)
    rubric = replace(rubric, chapter=replace(rubric.chapter, follow_through=chapter.follow_through))
    job = grade.Job(Submission("ann", NAME, RIGHT | TRIPLE), rubric, 1)
    [mark] = [mark for mark in grade.grade_job(job, half).marks if mark.exercise == "fourfold"]
    assert (mark.points, mark.misconception) == (points, "carried over from `double`")


def followed(course):
    """The rubric of a course that follows errors through."""
    return replace(forkserver.make_rubric(course, NAME), reference=tuple(build.solution_source(course, NAME).items()))


def test_another_policy_or_another_reference_is_another_rubric(half):
    rubric = followed(half)
    changed = tuple((name, source.replace("2", "3")) for name, source in rubric.reference)
    others = [
        replace(rubric, reference=changed),
        replace(rubric, chapter=replace(rubric.chapter, follow_through=0.25)),
        replace(rubric, chapter=replace(rubric.chapter, follow_through=None), reference=()),
    ]
    assert len({each.digest for each in (rubric, *others)}) == 4


@pytest.mark.parametrize("share", ["1.5", "-1", "nan", "true", '"half"'])
def test_a_share_that_is_none_is_the_authors_to_mend(tmp_path, share):
    with pytest.raises(CourseError, match=r"follow_through: .*; write the share of its points"):
        course(tmp_path / "course", f"follow_through = {share}")


SLOW_RELEASE = "# %%\nimport time\n\ntime.sleep(2)\n\n"
TAKES_THE_TIME = {  # of the second runs together, so that the last of them has too little for the release's own cells
    **TRIPLE,
    "shift": "def shift(x, by):\n    return x - by",
    "fourfold": "import time\n\ntime.sleep(6.5 if double(1) == 2 else 0)\n\ndef fourfold(x):\n    return double(double(x))",
}


@pytest.mark.slow
def test_who_uses_up_the_time_of_the_second_runs_has_the_marks_of_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", SOURCE.replace("# %% answer", SLOW_RELEASE + "# %% answer", 1))
    made = course(tmp_path / "course", "follow_through = 0.5")
    folder = handed_in(made, tmp_path / "in", {"ivy": TAKES_THE_TIME})
    result = courses.graded(made, NAME, folder, tmp_path / "out", limits={"notebook_seconds": 10.0})
    assert result.faults == {}
    [found] = record.records(tmp_path / "out", made.chapter(NAME))
    assert [row.points for row in found.rows] == [0.0, 0.0, 1.5, 0.0, 0.0]


def owed(folder, links, exercises):
    """Exercise -> the cells that are replaced for it, where all failed: of answers of which each uses the one before it."""
    names = ("low", "middle", "high", "top")[:links]
    answer = '# %% answer="{0}"\ndef {0}(x):\n    ### BEGIN SOLUTION\n    return {1}\n    ### END SOLUTION\n\n'
    source = "# %% [markdown]\n# # Chain\n\n" + answer.format("low", "x")
    source += "".join(answer.format(name, f"{before}(x)") for before, name in pairwise(names))
    for name, cells in exercises.items():
        source += f'# %% check="{name}" answers={json.dumps(cells)} points=1\n{cells[-1]}(1)\n\n'
    made = courses.write(folder, NAME, source)
    reference = tuple(build.solution_source(made, NAME).items())
    rubric = Rubric(made.chapter(NAME), (), "checks", "grader", "environment", reference=reference)
    wrong = {name: source.replace("return ", "return 9 + ") for name, source in rubric.references.items()}
    marks = [Mark(name, 0.0, 1.0, Result.FAILED, Fault.STUDENT, "no") for name in exercises]
    return {each.exercise: each.replaced for each in carried.owed(rubric, Submission("ann", NAME, wrong), marks)}


def test_no_cell_of_its_own_is_replaced(tmp_path):
    """Not where an earlier answer that it uses needs that cell, too."""
    assert owed(tmp_path, 3, {"middle": ["middle"], "ends": ["low", "high"]})["ends"] == ("middle",)


def test_what_an_earlier_answer_uses_is_replaced_down_to_the_last(tmp_path):
    assert owed(tmp_path, 4, {name: [name] for name in ("low", "middle", "high", "top")})["top"] == (
        "high",
        "low",
        "middle",
    )
