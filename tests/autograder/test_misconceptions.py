"""What a wrong answer is called: by what it does on the inputs of a whole class, never by the sentence of its check."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import courses
import numpy as np
import pytest
from small_course import CHECKS, NAME, RIGHT, SOURCE, command

from autograder.gradebook import history, record
from autograder.job import grade
from autograder.job.forkserver import InfrastructureError
from autograder.model import behaviour
from autograder.model.behaviour import Known, Seen
from autograder.model.course import CourseError
from autograder.model.rubric import PlannedTest
from autograder.model.verdict import Result
from autograder.probe import listed, traces
from autograder.sandbox import boxes

pytestmark = pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem())
LISTED = """
[double.wrong]
squared = { says = "The result is not twice", source = "def double(x):\\n    return x * x" }
left_as_it_is = { says = "The result is not twice", source = "def double(x):\\n    return x" }
left_alone = { says = "The result is not twice", source = "def double(x):\\n    return 1 * x" }
rounded_to_a_list = { says = "returned a list", source = "def double(x):\\n    return [round(2 * each) for each in x]" }

[shift.wrong]
minus = { says = "The sum is off", source = "def shift(x, by):\\n    return x - by" }
never_ends = { says = "kernel", source = "def shift(x, by):\\n    import os\\n    os._exit(0)" }
raises = { says = "raised", source = "def shift(x, by):\\n    raise ValueError('no sums today')" }
"""
CLASS = {  # student -> the exercise that is wrong, its source, its label
    "ann": ("double", "def double(array):\n    product = array ** 2\n    return product", "squared"),
    "ben": ("double", "def double(x):\n    return x + 1e-9", "left_as_it_is or left_alone"),
    "cat": ("double", "def double(x):\n    return x + 1", "unlisted"),
    "dan": ("double", "def double(x):\n    return x * x * x", "unlisted"),
    "eva": ("shift", "def shift(a, b):\n    return -(b - a)", "minus"),
    "fay": ("shift", "def shift(x, by):\n    return by - x", "unlisted"),
    "gil": ("shift", "def shift(x, by):\n    import sys\n\n    raise ValueError('no ' + 'sums today')", "raises"),
    "hal": ("shift", "def shift(x, by):\n    raise ValueError('squared')", "unlisted"),
    "ida": ("shift", "def shift(x, by):\n    import os\n    os._exit(0)", ""),  # crashed: what it was is not known
    "joe": ("double", "def double(x):\n    return squared  # misconception: squared", "unlisted"),
    "kim": ("double", "def double(x):\n    return [round(each + each) for each in x]", "rounded_to_a_list"),
}


@pytest.fixture(scope="module")
def listing(tmp_path_factory):
    course = courses.write(tmp_path_factory.mktemp("listing") / "course", NAME, SOURCE, CHECKS)
    course.listed_file(NAME).write_text(LISTED)
    yield course
    courses.close(course)


def handed_in(course, folder, class_):
    for student, (exercise, source, _) in class_.items():
        notebook = json.loads(course.notebook(NAME).read_text())
        for cell in notebook["cells"]:
            meta = cell["metadata"].get("nbgrader", {})
            if meta.get("solution"):
                cell["source"] = (RIGHT | {exercise: source})[meta["grade_id"]]
        place = folder / student / NAME
        place.mkdir(parents=True)
        (place / f"{NAME}.ipynb").write_text(json.dumps(notebook))
    return folder


@pytest.fixture(scope="module")
def graded(listing, tmp_path_factory):
    root = tmp_path_factory.mktemp("labels")
    folder, out = handed_in(listing, root / "submitted", CLASS | {"zoe": ("why", "So.", "")}), root / "out"
    done = command("grade", NAME, "--submissions", folder, "--out", out, root=listing.root)
    assert done.returncode == 0, done.stderr
    with (out / "marks.csv").open(newline="") as file:
        return out, {(row["student"], row["exercise"]): row for row in csv.DictReader(file)}


@pytest.mark.parametrize("student", CLASS)
def test_a_wrong_answer_is_called_what_it_behaves_like_or_unlisted(graded, student):
    exercise, _, label = CLASS[student]
    row = graded[1][student, exercise]
    assert (row["misconception"], row["points"]) == (label, "0")


def test_what_is_right_has_no_label(graded):
    right = [row for (student, exercise), row in graded[1].items() if CLASS.get(student, ("",))[0] != exercise]
    assert {row["misconception"] for row in right} == {""}
    assert {row["verdict"] for row in right} == {"passed", "manual"}


def test_the_sentence_is_of_the_students_own_inputs(graded):
    out, rows = graded
    assert rows["cat", "double"]["message"] == "The result is not twice the argument."
    page = (out / "feedback" / "cat" / NAME / f"{NAME}.html").read_text()
    assert "left_as_it_is" not in page
    assert "squared" not in page


def test_the_class_page_counts_who_makes_the_same_mistake_by_what_they_do(graded):
    page = (graded[0] / f"report_{NAME}.html").read_text().replace("<wbr>", "")
    assert "left_as_it_is or left_alone" in page


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Every job that is graded, in order, on a machine that has seen no listed answer."""
    monkeypatch.setenv("ACROSS_CACHE", str(tmp_path / "cache"))
    seen, real = [], grade.grade_job
    monkeypatch.setattr(grade, "grade_job", lambda job, course: seen.append(job) or real(job, course))
    return seen


