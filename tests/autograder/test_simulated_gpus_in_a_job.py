"""A chapter that wants GPUs is graded on a machine without cards: each submission has its own, made of host memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import courses
import pytest
import small_course
from boxed import needs_a_box

from across._gpu import building
from autograder.authoring import build
from autograder.gpu import leases, simulated
from autograder.job import forkserver, grade
from autograder.job.forkserver import InfrastructureError
from autograder.job.grade import Job
from autograder.model.course import Course, CourseError
from autograder.model.rubric import Rubric
from autograder.submissions.intake import Submission

needs_a_gpu = pytest.mark.skipif(bool(building.problem()), reason=f"no simulated GPU here: {building.problem()}")
NAME = "91_gpus"
SOURCE = """\
# ---
# jupyter:
#   across:
#     gpus: 2
# ---

# %% [markdown]
# # GPUs

# %%
import os
import tensorflow as tf
from across import devices, fresh

D = devices.gpus_or_cpus(2)

# %% answer="product"
def product(a):
    ### BEGIN SOLUTION
    with tf.device(D[1]):
        return tf.matmul(a, a)
    ### END SOLUTION

# %% check="product" points=4
assert product(tf.eye(2)).device.endswith("GPU:1")

# %% answer="there"
def there():
    ### BEGIN SOLUTION
    return len(tf.config.list_physical_devices("GPU"))
    ### END SOLUTION

# %% check="there" points=2
assert there() == 2
"""
CHECKS = """\
from autograder.probe.asking import exercise, probe

@probe
def device(student):
    import tensorflow as tf
    return student.product(tf.eye(2)).device

@probe
def names(student):
    import os
    return sorted(name for name in os.environ if name in ("ACROSS_GPUS", "CUDA_VISIBLE_DEVICES"))

@probe
def started(student):
    from across import fresh
    import tensorflow as tf
    return fresh.run(lambda: len(tf.config.list_physical_devices("GPU")))

@probe
def cold(student):
    from across import devices, fresh
    return fresh.run(lambda: devices.gpus(1), cold=True)

@probe
def counted(student):
    import tensorflow as tf
    return len(tf.config.list_logical_devices("GPU"))

@probe
def used(student):
    import tensorflow as tf
    return tf.config.experimental.get_memory_info("GPU:1")["peak"]

@exercise("product")
def test_it_is_on_the_second_gpu(student):
    got = student.ask(device)
    assert got.endswith("device:GPU:1"), got

@exercise("product")
def test_nothing_of_another_submission_was_on_it(student):
    got = student.ask(used)
    assert got < 100_000, got

@exercise("there")
def test_the_checker_and_what_it_starts_have_them_too(student):
    import tensorflow as tf
    from across import fresh
    assert len(tf.config.list_logical_devices("GPU")) == 2, "the checker"
    assert fresh.run(lambda: len(tf.config.list_logical_devices("GPU"))) == 2, "what the checker starts"

@exercise("there")
def test_so_do_processes_beside_it(student, peer, lives):
    assert student.ask(names) == ["ACROSS_GPUS"], student.ask(names)
    assert student.ask(started) == 2, "fresh"
    assert student.ask(cold) == ["/GPU:0"], "a cold process"
    assert peer.ask(counted) == 2, "a peer"
    assert lives().ask(counted) == 2, "a life"
"""
KEEPS = """
kept = []

def product(a):
    with tf.device(D[1]):
        kept.append(tf.zeros([64, 1 << 20]))
        return tf.matmul(a, a)
