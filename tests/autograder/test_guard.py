"""A class as a whole is looked at before it is recorded: what happens to most of it is seldom the students' doing."""

from __future__ import annotations

from dataclasses import replace

import courses
import pytest
from boxed import needs_a_box
from classroom import PASSED, TIMEOUT, verdict
from small_course import NAME, RIGHT, command, points

from autograder.engine import guard
from autograder.engine.guard import Guard, OddClassError
from autograder.gradebook import late_penalty
from autograder.model.verdict import Evidence, Halt, Stop

LOOPS = RIGHT | {"double": "def double(x):\n    while True:\n        pass"}
CLASS = ("ada", "bob", "cem", "dan", "eve")
QUICK = {"cell_seconds": 6.0, "question_seconds": 1.0, "notebook_seconds": 30.0}


def stopped(student):
    halts = (Halt(Stop.TIMEOUT, exercise="pick", limit="question_seconds"),)
    return verdict(student, pick=TIMEOUT, evidence=Evidence(halts=halts))


def guarded(count, verdicts, before=None, off=False, written=None):
    """Who is written of these verdicts of a class of `count`, in order, and the sentence that stopped it."""
    written = [] if written is None else written
    try:
        with Guard(count, before or {}, lambda each: written.append(each.student), off) as guard_:
            for each in verdicts:
                guard_.add(each)
    except OddClassError as error:
        return written, str(error)
    return written, ""


def test_more_than_a_fifth_at_one_limit_stops_the_class_and_nobody_is_recorded():
    late = [stopped(f"s{n}") for n in range(3)]
    written, says = guarded(10, [verdict("ada"), verdict("bob"), *late])
    assert written == []
    assert says.startswith("3 of 10 stopped at one limit, question_seconds")
    assert says.endswith("Nobody was recorded; `--anyway` goes on")


def test_a_fifth_is_recorded_with_the_class():
    everyone = [stopped("s1"), stopped("s2"), *(verdict(f"t{n}") for n in range(8))]
    written, says = guarded(10, everyone)
    assert (sorted(written), says) == (sorted(each.student for each in everyone), "")


def test_what_is_as_usual_is_recorded_as_it_comes_once_a_fifth_is_known():
    written = []
    with Guard(10, {}, lambda each: written.append(each.student), off=False) as kept:
        for n in range(4):
            kept.add(verdict(f"s{n}"))
        assert written == []
        kept.add(stopped("slow"))
        assert written == ["s0", "s1", "s2", "s3"]
        kept.add(verdict("s5"))
        assert written[-1] == "s5"
    assert written[-1] == "slow"


def test_a_machine_that_gets_busy_later_costs_none_of_those_who_were_recorded():
    written, says = guarded(10, [*(verdict(f"s{n}") for n in range(6)), *(stopped(f"t{n}") for n in range(4))])
    assert written == [f"s{n}" for n in range(6)]
    assert "6 others were recorded" in says


@pytest.mark.parametrize(("count", "off"), [(4, False), (10, True)], ids=["few", "anyway"])
def test_few_students_are_not_looked_at_and_neither_is_a_class_that_is_to_be_recorded_anyway(count, off):
    written, says = guarded(count, [stopped(f"s{n}") for n in range(count)], off=off)
    assert (len(written), says) == (count, "")


def test_an_exercise_that_most_get_other_points_for_stops_the_class():
    before = {f"s{n}": {"pick": 0.0, "spread": 2.0, "why": 0.0} for n in range(6)}
    everyone = [verdict(f"s{n}", pick=PASSED) for n in range(6)]
    written, says = guarded(6, everyone, before)
    assert written == []
    assert says.startswith("`pick`: 4 of 6 whose answers are as they were get other points")
    same = {student: {**then, "pick": 3.0} for student, then in before.items()}
    assert guarded(6, everyone, same) == ([f"s{n}" for n in range(6)], "")


def test_who_ends_the_run_keeps_what_was_as_usual():
    def until_interrupted():
        yield verdict("ada")
        yield stopped("slow")
        raise KeyboardInterrupt

    written = []
    with pytest.raises(KeyboardInterrupt):
        guarded(10, until_interrupted(), written=written)
    assert written == ["ada"]


@needs_a_box
@pytest.mark.whole
def test_a_class_of_which_more_than_a_fifth_stops_at_one_limit_is_not_recorded_until_somebody_says_so(
    own_small, hand_in, tmp_path
):
    source = own_small.source(NAME)
    limits = ", ".join(f"{name}: {value}" for name, value in QUICK.items())
    source.write_text(f"# ---\n# jupyter:\n#   across:\n#     limits: {{{limits}}}\n# ---\n\n{source.read_text()}")
    command("build", root=own_small.root)
    for student in CLASS:
        folder = hand_in(student, LOOPS if student in CLASS[:2] else RIGHT | {"why": student})
    asked = ("grade", NAME, "--submissions", folder, "--out", tmp_path / "out")
    done = command(*asked, root=own_small.root, code=2)
    assert "2 of 5 stopped at one limit, question_seconds" in done.stderr
    assert not (tmp_path / "out" / "marks.csv").exists()
    assert points(own_small, tmp_path / "out") == {}
    command(*asked, "--anyway", root=own_small.root)
    verdicts = {who: row["verdict"] for (who, name), row in courses.marks(tmp_path / "out").items() if name == "double"}
    assert verdicts == dict.fromkeys(CLASS, "passed") | dict.fromkeys(CLASS[:2], "timeout")


@needs_a_box
def test_a_class_most_of_whose_notebooks_are_blank_is_stopped_before_it_is_graded(small, hand_in, tmp_path):
    for student in CLASS:
        folder = hand_in(student, RIGHT if student in CLASS[:2] else {})
    with pytest.raises(OddClassError, match="3 of 5 notebooks are blank, cem's for one"):
        courses.graded(small, NAME, folder, tmp_path / "out")
    assert points(small, tmp_path / "out") == {}
    done = courses.graded(small, NAME, folder, tmp_path / "out", anyway=True)
    assert sorted(done.graded) == list(CLASS)
    assert courses.graded(small, NAME, folder, tmp_path / "out").graded == []  # nothing new: nothing to say


@needs_a_box
def test_a_class_that_is_late_to_a_man_is_stopped_once(small, hand_in, tmp_path):
    out = tmp_path / "out"
    for student in CLASS:
        folder = hand_in(student)
        (folder / student / NAME / "timestamp.txt").write_text("2026-11-20 09:14:00 UTC")
    late_penalty.settle(out, small.chapter(NAME), "2026-10-25T23:59+01:00", "10%", "15m")
    with pytest.raises(OddClassError, match="all 5 submissions that have a time are late"):
        courses.graded(small, NAME, folder, out)
    assert points(small, out) == {}
    assert len(courses.graded(small, NAME, folder, out, anyway=True).graded) == 5
    assert len(courses.graded(small, NAME, folder, out).unchanged) == 5
    (folder / "ada" / NAME / "timestamp.txt").write_text("2026-10-25 09:14:00 UTC")
    assert len(courses.graded(small, NAME, folder, out).unchanged) == 5


def test_an_earlier_verdict_on_other_answers_is_no_measure():
    then = replace(verdict("ada"), evidence=Evidence(parts={"answers": "a"}))

    class Recorder:
        def verdict(self, _):
            return then

    assert guard.recorded(Recorder(), "ada", "b") is None  # pyright: ignore[reportArgumentType]
    assert guard.recorded(Recorder(), "ada", "a") == {"pick": 3.0, "spread": 2.0, "why": 0.0}  # pyright: ignore
