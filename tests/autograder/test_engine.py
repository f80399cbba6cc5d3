"""Grading a class of a small chapter, through the real sandbox."""

import json
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import courses
import pytest
from boxed import needs_a_box
from small_course import CHECKS, NAME, RIGHT, command, points

from autograder.commands import grading
from autograder.engine import class_run
from autograder.engine import jobs as run_jobs
from autograder.gradebook import record
from autograder.job import forkserver, grade
from autograder.job.forkserver import InfrastructureError
from autograder.model.course import Course, CourseError
from autograder.model.limits import MIB
from autograder.model.verdict import Fault, Result, Stop
from autograder.report import changes
from autograder.sandbox import boxes
from autograder.submissions import intake

pytestmark = needs_a_box
WRONG = RIGHT | {"shift": "def shift(x, by):\n    return x"}


def test_a_class_gets_its_marks(small, hand_in, tmp_path):
    hand_in("ada")
    hand_in("bob", RIGHT | {"double": "def double(x):\n    return x * x"})
    folder = hand_in("cem", {})
    result = courses.graded(small, NAME, folder, tmp_path / "out", workers=2)
    assert sorted(result.graded) == ["ada", "bob", "cem"]
    assert result.faults == {}
    assert points(small, tmp_path / "out") == {
        "ada": {"double": (2.0, "passed"), "shift": (3.0, "passed"), "why": (0.0, "manual")},
        "bob": {"double": (0.0, "failed"), "shift": (3.0, "passed"), "why": (0.0, "manual")},
        "cem": {"double": (0.0, "blank"), "shift": (0.0, "blank"), "why": (0.0, "blank")},
    }


@pytest.mark.whole
def test_a_mark_does_not_depend_on_which_signals_the_command_ignores(small, own_small, hand_in, tmp_path):
    hangs_up = "import os, signal\nos.kill(os.getpid(), signal.SIGHUP)\n\ndef double(x):\n    return 2 * x"
    folder = hand_in("ada", RIGHT | {"double": hangs_up})
    courses.graded(small, NAME, folder, tmp_path / "out")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; servers that are started inherit it
    try:
        courses.graded(own_small, NAME, folder, tmp_path / "nohup")
    finally:
        signal.signal(signal.SIGHUP, before)
    for course, out in ((small, "out"), (own_small, "nohup")):
        assert points(course, tmp_path / out)["ada"]["double"] == (0.0, "crashed")


def test_only_what_changed_is_graded_again(small, hand_in, tmp_path):
    hand_in("ada")
    folder = hand_in("bob", {})
    courses.graded(small, NAME, folder, tmp_path / "out")
    hand_in("bob", RIGHT)
    second = courses.graded(small, NAME, folder, tmp_path / "out")
    assert (second.graded, second.unchanged) == (["bob"], ["ada"])
    assert points(small, tmp_path / "out")["bob"]["double"] == (2.0, "passed")
    third = courses.graded(small, NAME, folder, tmp_path / "out", again=True)
    assert sorted(third.graded) == ["ada", "bob"]


@pytest.mark.whole
def test_the_same_answers_are_asked_with_the_same_inputs_and_other_classes_with_others(small, hand_in, tmp_path):
    folder = hand_in("ada")
    seeds = []
    for out in ("one", "one", "two"):
        courses.graded(small, NAME, folder, tmp_path / out, again=True)
        with record.Recorder(tmp_path / out, small.chapter(NAME)) as recorder:
            seeds.append(recorder.verdict("ada").seed)
    assert seeds[0] == seeds[1] != seeds[2]


def test_a_fault_of_this_machine_is_tried_again_and_not_scored(small, hand_in, tmp_path, monkeypatch):
    hand_in("ada")
    folder = hand_in("bob", {})
    tries = {"ada": 0, "bob": 0}
    real = grade.grade_job

    def flaky(job, course):
        student = job.submission.student
        if student in tries:
            tries[student] += 1
            if student == "bob" or tries[student] == 1:
                raise InfrastructureError("the disk is on fire")
        return real(job, course)

    monkeypatch.setattr(grade, "grade_job", flaky)
    result = courses.graded(small, NAME, folder, tmp_path / "out")
    assert (result.graded, list(result.faults)) == (["ada"], ["bob"])
    assert tries == {"ada": 2, "bob": run_jobs.TRIES}
    assert list(points(small, tmp_path / "out")) == ["ada"]
    lines = [json.loads(line) for line in (tmp_path / "out" / "grading.log").read_text().splitlines()]
    hers = [line for line in lines if line["student"] == "ada"]
    assert [(line["attempt"], line["event"]) for line in hers] == [(1, "not graded"), (2, "graded")]
    assert (hers[0]["error"], hers[1]["steps"].keys()) == ("the disk is on fire", {"start", "cells", "questions"})