"""
CRASHES = "import ctypes\n\ndef product(a):\n    ctypes.string_at(0)\n"
ONLY_HERE = (
    "import ctypes\n\ndef product(a):\n    if tf.config.list_physical_devices('GPU'):\n        ctypes.string_at(0)\n"
)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    """A course of one chapter that wants two GPUs."""
    made = courses.write(tmp_path_factory.mktemp("course"), NAME, SOURCE, CHECKS, preload=("tensorflow", "across"))
    yield made
    courses.close(made.root)


@pytest.fixture(scope="module")
def rubric(course: Course) -> Rubric:
    return forkserver.make_rubric(course, NAME)


def graded(course: Course, rubric: Rubric, **answers: str) -> dict[str, tuple[float, str]]:
    """Points and message by exercise, of the reference with these answers instead."""
    cells = {**build.solution_source(course, NAME), **answers}
    marks = grade.grade_job(Job(Submission("ann", NAME, cells), rubric, 1), course).marks
    return {mark.exercise: (mark.points, mark.message) for mark in marks}


@needs_a_box
@needs_a_gpu
@pytest.mark.whole
def test_a_submission_is_graded_on_simulated_gpus(course: Course, rubric: Rubric):
    assert rubric.parts["devices"] == "2 simulated GPUs"
    marks = graded(course, rubric)
    assert {name: points for name, (points, _) in marks.items()} == {"product": 4.0, "there": 2.0}, marks


@needs_a_box
@needs_a_gpu
@pytest.mark.whole
def test_two_submissions_at_once_have_each_their_own(course: Course, rubric: Rubric):
    """One fills 256 MiB of its second GPU whenever it is asked; the other finds its own empty all the while."""
    with ThreadPoolExecutor(2) as pool:
        filled, empty = pool.map(lambda answers: graded(course, rubric, **answers), [{"product": KEEPS}, {}])
    assert filled["product"][0] == 2.0, filled
    assert empty["product"][0] == 4.0, empty


@needs_a_box
@needs_a_gpu
@pytest.mark.whole
def test_a_crash_of_the_device_is_nobodys_mark_and_a_crash_of_the_answers_own_is(course: Course, rubric: Rubric):
    with pytest.raises(
        InfrastructureError, match="asked about product: the kernel crashed on simulated GPUs, and does not"
    ):
        graded(course, rubric, product=ONLY_HERE)
    assert graded(course, rubric, product=CRASHES)["product"][0] == 0.0


@pytest.mark.whole
def test_where_none_can_be_simulated_it_is_the_machines_fault_with_its_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "no-compiler").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/no-compiler")
    monkeypatch.setenv(building.VARIABLE, f"{tmp_path}/cache")
    made = courses.write(tmp_path, NAME, SOURCE, CHECKS, preload=("tensorflow", "across"))
    try:
        with pytest.raises(InfrastructureError, match=r"none of .* is on the PATH: install one"):
            forkserver.make_rubric(made, NAME)
    finally:
        courses.close(tmp_path)
    ended = small_course.command("check", NAME, "product", root=tmp_path, code=1)
    assert "is on the PATH: install one" in ended.stderr


@pytest.mark.whole
def test_cards_for_a_chapter_that_asks_for_none_have_its_witnesses_gpus_built_before_any_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Seen on an H200: a checker tried to build them in its box."""

    def none() -> Path:
        raise building.NoGpu("No simulated GPU: no compiler.")

    monkeypatch.setattr(building, "build", none)
    made = courses.write(tmp_path, NAME, SOURCE.replace("gpus: 2", "gpus: 0"), CHECKS, preload=("tensorflow", "across"))
    try:
        assert forkserver.make_rubric(made, NAME).chapter.gpus == 0
        with pytest.raises(InfrastructureError, match="No simulated GPU: no compiler"):
            forkserver.make_rubric(made, NAME, gpus=1)
    finally:
        courses.close(tmp_path)


@pytest.mark.parametrize(
    ("cards", "gpus", "found"),
    [
        (0, None, (2, True)),
        (2, None, (2, False)),
        (1, None, (2, True)),
        (4, "simulated", (2, True)),
        (4, 0, (0, False)),
    ],
)
def test_cards_go_before_simulated_gpus_unless_the_instructor_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cards: int, gpus: int | str | None, found: tuple[int, bool]
):
    monkeypatch.setattr(leases, "cards", lambda: cards)
    made = forkserver.limited(courses.write(tmp_path, NAME, SOURCE).chapter(NAME), gpus=gpus)
    assert (made.gpus, made.simulated) == found


def test_what_the_option_says_is_a_number_or_simulated():
    assert [simulated.asked(says) for says in ("", "2", "simulated")] == [None, 2, "simulated"]
    with pytest.raises(CourseError, match="--gpus all: write a number of cards, or simulated"):
        simulated.asked("all")
