"""A lease on its way into a job: the chapter asks, the box gets one card's files, the kernel its name, and no other."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import courses
import pytest
from boxed import DEVICES, inside, needs_a_box
from fake_nvml import FakeNvml, Gpu
from processes import with_a_card

from across._process import warm
from autograder.authoring import build
from autograder.gpu import leases
from autograder.gpu.cards import Card, Cards
from autograder.job import forkserver, grade
from autograder.job.forkserver import InfrastructureError
from autograder.job.grade import Job
from autograder.job.kernel_process import KernelProcess
from autograder.model.course import Course, Limits
from autograder.probe.asking import Student, by_socket, probe
from autograder.submissions.intake import Submission

ALWAYS = {"console", "full", "null", "ptmx", "random", "tty", "urandom", "zero"}  # what bwrap puts into every /dev
needs_a_device = pytest.mark.skipif(not DEVICES, reason="no device file here that stands in for a card's")
NAME = "90_cards"
HEADER = """\
# ---
# jupyter:
#   across:
#     gpus: {gpus}
# ---

"""
SOURCE = """\
# %% [markdown]
# # Cards

# %% answer="seen"
def seen():
    ### BEGIN SOLUTION
    import os
    return [os.environ["CUDA_VISIBLE_DEVICES"], os.path.exists(@FILE@)]
    ### END SOLUTION

# %% check="seen" points=2
assert len(seen()) == 2
"""
CHECKS = """\
from autograder.probe.asking import exercise, probe

@probe
def looked(student):
    return student.seen()

@exercise("seen")
def test_it_sees_its_card(student):
    visible, there = student.ask(looked)
    assert visible == "GPU-b", visible
    assert there, "no device file"
"""


class OneCard(Cards):
    """An invented card; of its files, some that this machine has."""

    def found(self) -> tuple[list[Card], list[str]]:
        cards, missing = super().found()
        return [Card(card.uuid, tuple(DEVICES[:1])) for card in cards], missing


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course of one chapter that needs a card; its warm servers live as long as this module's tests."""
    source = HEADER.format(gpus=1) + SOURCE.replace("@FILE@", repr(DEVICES[0]))
    return courses.write(tmp_path_factory.mktemp("course"), NAME, source, CHECKS)


@pytest.fixture
def lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> leases.Leases:
    """This machine lends two invented cards; the first is ill."""
    cards = OneCard(FakeNvml(Gpu("GPU-a", ecc=1), Gpu("GPU-b")), exists=lambda _node: True)
    here = leases.Leases(cards, tmp_path)
    monkeypatch.setattr(leases, "here", lambda: here)
    monkeypatch.setattr(leases, "cards", lambda: len(cards.found()[0]))
    return here


def job(course: Course, gpus: int | str | None = None) -> Job:
    rubric = forkserver.make_rubric(course, NAME, gpus=gpus)
    return Job(Submission("ann", NAME, build.solution_source(course, NAME)), rubric, 1)


@needs_a_box
@needs_a_device
@pytest.mark.whole
def test_a_chapter_that_needs_a_card_is_graded_on_one_that_is_well(course: Course, lent: leases.Leases):
    marks = grade.grade_job(job(course), course).marks
    assert [(mark.exercise, mark.points) for mark in marks] == [("seen", 2.0)], marks
    with lent.lease(deadline=0):  # given back
        pass


@needs_a_box
@needs_a_device
@pytest.mark.whole
def test_the_instructor_may_grade_without_cards(course: Course, lent: leases.Leases):
    mark = grade.grade_job(job(course, gpus=0), course).marks[0]
    assert (mark.points, "-1" in mark.message) == (0.0, True), mark  # the kernel sees no card


@pytest.mark.whole
def test_a_machine_without_the_cards_that_the_instructor_wants_is_no_fault_of_the_student(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bare = leases.Leases(Cards(FakeNvml()), tmp_path)
    monkeypatch.setattr(leases, "here", lambda: bare)
    with pytest.raises(InfrastructureError, match="cards asked for: 1; this machine has 0; NVML finds no card"):
        grade.grade_job(job(course, gpus=1), course)


@pytest.mark.whole
def test_a_mark_that_was_given_with_other_gpus_is_another_mark(course: Course, lent: leases.Leases):
    assert len({job(course, gpus).digest for gpus in (None, 0, 2, "simulated")}) == 4
    assert job(course).digest == job(course, 1).digest  # as its header says


@needs_a_box
@needs_a_device
@pytest.mark.parametrize("devices", [(), tuple(DEVICES[:2])])
def test_a_box_has_the_devices_of_its_lease_and_no_others(devices: tuple[str, ...]):
    def look() -> list[str]:
        found = [os.path.join(place, name) for place, _, names in os.walk("/dev") for name in names]
        return [path for path in found if stat.S_ISCHR(os.lstat(path).st_mode)]

    seen = set(inside(look, devices=devices)[0])
    plain = {path for path in seen if path.startswith("/dev/pts/") or os.path.basename(path) in ALWAYS}
    assert seen - plain == set(devices)


@probe
def said(student):
    import with_a_card

    return list(with_a_card.said())


@probe
def beside(student):
    import with_a_card

    from across import fresh

    return fresh.run(with_a_card.said)[0]


@needs_a_box
@pytest.mark.whole
def test_a_kernel_looks_for_its_cards_itself_after_a_server_and_a_copy_that_did_not():
    """If they had, it could see none: TensorFlow keeps what it found, and CUDA does not survive a fork."""
    env = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", **with_a_card("autograder.job.student_server")}
    with warm.ForkServer("with_a_card", "tensorflow", "across", env=env, bare=True) as server:
        cards = {"environment": {"CUDA_VISIBLE_DEVICES": "GPU-b"}}
        kernel = KernelProcess(server.path, f"card-{os.getpid()}", Limits(), cards=cards)
        try:
            kernel.ready(60)
            student = Student(by_socket(kernel.questions), deadline=60.0)
            assert student.ask(said) == [["GPU-b", "0"], True]
            assert student.ask(beside) == []
        finally:
            kernel.close()
