"""Where a limit of time is reached, the reference is asked the same beside it: a busy machine takes nobody's points.

A busy machine is here a reference that sleeps: so nothing depends on how busy this machine really is.
"""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
from boxed import needs_a_box
from small_course import NAME, RIGHT

from autograder.engine import class_run
from autograder.job import carried, clocks, forkserver, grade, life
from autograder.job.clocks import BusyError
from autograder.model.course import CourseError
from autograder.model.rubric import Rubric
from autograder.model.verdict import Evidence, Fault, Mark, Result, Verdict
from autograder.submissions.intake import Submission

pytestmark = needs_a_box

SHORT = {"cell_seconds": 6.0, "question_seconds": 1.5, "notebook_seconds": 30.0, "memory_bytes": 1 << 30}
LOOP = "while True: pass"
QUESTION, CELL = "def double(x):\n    {}\n    return 2 * x", "import time\n{}\ndef double(x):\n    return 2 * x"


@pytest.fixture(scope="module")
def rubric(small):
    return forkserver.make_rubric(small, NAME, limits=SHORT)


def graded(small, rubric, answers, reference=RIGHT):
    """The marks of RIGHT with these `answers`, where the reference asked beside them is this one."""
    job = grade.Job(Submission("ada", NAME, RIGHT | answers), rubric, 1, reference=tuple(reference.items()))
    verdict = grade.grade_job(job, small)
    return {mark.exercise: mark for mark in verdict.marks}, verdict


@pytest.mark.parametrize(
    ("source", "sleeps", "more"),
    [
        (QUESTION, "__import__('time').sleep(0.9)", {}),
        (QUESTION, "__import__('time').sleep(60)", {}),
        (CELL, "time.sleep(3.2)", {}),
        (CELL, "time.sleep(2.2)", {"notebook_seconds": 4.0}),
    ],
    ids=["question_seconds", "reached by both", "cell_seconds", "notebook_seconds"],
)
@pytest.mark.whole
def test_where_the_reference_needs_half_of_the_limit_too_there_is_no_mark(small, source, sleeps, more):
    rubric = forkserver.make_rubric(small, NAME, limits=SHORT | more)
    with pytest.raises(BusyError, match=r"this machine was busy: load \d+, \d+ cores; run again"):
        graded(small, rubric, {"double": source.format(LOOP)}, RIGHT | {"double": source.format(sleeps)})


@pytest.mark.parametrize("source", [QUESTION, CELL], ids=["asked", "executed"])
@pytest.mark.whole
def test_where_the_reference_is_quick_the_answer_was_slow(small, rubric, source):
    marks, _ = graded(small, rubric, {"double": source.format(LOOP)})
    assert (marks["double"].result, marks["double"].fault) == (Result.TIMEOUT, Fault.LIMIT)
    assert marks["shift"].result is Result.PASSED


@pytest.mark.whole
def test_the_kernel_has_ended_before_the_reference_is_asked(small, rubric, monkeypatch):
    kernels, alive = [], []

    class Noted(life.KernelProcess):
        def __init__(self, *args):
            super().__init__(*args)
            kernels.append(self)

    def beside(job, *_):
        return clocks.Reference(dict(job.reference), lambda *_: alive.append(kernels[-1].alive()) or False)

    monkeypatch.setattr(life, "KernelProcess", Noted)
    monkeypatch.setattr(grade, "_beside", beside)
    forks = "import os\nfor _ in range(4):\n    os.fork()\nwhile True: pass"
    graded(small, rubric, {"double": CELL.format(forks)})
    assert alive
    assert not any(alive)


@pytest.mark.whole
def test_the_references_own_text_never_ends_in_a_recorded_timeout(small, rubric, monkeypatch):
    monkeypatch.setattr(grade, "_beside", lambda job, *_: clocks.Reference(dict(job.reference), lambda *_: False))
    slow = {"double": QUESTION.format(LOOP)}
    with pytest.raises(BusyError, match="it is the reference"):
        graded(small, rubric, slow, RIGHT | slow)


@pytest.mark.whole
def test_where_another_cell_makes_the_references_own_text_hang_it_is_recorded_in_the_end(small, rubric):
    other = {"shift": f"def double(x):\n    {LOOP}\n\ndef shift(x, by):\n    return x + by"}
    marks, verdict = graded(small, rubric, other)
    assert [note for note in verdict.notes if "the reference's own text" in note]
    assert (marks["double"].result, marks["shift"].result) == (Result.TIMEOUT, Result.PASSED)


def test_an_answer_asked_again_on_the_references_says_that_the_machine_was_busy(monkeypatch):
    owed = carried.Owed("shift", ("double",), ())
    monkeypatch.setattr(carried, "owed", lambda *_: [owed])
    rubric: Rubric = SimpleNamespace(
        chapter=SimpleNamespace(follow_through=0.5), reference=(("double", ""),), references={}
    )  # pyright: ignore

    def again(*_):
        raise pickle.loads(pickle.dumps(BusyError.at("shift: question_seconds")))  # as it comes from another machine

    with pytest.raises(BusyError, match=r"^shift: question_seconds: this machine was busy: [^:]+; run again$"):
        carried.after(rubric, Submission("ada", NAME), (), again)


def told(result: Result, notes: tuple[str, ...] = ()) -> Verdict:
    """The verdict on a reference that does not get its points."""
    marks = (Mark("double", 0.0, 2.0, result, Fault.LIMIT, "It did not end."),)
    return Verdict("(reference)", NAME, "d" * 64, marks, 1, 1.0, {}, notes, Evidence())


@pytest.mark.parametrize(
    ("verdict", "load", "error", "says"),
    [
        (told(Result.TIMEOUT), 99.0, BusyError, "busy: load 99"),
        (told(Result.TIMEOUT, (f"{clocks.WAITED}: it waited",)), 0.0, BusyError, "run again"),
        (told(Result.TIMEOUT), 0.0, CourseError, "mend the check or the solution"),
        (told(Result.FAILED), 99.0, CourseError, "mend the check or the solution"),
    ],
)
def test_a_reference_that_runs_out_of_time_on_a_busy_machine_is_no_fault_of_its_author(
    small, rubric, monkeypatch, verdict, load, error, says
):
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(grade, "grade_job", lambda *_: verdict)
    with pytest.raises(error, match=says):
        class_run.try_reference(small, rubric, RIGHT)