def test_equal_answers_are_graded_once_and_each_has_a_record_of_their_own(small, hand_in, tmp_path, monkeypatch):
    hand_in("ada")
    hand_in("eve", RIGHT | {"double": RIGHT["double"] + "\n"})
    folder = hand_in("bob")
    (folder / "bob" / NAME / f"{NAME}.ipynb").write_bytes(
        b"\xef\xbb\xbf" + (folder / "ada" / NAME / f"{NAME}.ipynb").read_bytes()
    )
    (folder / "bob" / NAME / "timestamp.txt").write_text("no date")
    jobs = []
    real = grade.grade_job
    monkeypatch.setattr(grade, "grade_job", lambda job, course: jobs.append(job) or real(job, course))
    result = courses.graded(small, NAME, folder, tmp_path / "out")
    assert sorted(result.graded) == ["ada", "bob", "eve"]
    assert sorted(job.submission.student for job in jobs) == ["(reference)", "ada", "eve"]
    assert points(small, tmp_path / "out")["bob"] == points(small, tmp_path / "out")["ada"]
    ada, bob, _ = (each.verdict for each in record.records(tmp_path / "out", small.chapter(NAME)))
    assert (bob.digest, bob.seed, bob.marks) == (ada.digest, ada.seed, ada.marks)
    assert ada.notes == ()
    assert [note.split(" ")[0] for note in bob.notes] == ["timestamp.txt"]  # no date in it
    assert courses.graded(small, NAME, folder, tmp_path / "out").graded == []


@pytest.mark.whole
def test_who_was_left_by_a_fault_stays_in_the_marks_until_graded(small, hand_in, tmp_path, monkeypatch):
    out, real = tmp_path / "out", intake.read
    for student in ("ada", "bob"):
        folder = hand_in(student)

    def broken(found, chapter):
        if found.student == "bob":
            raise OSError("Input/output error")
        return real(found, chapter)

    def bobs():
        rows = [row for (student, _), row in courses.marks(out).items() if student == "bob"]
        assert "Input/output error" in rows[0]["message"] or rows[0]["fault"] == ""
        return {row["fault"] for row in rows}

    with monkeypatch.context() as patch:
        patch.setattr(intake, "read", broken)
        assert grading.grade_to_the_end(courses.asked(small, NAME, folder, out, watching=True)) == 1
        assert bobs() == {"INFRASTRUCTURE"}
        assert points(small, out)["ada"]["shift"] == (3.0, "passed")
        assert grading.grade_to_the_end(courses.asked(small, NAME, folder, out, watching=True, students=["ada"])) == 0
        assert bobs() == {"INFRASTRUCTURE"}
    assert grading.grade_to_the_end(courses.asked(small, NAME, folder, out, watching=True, students=["bob"])) == 0
    assert "INFRASTRUCTURE" not in bobs()


def test_checks_that_fail_on_the_reference_stop_the_run_before_anyone_is_graded(small, hand_in, tmp_path):
    says = r'exercise "shift": the reference is failed .The sum is off.*nobody was graded'
    with pytest.raises(CourseError, match=says):
        courses.graded(small, NAME, hand_in("ada"), tmp_path / "out", reference=WRONG)
    assert not (tmp_path / "out").exists()  # not even a seed


def jobs_of(monkeypatch, reference=lambda job, real: real(job)):
    """Who is graded from now on, in the order of their beginning; `reference` grades the reference."""
    begun, real = [], grade.grade_job

    def graded(job, course):
        begun.append(job.submission.student)
        if begun[-1] == "(reference)":
            return reference(job, lambda job: real(job, course))
        return real(job, course)

    monkeypatch.setattr(grade, "grade_job", graded)
    return begun