def names(course, out):
    return {
        row.student: row.misconception for row in record.rows(out, course.chapter(NAME)) if row.exercise == "double"
    }


def test_listed_answers_are_looked_at_once_for_all_classes_and_labels_stay_as_they_are(listing, tmp_path, jobs):
    one, more = ({name: CLASS[name]} for name in ("ann", "cat"))
    folder, out = handed_in(listing, tmp_path / "submitted", one), tmp_path / "out"
    courses.graded(listing, NAME, folder, out)
    of_who_failed = ("squared", "left_as_it_is", "left_alone", "rounded_to_a_list")  # nobody failed `shift`
    looked_at = {job.submission.student for job in jobs if job.compared.only}
    assert looked_at == {f"(double: {name})" for name in of_who_failed}
    jobs.clear()
    courses.graded(listing, NAME, handed_in(listing, folder, more), out, again=True)
    assert sorted(job.submission.student for job in jobs) == ["(reference)", "ann", "cat"]
    jobs.clear()
    courses.graded(listing, NAME, folder, tmp_path / "of_another_class")
    assert sorted(job.submission.student for job in jobs) == ["(reference)", "ann", "cat"]
    assert names(listing, out) == {"ann": "squared", "cat": "unlisted"}
    assert not any(each.verdict.behaviour for each in record.records(out, listing.chapter(NAME)))


def test_everybody_has_their_marks_before_a_listed_answer_is_graded(listing, tmp_path, jobs, monkeypatch):
    folder, out = (
        handed_in(listing, tmp_path / "in", {name: CLASS[name] for name in ("ann", "cat", "eva")}),
        tmp_path / "out",
    )
    recorded, graded = [], grade.grade_job

    def grade_job(job, course):
        if job.compared.only:
            recorded.append([each.points for each in record.records(out, listing.chapter(NAME))])
        return graded(job, course)

    monkeypatch.setattr(grade, "grade_job", grade_job)
    courses.graded(listing, NAME, folder, out)
    assert recorded == [[3.0, 3.0, 2.0]] * 7


def changes_of_marks(course, out):
    with record.book(out, course.chapter(NAME)) as book:
        return history.entries(book, NAME)


def test_who_is_interrupted_among_listed_answers_has_marks_and_the_next_run_goes_on(
    listing, tmp_path, jobs, monkeypatch
):
    folder, out = handed_in(listing, tmp_path / "in", {"ann": CLASS["ann"]}), tmp_path / "out"
    graded = grade.grade_job

    def grade_job(job, course):
        if len([each for each in jobs if each.compared.only]) == 2:
            raise CourseError("the command ends here")
        return graded(job, course)

    monkeypatch.setattr(grade, "grade_job", grade_job)
    with pytest.raises(CourseError, match="ends here"):
        courses.graded(listing, NAME, folder, out, workers=1)
    [before] = record.records(out, listing.chapter(NAME))
    told = changes_of_marks(listing, out)
    assert (before.points, names(listing, out)) == (3.0, {"ann": ""})
    first = [job.submission.student for job in jobs if job.compared.only]
    jobs.clear()
    monkeypatch.setattr(grade, "grade_job", graded)
    result = courses.graded(listing, NAME, folder, out)
    assert result.unchanged == ["ann"]
    then = [job.submission.student for job in jobs if job.submission.student != "(reference)"]
    assert (len(first), sorted(first + then)) == (
        2,
        [f"(double: {name})" for name in ("left_alone", "left_as_it_is", "rounded_to_a_list", "squared")],
    )
    [after] = record.records(out, listing.chapter(NAME))
    assert (after.points, names(listing, out)) == (3.0, {"ann": "squared"})
    assert after.verdict.digest == before.verdict.digest
    assert changes_of_marks(listing, out) == told


