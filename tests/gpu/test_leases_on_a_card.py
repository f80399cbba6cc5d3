"""A lease on a real card: a box with it computes there, sees no other, and gives its memory back.

Only a machine with NVIDIA cards and `nvidia-ml-py` can show this. On others these tests say so and skip.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.authoring import build
from autograder.gpu import leases
from autograder.gpu.cards import Cards
from autograder.gpu.leases import LeaseError, Leases
from autograder.job import forkserver, grade
from autograder.job.grade import Job
from autograder.job.kernel_process import KernelProcess
from autograder.model.course import Limits, find
from autograder.probe.asking import Student, by_socket, probe
from autograder.sandbox import boxes
from autograder.submissions.intake import Submission

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem())]
CHAPTER = "03_device_placement"
SQUAT = """
import sys, tensorflow as tf
kept = tf.linalg.matmul(tf.ones([64, 64]), tf.ones([64, 64]))
print(kept.backing_device, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cards() -> Cards:
    """This machine's NVML."""
    asked = Cards()
    found, missing = asked.found()
    if not found:
        pytest.skip("; ".join(missing))
    return asked


@pytest.fixture
def here(cards: Cards, tmp_path: Path) -> Leases:
    """Leases on all cards, with locks of the test's own."""
    return Leases(cards, tmp_path / "locks")


@probe
def computed(student):
    """The devices that are seen, where a product was computed, the product, the device files, and whether the card grows."""
    import os

    import tensorflow as tf

    with tf.device("/GPU:0"):
        product = tf.linalg.matmul(tf.fill([64, 64], 1 + 2.0**-12), tf.eye(64))  # TF32 would round it to 1
    gpus = tf.config.list_physical_devices("GPU")
    files = [name for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()]
    grows = [tf.config.experimental.get_memory_growth(gpu) for gpu in gpus]
    return [grows, product.backing_device, float(product[0, 0]), len(files)]


def test_a_box_with_a_lease_computes_on_its_card_and_sees_no_other(cards: Cards, here: Leases):
    name = f"lease-{os.getpid()}-0."
    server = forkserver.servers(find(), forkserver.make_rubric(find(), CHAPTER)).student
    with here.lease(deadline=60) as given:
        kernel = KernelProcess(server.path, f"{name}0", Limits(), cards=given)
        try:
            kernel.ready(60)
            grows, device, value, files = Student(by_socket(kernel.questions), deadline=300.0).ask(computed)
        finally:
            kernel.close()
    assert (grows, value, files) == ([True], 1 + 2.0**-12, 1)
    assert "GPU:0" in device
    with here.lease(len(cards.found()[0]), deadline=60):  # its memory has come back
        pass


def test_a_chapter_is_graded_on_a_card(here: Leases, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(leases, "here", lambda: here)
    submission = Submission("ann", CHAPTER, build.solution_source(find(), CHAPTER))
    marks = grade.grade_job(Job(submission, forkserver.make_rubric(find(), CHAPTER, gpus=1), 1), find()).marks
    assert [mark.exercise for mark in marks if mark.points < mark.max_points and mark.result != "manual"] == []


def test_a_card_that_somebody_uses_is_not_handed_out_and_he_is_left_alone(cards: Cards, here: Leases):
    found, _ = cards.found()
    first = found[0].uuid
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": first}
    command = [sys.executable, "-c", SQUAT]
    somebody = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert somebody.stdout is not None
        assert "GPU:0" in somebody.stdout.readline()
        with pytest.raises(LeaseError, match=f"{first}: process .* uses it"), here.lease(len(found), deadline=1):
            pass
        assert somebody.poll() is None
    finally:
        somebody.kill()
        somebody.communicate(timeout=60)


def test_nvml_tells_what_leases_need_to_know(cards: Cards):
    for card in cards.found()[0]:
        assert card.uuid.startswith("GPU-")
        assert [node for node in card.nodes if not os.path.exists(node)] == []
        assert (cards.fault(card), cards.use(card)) == ("", "")
