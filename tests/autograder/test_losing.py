"""Losing, delaying or confusing a process at each step of a job never earns a point, and is never this machine's fault.

A course of one exercise with three tests and one beside it. What the student's code does at the Nth call of its function is
what is tried; the marks are held against the plan, not against what came back.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import courses
import pytest
from boxed import needs_a_box
from small_course import CODE, NAME, PROBES, RIGHT

from autograder.job import clocks, forkserver, grade
from autograder.job.clocks import BusyError
from autograder.model.verdict import Fault, Result
from autograder.submissions.intake import Submission

pytestmark = needs_a_box

SOURCE = CODE.replace("import numpy as np", "import os, time").replace("points=2", "points=6")
CHECKS = (
    PROBES
    + """\
import time

@exercise("double")
def test_once(student):
    assert student.ask(doubled, x=1) == 2, "No."

@exercise("shift")
def test_shift(student):
    assert student.ask(shifted, x=3, by=1) == 4, "No."

@exercise("double")
def test_twice(student):
    assert student.ask(doubled, x=2) == 4, "No."

@exercise("double")
def test_thrice(student):
    got = student.ask(doubled, x=3)
    while got == "for ever":
        time.sleep(1)
    assert got == 6, "No."
"""
)
AT = "calls = 0\ndef double(x):\n    global calls\n    calls += 1\n    if x == {n}:\n        {act}\n    return 2 * x\n"
SHORT = {"cell_seconds": 6.0, "question_seconds": 1.5, "notebook_seconds": 20.0, "memory_bytes": 1 << 30}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return courses.write(tmp_path_factory.mktemp("course"), NAME, SOURCE, CHECKS)


@pytest.fixture(scope="module")
def rubric(course):
    return forkserver.make_rubric(course, NAME, limits=SHORT)


def graded(course, rubric, double: str, reference: str = ""):
    """The marks; `reference`, if there is one, is the `double` that is asked at a limit of time."""
    answers = {"double": double, "shift": RIGHT["shift"]}
    own = tuple({**answers, "double": reference}.items()) if reference else ()
    verdict = grade.grade_job(grade.Job(Submission("mal", NAME, answers), rubric, 1, reference=own), course)
    return {mark.exercise: mark for mark in verdict.marks}, verdict


EXITS, SLEEPS, BREAKS_THE_FRAME = "os._exit(0)", "time.sleep(60)", "os.write(3, b'ASK1' + bytes(64))"


@pytest.mark.parametrize(("act", "n"), [(EXITS, 1), (EXITS, 2), (EXITS, 3), (SLEEPS, 3), (BREAKS_THE_FRAME, 2)])
def test_losing_it_at_any_test_earns_nothing_for_the_exercise_and_costs_no_other(course, rubric, act, n):
    """Other ways, each at every test, are attacks of the corpus: kills_itself, takes_all_memory, hangs."""
    marks, verdict = graded(course, rubric, AT.format(n=n, act=act))
    assert marks["double"].points == 0.0, marks["double"]
    assert marks["double"].fault in (Fault.STUDENT, Fault.LIMIT)
    assert marks["shift"].points == 3.0, (marks["shift"], verdict.notes)


@pytest.mark.whole
def test_a_notebook_that_sleeps_its_time_away_earns_what_was_seen_to_pass_at_most(course, rubric):
    marks, _ = graded(course, rubric, "time.sleep(5.5)\n" + AT.format(n=2, act="time.sleep(60)"))
    assert marks["double"].points == 0.0


SLOW = """
def double(x):
    ends = time.process_time() + {seconds}
    while time.process_time() < ends:
        pass
    return 2 * x