def test_where_a_listed_answer_cannot_be_graded_its_exercise_waits_for_its_names(listing, tmp_path, jobs, monkeypatch):
    folder, out = handed_in(listing, tmp_path / "in", {name: CLASS[name] for name in ("ann", "eva")}), tmp_path / "out"
    graded = grade.grade_job

    def grade_job(job, course):
        if job.submission.student == "(double: left_alone)":
            raise InfrastructureError("no box")
        return graded(job, course)

    with monkeypatch.context() as patch:
        patch.setattr(grade, "grade_job", grade_job)
        result = courses.graded(listing, NAME, folder, out)
    rows = record.rows(out, listing.chapter(NAME))
    found = {row.student: row.misconception for row in rows if row.verdict is Result.FAILED}
    assert (result.unnamed, found) == (1, {"ann": "", "eva": "minus"})
    assert courses.graded(listing, NAME, folder, out).unnamed == 0
    assert names(listing, out)["ann"] == "squared"


def test_a_rehearsal_looks_at_no_listed_answer(listing, tmp_path, jobs):
    courses.rehearsed(listing, NAME, handed_in(listing, tmp_path / "in", {"ann": CLASS["ann"]}), tmp_path / "out")
    assert {job.submission.student for job in jobs} == {"(reference)", "ann"}


def test_a_cache_that_cannot_be_read_is_made_again(listing, tmp_path, monkeypatch):
    monkeypatch.setenv("ACROSS_CACHE", str(tmp_path / "cache"))
    folder = handed_in(listing, tmp_path / "submitted", {"ann": CLASS["ann"]})
    courses.graded(listing, NAME, folder, tmp_path / "out")
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_text("[{")
    courses.graded(listing, NAME, folder, tmp_path / "other")
    found = [row.misconception for row in record.rows(tmp_path / "other", listing.chapter(NAME))]
    assert "squared" in found
    assert kept.read_text() != "[{"


def test_a_label_decides_no_mark_and_makes_no_other_verdict(listing, tmp_path):
    """The digest of a job, and so what is graded anew, is the same however it is compared."""
    jobs, real = [], grade.grade_job
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grade, "grade_job", lambda job, course: jobs.append(job) or real(job, course))
        courses.graded(listing, NAME, handed_in(listing, tmp_path / "in", {"ann": CLASS["ann"]}), tmp_path / "out")
    job = jobs[-1]
    alone = grade.Job(job.submission, job.rubric, job.seed)
    assert job.digest == alone.digest
    points = [[mark.points for mark in real(each, listing).marks] for each in (job, alone)]
    assert points[0] == points[1]


ONE = Seen("f", "test_it", False, "assert", "It is off.", "ab", (1.0, 2.0))
PLANNED = [PlannedTest("f", "test_it"), PlannedTest("f", "test_that")]
OTHER = Seen("f", "test_that", True)


@pytest.mark.parametrize(
    ("mine", "same"),
    [
        ({}, True),
        ({"numbers": (1.000001, 2.0)}, True),
        ({"says": "It is off by far."}, True),  # what came back is the same
        ({"numbers": (1.01, 2.0)}, False),
        ({"numbers": (1.0,)}, False),
        ({"shape": "cd"}, False),
        ({"kind": "refused"}, False),
        ({"passed": True}, False),
        ({"shape": "", "numbers": ()}, False),
    ],
)
def test_two_answers_are_alike_where_the_same_came_back(mine, same):
    known = [Known("f", "adds", (ONE, OTHER))]
    found = behaviour.labels(PLANNED, [replace(ONE, **mine), OTHER], known)
    assert found == {"f": "adds" if same else "unlisted"}


def test_an_answer_of_which_not_every_check_was_seen_is_like_none():
    known = [Known("f", "adds", (ONE, OTHER)), Known("f", "lost", (ONE,))]
    assert behaviour.labels(PLANNED, [ONE], known) == {"f": "unlisted"}
    assert behaviour.labels(PLANNED, [ONE, replace(OTHER, passed=False, kind="assert")], known) == {"f": "unlisted"}
    assert behaviour.labels(PLANNED, [], known) == {"f": "unlisted"}
    assert behaviour.labels(PLANNED, [replace(ONE, passed=True), OTHER], [Known("f", "right", (OTHER,))]) == {
        "f": "unlisted"
    }


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1, 2.0], (True, np.float32(2).item()), True),
        (np.ones((2, 2)), [[1, 1], [1, 1]], True),
        (np.ones((2, 2)), [1, 1, 1, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": "1"}, False),
        ("ab", ["a", "b"], False),
        (["a", "bc"], ["ab", "c"], False),
        (float("nan"), float("nan"), True),
        (float("inf"), 10**400, False),
        ([1, float("nan")], [float("nan"), 1], False),
        (1 + 2j, 1 + 3j, False),
        ({"error": "E", "says": "x", "line": 3}, {"error": "E", "says": "x", "line": 4}, True),
        ({"error": "E", "says": "x", "line": 3}, {"error": "E", "says": "y", "line": 3}, False),
    ],
)
def test_what_came_back_is_compared_as_a_check_would(one, other, same):
    assert (traces.trace([one]) == traces.trace([other])) == same