@pytest.mark.whole
def test_a_new_class_is_graded_beside_the_reference_and_each_job_once(small, hand_in, tmp_path, monkeypatch):
    for student, answers in (("ada", RIGHT), ("bob", {}), ("cem", RIGHT | {"double": "def double(x):\n    return 1"})):
        folder = hand_in(student, answers)
    last, written = threading.Event(), []

    def waits_for_the_others(job, real):
        assert last.wait(60)
        written.append((tmp_path / "out").exists())
        return real(job)

    begun = jobs_of(monkeypatch, waits_for_the_others)
    real = class_run.Jobs.begin

    def begin(run, jobs):
        real(run, jobs)
        if len(run._ahead) == 4:
            for (_, seed), (future, _) in run._ahead.items():
                if seed != 1:
                    future.result(60)
            last.set()

    monkeypatch.setattr(class_run.Jobs, "begin", begin)
    result = courses.graded(small, NAME, folder, tmp_path / "out", workers=2)
    assert sorted(result.graded) == ["ada", "bob", "cem"]
    assert written == [False]  # though the others were graded
    assert begun[0] == "(reference)"
    assert sorted(begun) == ["(reference)", "ada", "bob", "cem"]
    assert points(small, tmp_path / "out")["ada"]["double"] == (2.0, "passed")
    assert points(small, tmp_path / "out")["cem"]["double"] == (0.0, "failed")
    seeds = {each.verdict.seed for each in record.records(tmp_path / "out", small.chapter(NAME))}
    again = courses.graded(small, NAME, folder, tmp_path / "out", again=True)
    assert sorted(again.graded) == ["ada", "bob", "cem"]
    assert seeds == {each.verdict.seed for each in record.records(tmp_path / "out", small.chapter(NAME))}


def test_who_may_be_recorded_waits_for_the_reference(small, hand_in, tmp_path, monkeypatch):
    folder = hand_in("ada")
    courses.graded(small, NAME, folder, tmp_path / "out")
    hand_in("bob", {})
    begun = jobs_of(monkeypatch)
    with pytest.raises(CourseError, match="nobody was graded"):
        courses.graded(small, NAME, folder, tmp_path / "out", reference=WRONG)
    assert begun == ["(reference)"]
    assert list(points(small, tmp_path / "out")) == ["ada"]


@pytest.mark.whole
def test_a_reference_that_fails_beside_others_is_graded_again_alone(small, hand_in, tmp_path, monkeypatch):
    folder, tried = hand_in("ada"), []

    def slow_beside_others(job, real):
        tried.append(job)
        verdict = real(job)
        if len(tried) > 1:
            return verdict
        return replace(verdict, marks=tuple(replace(mark, result=Result.TIMEOUT) for mark in verdict.marks))

    begun = jobs_of(monkeypatch, slow_beside_others)
    assert courses.graded(small, NAME, folder, tmp_path / "out").graded == ["ada"]
    assert begun.count("(reference)") == 2
    assert begun[-1] == "ada"
    assert points(small, tmp_path / "out")["ada"]["double"] == (2.0, "passed")


@pytest.mark.whole
def test_who_watches_grades_the_reference_once_while_nothing_of_it_and_of_its_servers_changes(
    own_small, hand_in, tmp_path, monkeypatch
):
    real, tried = class_run.try_reference, []
    monkeypatch.setattr(class_run, "try_reference", lambda *args, **how: tried.append(1) or real(*args, **how))
    for student, count in (("ada", 1), ("bob", 1)):
        courses.graded(own_small, NAME, hand_in(student), tmp_path / "out", watching=True)
        assert len(tried) == count
    own_small.check_file(NAME).write_text(CHECKS + "\n# mended")
    courses.graded(own_small, NAME, hand_in("cem"), tmp_path / "out", watching=True)
    assert len(tried) == 2
    courses.graded(own_small, NAME, hand_in("dan"), tmp_path / "out", watching=True, trust=True)
    assert len(tried) == 3  # by another rubric
    with pytest.raises(CourseError, match="nobody was graded"):
        courses.graded(own_small, NAME, hand_in("eve"), tmp_path / "out", watching=True, reference=WRONG)
    class_run.close()
    courses.graded(own_small, NAME, hand_in("eve"), tmp_path / "out", watching=True)
    assert len(tried) == 5
    courses.graded(own_small, NAME, hand_in("fay"), tmp_path / "out")
    assert len(tried) == 6  # without watching