"""


@pytest.mark.whole
def test_an_answer_that_was_slow_because_others_had_the_processors_gets_another_life(course, rubric):
    spins = "import time\nends = time.monotonic() + 3\nwhile time.monotonic() < ends: pass"
    others = [subprocess.Popen([sys.executable, "-c", spins]) for _ in range(6 * (os.cpu_count() or 1))]
    try:
        marks, verdict = graded(course, rubric, SLOW.format(seconds=0.7))
    finally:
        for other in others:
            other.kill()
            other.wait()
    # where still others work here it may be slow in that one, too
    another = [note for note in verdict.notes if "busy" in note]
    assert another or marks["double"].points == 6.0, verdict.notes


def test_what_a_check_is_made_to_print_does_not_keep_the_next_one_from_printing(tmp_path):
    checks = CHECKS.replace("got = student.ask(doubled, x=3)", "print(got := student.ask(doubled, x=3), flush=True)")
    course = courses.write(tmp_path, NAME, SOURCE, checks)
    rubric = forkserver.make_rubric(course, NAME, limits={**SHORT, "question_seconds": 10.0})
    graded(course, rubric, AT.format(n=3, act=f"return 'x' * {2 * rubric.chapter.checker.file_bytes}"))
    marks, verdict = graded(course, rubric, "def double(x):\n    return x * 2\n")
    assert marks["double"].points == 6.0, verdict.evidence.outcomes


@pytest.mark.whole
def test_a_kernel_that_ends_when_little_time_is_left_for_another_is_no_fault_of_this_machine(tmp_path, monkeypatch):
    # each kernel needs 2 s for its first cell; the second has 1.5 s from when it listens, however long anything took to start,
    # and no third one for having waited for a processor: that is the test above
    lives, left = clocks.Clocks.lives, iter([20.0, 1.5])

    def begins(self, kernel):
        lives(self, kernel)
        self.until = time.monotonic() + next(left)

    monkeypatch.setattr(clocks.Clocks, "lives", begins)
    monkeypatch.setattr(clocks.Clocks, "starved", lambda *_: 0.0)
    course = courses.write(tmp_path, NAME, SOURCE.replace("import os, time", "import os, time\ntime.sleep(2)"), CHECKS)
    rubric = forkserver.make_rubric(course, NAME, limits=SHORT)
    marks, verdict = graded(course, rubric, "os._exit(1)\n")
    assert (marks["double"].points, marks["shift"].points) == (0.0, 0.0), verdict.notes
    assert (marks["shift"].result, marks["shift"].fault) == (Result.TIMEOUT, Fault.LIMIT)
    assert verdict.evidence.lives == 2


AGAIN = """
late = time.time() > {late}  # a kernel of another life, which guesses another rule
calls = []
def double(x):
    calls.append(x)
    if calls == [1, 2]:  # the second question of the first test never came: so what that one was told was wrong
        time.sleep(max(0.0, {late} + 0.2 - time.time()))
        os.kill(os.getpid(), 9)
    return x * (2 if late else 3)
"""


@pytest.mark.whole
def test_nobody_learns_that_a_guess_was_wrong_and_guesses_again_in_another_life(tmp_path):
    checks = CHECKS.replace('x=1) == 2, "No."', 'x=1) == 2, "No."\n    assert student.ask(doubled, x=10) == 20, "No."')
    course = courses.write(tmp_path, NAME, SOURCE, checks)
    rubric = forkserver.make_rubric(course, NAME, limits={**SHORT, "question_seconds": 10.0})
    graded(course, rubric, "def double(x):\n    return x * 2\n")  # the servers' start is none of the four seconds
    marks, verdict = graded(course, rubric, AGAIN.format(late=time.time() + 4))
    assert verdict.evidence.lives == 2
    assert marks["double"].points == 4.0  # of three tests, one has failed once and for all


def test_a_check_that_never_ends_is_the_authors_and_costs_no_other_exercise(course, rubric):
    marks, verdict = graded(course, rubric, AT.format(n=3, act="return 'for ever'"))
    assert (marks["double"].fault, marks["double"].points) == (Fault.AUTHOR, 4.0)
    assert marks["shift"].points == 3.0
    assert [each.test for each in verdict.evidence.outcomes if each.broke] == ["test_thrice"]


@pytest.mark.whole
def test_a_check_that_does_not_end_on_the_reference_either_is_nobodys_fault(course, rubric):
    for_ever = AT.format(n=3, act="return 'for ever'")
    with pytest.raises(BusyError, match="double: question_seconds"):
        graded(course, rubric, for_ever, reference=for_ever + "\n")


@pytest.mark.whole
def test_a_check_that_does_not_end_on_the_references_own_text_is_tried_once_more(course, rubric, monkeypatch):
    monkeypatch.setattr(grade, "_beside", lambda job, *_: clocks.Reference(dict(job.reference), lambda *_: False))
    for_ever = AT.format(n=3, act="return 'for ever'")
    with pytest.raises(BusyError, match="it is the reference"):
        graded(course, rubric, for_ever, reference=for_ever)


def test_the_honest_get_all(course, rubric):
    marks, verdict = graded(course, rubric, "def double(x):\n    return x + x\n")
    assert [mark.points for mark in marks.values()] == [6.0, 3.0]
    assert [(each.exercise, each.test) for each in verdict.evidence.outcomes] == [
        (each.exercise, each.name) for each in rubric.tests
    ]