def test_what_is_kept_of_an_answer_is_short_whatever_it_is():
    many = np.arange(1e6)
    shape, numbers = traces.trace([many, list(range(5000))])
    assert len(shape) == 32
    assert len(numbers) <= traces.NUMBERS
    assert (shape, numbers) != traces.trace([many[::-1], list(range(5000))])
    assert traces.trace(["\ud800" * 9, b"x"])[0] != traces.trace(["\ud801" * 9, b"x"])[0]
    assert traces.trace([]) == ("", ())


def test_a_listed_answer_cannot_be_called_as_one_that_is_none(own_small):
    own_small.listed_file(NAME).write_text("[double.wrong]\nunlisted = { says = 'x', change = ['2', '3'] }\n")
    with pytest.raises(CourseError, match=r"double.wrong.unlisted: .* another name"):
        listed.variants(own_small.listed_file(NAME))


ASKED_TWICE = """\
asked = []

def double(x):
    asked.append(1)
    if len(asked) > 1:
        import time
        time.sleep(1e6)
    return x * x
"""
RIGHT_THE_SECOND_TIME = """\
asked = []

def double(x):
    asked.append(1)
    return x * x if len(asked) == 1 else x * 2
"""


@pytest.mark.parametrize("source", [ASKED_TWICE, RIGHT_THE_SECOND_TIME])
def test_what_an_answer_does_when_it_is_compared_changes_no_mark(own_small, tmp_path, source):
    limits = "# ---\n# jupyter:\n#   across:\n#     limits: {question_seconds: 1}\n# ---\n\n"
    (own_small.root / "solutions" / f"{NAME}.py").write_text(limits + SOURCE)
    from autograder.authoring import build

    build.build(own_small)
    own_small.listed_file(NAME).write_text(LISTED)
    folder = handed_in(own_small, tmp_path / "in", {"moe": ("double", source, "")})
    out = tmp_path / "out"
    courses.graded(own_small, NAME, folder, out)
    [found] = record.records(out, own_small.chapter(NAME))
    assert [(row.points, row.verdict.value, row.misconception) for row in found.rows] == [
        (0.0, "failed", "unlisted"),
        (3.0, "passed", ""),
        (0.0, "manual", ""),
    ]
    assert found.verdict.evidence.halts == ()


LOST_AT_THE_SECOND_TEST = """\
def double(x):
    if len(x) == 4:
        import os
        os._exit(0)
    return x * x
"""
TWO_TESTS = """

@exercise("double")
def test_it_doubles_more(student, rng):
    assert student.ask(doubled, x=rng.normal(size=4)) is not None, "Nothing came back."
"""


def test_an_exercise_that_was_given_up_keeps_no_other_from_being_called_what_it_is(own_small, tmp_path):
    """Asked again, it would end the kernel again, before the others are."""
    (own_small.root / "checks" / f"test_{NAME}.py").write_text(
        CHECKS.replace('\n\n@exercise("shift")', TWO_TESTS + '\n\n@exercise("shift")')
    )
    own_small.listed_file(NAME).write_text(LISTED)
    mal = {"double": LOST_AT_THE_SECOND_TEST, "shift": CLASS["eva"][1]}
    folder = handed_in(own_small, tmp_path / "in", {"mal": ("double", mal["double"], "")})
    path = folder / "mal" / NAME / f"{NAME}.ipynb"
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "shift":
            cell["source"] = mal["shift"]
    path.write_text(json.dumps(notebook))
    courses.graded(own_small, NAME, folder, tmp_path / "out")
    rows = record.rows(tmp_path / "out", own_small.chapter(NAME))
    assert [(row.points, str(row.verdict), row.misconception) for row in rows[:2]] == [
        (0.0, "crashed", ""),
        (0.0, "failed", "minus"),
    ]


KILLED_WHEN_IT_COMPARES = """
import os

times = []

def kill_once():
    times.append(1)
    if len(times) == 2:
        os.kill(os.getpid(), 9)

"""


def test_a_checker_that_is_killed_while_it_compares_changes_no_name(own_small, tmp_path):
    checks = CHECKS.replace("\n@probe", KILLED_WHEN_IT_COMPARES + "\n@probe", 1)
    (own_small.root / "checks" / f"test_{NAME}.py").write_text(
        checks.replace("    x, by =", "    kill_once()\n    x, by =")
    )
    own_small.listed_file(NAME).write_text(LISTED)
    folder = handed_in(own_small, tmp_path / "in", {name: CLASS[name] for name in ("ann", "eva")})
    courses.graded(own_small, NAME, folder, tmp_path / "out")
    rows = record.rows(tmp_path / "out", own_small.chapter(NAME))
    found = {(row.student, row.exercise): (row.points, row.misconception) for row in rows if row.misconception}
    assert found == {("ann", "double"): (0.0, "squared"), ("eva", "shift"): (0.0, "minus")}