def test_the_authors_fault_names_file_exercise_seed_and_what_was_seen(small):
    wrong = RIGHT | {"double": "def double(x):\n    return [1.0]"}
    with pytest.raises(CourseError) as raised:
        class_run.try_reference(small, forkserver.make_rubric(small, NAME), wrong, seed=4321)
    for part in (f"test_{NAME}.py", 'exercise "double"', "seed 4321", "`double` returned a list", "test_it_doubles"):
        assert part in str(raised.value)


def test_a_verdict_keeps_what_it_rests_on(small, hand_in, tmp_path):
    hand_in("ada", RIGHT | {"shift": "print('x' * 3_000_000)", "double": "def double(x):\n    return np.ones(5)"})
    courses.graded(small, NAME, hand_in("bob"), tmp_path / "out")
    ada, bob = (each.verdict for each in record.records(tmp_path / "out", small.chapter(NAME)))
    [halt] = ada.evidence.halts
    assert (halt.stop, halt.cell, halt.life, halt.limit, halt.value) == (Stop.OUTPUT, "shift", 1, "output_bytes", MIB)
    assert (ada.evidence.lives, ada.evidence.most_lives, bob.evidence.lives) == (2, 4, 1)
    [doubled] = ada.evidence.outcomes
    assert (doubled.test, doubled.passed, doubled.broke) == ("test_it_doubles", False, True)
    assert doubled.kind.startswith("ValueError")  # np.allclose met another shape: the check broke
    assert [(mark.result, mark.fault) for mark in ada.marks[:2]] == [
        (Result.FAILED, Fault.AUTHOR),
        (Result.OUTPUT, Fault.LIMIT),
    ]
    assert [(each.exercise, each.passed) for each in bob.evidence.outcomes] == [("double", True), ("shift", True)]
    same = {name for name, value in ada.evidence.parts.items() if bob.evidence.parts[name] == value}
    assert (same, len(ada.evidence.parts)) == (set(ada.evidence.parts) - {"answers"}, 12)


def test_one_student_can_be_graded_alone(small, hand_in, tmp_path):
    hand_in("ada")
    folder = hand_in("bob")
    assert courses.graded(small, NAME, folder, tmp_path / "out", students=["bob"]).graded == ["bob"]
    with pytest.raises(CourseError, match="no student 'bbo'; did you mean bob"):
        courses.graded(small, NAME, folder, tmp_path / "out", students=["bbo"])


def test_any_executor_will_do(small, hand_in, tmp_path):
    folder = hand_in("ada")
    with ThreadPoolExecutor(1) as executor:
        assert courses.graded(small, NAME, folder, tmp_path / "out", executor=executor).graded == ["ada"]


def test_nothing_is_left_behind(small, hand_in, tmp_path):
    folder = hand_in("ada", RIGHT | {"shift": "import os; os._exit(0)"})
    courses.graded(small, NAME, folder, tmp_path / "out")
    assert points(small, tmp_path / "out")["ada"] == {
        "double": (2.0, "passed"),
        "shift": (0.0, "crashed"),
        "why": (0.0, "manual"),
    }
    assert list(boxes.workroom().iterdir()) == []


