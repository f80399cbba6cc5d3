"""What decides a mark is one value: it travels, its digest tells any two apart, and servers made of another grade nobody."""

from __future__ import annotations

import pickle
from dataclasses import replace

import courses
import pytest
from boxed import needs_a_box
from small_course import NAME, RIGHT, points

from autograder.gradebook import record
from autograder.job import forkserver, grade
from autograder.job.forkserver import InfrastructureError
from autograder.model.rubric import PlannedTest
from autograder.sandbox import boxes
from autograder.submissions.intake import Submission

pytestmark = needs_a_box


@pytest.fixture(scope="module")
def rubric(small):
    return forkserver.make_rubric(small, NAME)


def test_it_plans_every_test_with_its_exercise_and_weight(rubric):
    assert rubric.tests == (PlannedTest("double", "test_it_doubles"), PlannedTest("shift", "test_it_shifts"))


def test_it_travels_and_stays_the_same(rubric):
    assert pickle.loads(pickle.dumps(rubric)).digest == rubric.digest


def test_whatever_decides_a_mark_makes_another_rubric(rubric):
    others = [
        replace(rubric, sandboxed=False),
        replace(rubric, grader="another"),
        replace(rubric, checks="others"),
        replace(rubric, environment="elsewhere"),
        replace(rubric, tests=rubric.tests[:1]),
        replace(rubric, tests=(replace(rubric.tests[0], weight=2.0), *rubric.tests[1:])),
        replace(rubric, chapter=replace(rubric.chapter, release={**rubric.chapter.release, "metadata": {}})),
    ]
    assert len({each.digest for each in (rubric, *others)}) == 1 + len(others)


def test_marks_of_trusted_submissions_need_no_sandbox_and_do_not_pass_for_sandboxed_ones(
    small, hand_in, tmp_path, monkeypatch
):
    folder, out = hand_in("ada"), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(boxes, "problem", lambda: "no sandbox here")
        with pytest.raises(boxes.SandboxError, match="no sandbox here"):
            courses.graded(small, NAME, folder, out)
        courses.graded(small, NAME, folder, out, trust=True)
    assert points(small, out)["ada"]["shift"] == (3.0, "passed")
    [trusted] = record.records(out, small.chapter(NAME))
    assert "trusted" in trusted.verdict.evidence.parts["sandbox"]
    assert courses.graded(small, NAME, folder, out).graded == ["ada"]
    [boxed] = record.records(out, small.chapter(NAME))
    assert boxed.verdict.evidence.parts["sandbox"] == "sandboxed"
    assert courses.graded(small, NAME, folder, out).unchanged == ["ada"]


@pytest.mark.whole
def test_a_check_that_is_edited_while_a_class_runs_gives_no_verdict_under_the_old_digest(own_small):
    old = forkserver.make_rubric(own_small, NAME)
    job = grade.Job(Submission("ada", NAME, RIGHT), old, 1)
    assert grade.grade_job(job, own_small).points == 5.0
    file = own_small.root / "checks" / f"test_{NAME}.py"
    file.write_text(file.read_text().replace("x * 2", "x * 3"))
    assert grade.grade_job(job, own_small).points == 5.0  # the servers have read the old ones, and still say so
    forkserver.servers(own_small, old).checker.close()  # somebody kills it: the next one would read the new ones
    with pytest.raises(InfrastructureError, match="were changed since this run began; run it again"):
        grade.grade_job(job, own_small)
    new = forkserver.make_rubric(own_small, NAME)
    assert new.digest != old.digest
    assert grade.grade_job(replace(job, rubric=new), own_small).points == 3.0