def written(out):
    """What is in a folder, byte for byte."""
    return {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.mark.whole
def test_a_rehearsal_of_changed_checks_shows_the_marks_that_would_change_and_writes_nothing(
    small, own_small, hand_in, tmp_path
):
    out = tmp_path / "out"
    hand_in("ada")
    hand_in("bob", RIGHT | {"shift": "def shift(x, by):\n    return -1"})
    folder = hand_in("cem", RIGHT | {"shift": "print('x' * 2_000_000)\n" + RIGHT["shift"]})
    courses.graded(small, NAME, folder, out)
    before = written(out)
    own_small.check_file(NAME).write_text(
        CHECKS.replace("== x + by,", "in (x + by, -1),").replace("np.allclose(got, x * 2)", "len(got) < 3")
    )
    options = {"limits": {"output_bytes": 4 * MIB}, "reference": RIGHT | {"double": "def double(x):\n    return x[:2]"}}
    result, found = courses.rehearsed(own_small, NAME, folder, out, **options)
    assert (sorted(result.graded), result.faults) == (["ada", "bob", "cem"], {})
    assert [(each.student, each.exercise, each.before, each.after) for each in found.changed] == [
        ("ada", "double", 2.0, 0.0),
        ("bob", "double", 2.0, 0.0),
        ("bob", "shift", 0.0, 3.0),
        ("cem", "double", 2.0, 0.0),
        ("cem", "shift", 0.0, 3.0),
    ]
    assert found.changed[0].because == "limits, checks"
    assert (found.up, found.down, found.same) == (2, 3, 4)
    assert changes.summary(found).startswith(
        "5 marks changed, 2 up, 3 down: ada double 2 → 0; bob double 2 → 0; bob shift"
    )
    assert written(out) == before


def test_a_rehearsal_of_a_new_class_makes_no_folder(small, hand_in, tmp_path):
    _, found = courses.rehearsed(small, NAME, hand_in("ada"), tmp_path / "out")
    assert (found.new, found.changed) == (("ada",), ())
    assert not (tmp_path / "out").exists()


@pytest.mark.whole
def test_the_same_answers_rehearsed_from_what_was_taken_of_them_get_the_same_inputs(small, hand_in, tmp_path):
    out = tmp_path / "out"
    hand_in("bob", {})
    courses.graded(small, NAME, hand_in("ada", RIGHT | {"shift": "def shift(x, by):\n    return by"}), out)
    first, _ = record.records(out, small.chapter(NAME))
    jobs = []
    with pytest.MonkeyPatch.context() as patch:
        real = grade.grade_job
        patch.setattr(grade, "grade_job", lambda job, course: jobs.append(job) or real(job, course))
        _, found = courses.rehearsed(small, NAME, out / "submitted", out, again=True, students=["ada"])
    assert jobs[-1].seed == first.verdict.seed
    assert (found.changed, found.same) == ((), 3)


def test_the_command_writes_all_that_it_promises(small, hand_in, tmp_path):
    folder = hand_in("ada")
    out = tmp_path / "out"
    ran = command("grade", "small", "--submissions", folder, "--out", out, root=small.root)
    header, *rows = (out / "marks.csv").read_text().splitlines()
    assert header == "student,chapter,exercise,points,max_points,verdict,fault,message,misconception,comment"
    assert [row.split(",")[:6] for row in rows] == [
        ["ada", NAME, "double", "2", "2", "passed"],
        ["ada", NAME, "shift", "3", "3", "passed"],
        ["ada", NAME, "why", "0", "1", "manual"],
    ]
    for file in ("gradebook.db", f"feedback/ada/{NAME}/{NAME}.html", "report.html"):
        assert (out / file).stat().st_size > 0
    assert "ada" in ran.stdout
    explained = command("explain", "ada", "small", "double", "--out", out, root=small.root)
    assert "passed" in explained.stdout
    hand_in("ada", {})
    tried = command("grade", "small", "--submissions", folder, "--out", out, "--dry-run", root=small.root)
    for part in ("3 passed", "0 blank", "0 up, 2 down, 0 same", "nothing was written"):
        assert part in tried.stdout
    assert "passed" in (out / "marks.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["grade", "07_nothing", "--submissions", ".", "--out", "x"], "no chapter '07_nothing'; there are: 90_small"),
        (["grade", "small", "--submissions", "no/such/folder", "--out", "x"], "no/such/folder"),
        (["grade", "small"], "Missing option"),
        (["grade", "small", "--submissions", ".", "--out", "x", "--limit", "cell_seconds=9"], "--limit"),
        (
            ["grade", "small", "--submissions", ".", "--out", "x", "--dry-run", "--limit", "cel_seconds=9"],
            "did you mean cell_seconds",
        ),
    ],
)
def test_wrong_usage_ends_with_2_and_a_line_that_says_what(small, arguments, says):
    ran = command(*arguments, root=small.root, code=2)
    assert says in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.stderr


def test_a_check_file_that_cannot_be_read_is_the_authors_fault(small, hand_in, tmp_path):
    broken = Course.read(shutil.copytree(small.root, tmp_path / "course"))
    broken.check_file(NAME).write_text("import nothing_of_the_kind\n")
    ran = command(
        "grade", "small", "--submissions", hand_in("ada"), "--out", tmp_path / "out", root=broken.root, code=2
    )
    assert "nothing_of_the_kind" in ran.stderr


def test_a_class_that_could_not_be_graded_is_told_in_few_lines(capfd):
    grading.left({f"student{number}": "no box" for number in range(1000)})
    said = capfd.readouterr().err.splitlines()
    assert (len(said), said[-1]) == (41, "not graded: 960 more")
