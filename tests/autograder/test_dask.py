"""Grading a class on workers of Dask: the same marks, whatever becomes of the workers, and nobody else gets in."""

import os
import shutil
import signal
import threading
import time
from contextlib import chdir, contextmanager

import chaos
import courses
import dask_tls
import pytest
from boxed import needs_a_box
from distributed import LocalCluster
from small_course import NAME, RIGHT, points

from autograder.engine import class_run, dask_executor, executors
from autograder.engine.dask_executor import DaskExecutor
from autograder.engine.jobs import Jobs
from autograder.job import forkserver
from autograder.job.forkserver import InfrastructureError
from autograder.model.course import Course, CourseError
from autograder.report import outputs

pytestmark = [pytest.mark.classes, needs_a_box]


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return dask_tls.write(tmp_path_factory.mktemp("tls") / "new")


CLASS = {
    "ada": RIGHT,
    "bob": RIGHT | {"double": "def double(x):\n    return x * x"},
    "cem": {},
    "dan": {},
    "eve": RIGHT | {"double": "import os; os._exit(3)"},
    "fay": RIGHT | {"shift": "def shift(x, by):\n    raise ValueError('no')"},
}


@contextmanager
def cluster(tls, root, workers, mark="", **more):
    """A scheduler and workers on this machine; theirs is the course at `root`, and `mark` is in all that they start."""
    env = {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(mark)])}
    with (
        chdir(root),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            protocol="tls://",
            security=dask_executor.security(tls),
            dashboard_address=":0",
            env=env,
            preload=["autograder.engine.dask_worker"],
            **more,
        ) as made,
    ):
        yield made, made.scheduler_address.replace("tls://", "dask://")


@pytest.fixture(scope="module")
def one_worker(tls, small):
    """A cluster of one worker, and its address, for the tests that leave both as they are."""
    with cluster(tls, small.root, 1) as made:
        yield made


@pytest.fixture(scope="module")
def class_(small, tmp_path_factory):
    return courses.handed_in(small, tmp_path_factory.mktemp("class"), NAME, CLASS)


@pytest.fixture(scope="module")
def wanted(small, class_, tmp_path_factory):
    """What this machine makes of the class."""
    return graded(small, class_, tmp_path_factory.mktemp("local") / "out")


def graded(small, folder, out, executor=None, **how):
    """Grade into `out`, which draws the inputs that every other one draws; return all that it then says."""
    out.mkdir()
    (out / ".seed").write_bytes(b"s" * 32)
    result = courses.graded(small, NAME, folder, out, executor=executor, **how)
    assert result.faults == {}
    assert sorted(result.graded) == sorted(CLASS)
    outputs.write(out, small.chapter(NAME), faults={}, workers=1)
    return chaos.meaning(out)


def alike(one, other):
    return [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)] == []


def test_workers_give_the_gradebook_that_this_machine_gives(tls, small, class_, wanted, tmp_path):
    elsewhere = shutil.copytree(small.root, tmp_path / "elsewhere")
    with (
        cluster(tls, elsewhere, 3, local_directory=str(tmp_path / "work")) as (_, address),
        executors.opened(address, small, NAME, tls) as executor,
    ):
        assert alike(graded(small, class_, tmp_path / "dask", executor), wanted)
        assert len(points(small, tmp_path / "dask")) == len(CLASS)


def test_jobs_carry_the_answers_and_not_where_they_lie(tls, small, one_worker, tmp_path, monkeypatch):
    real, folder = class_run.Jobs, courses.handed_in(small, tmp_path / "in", NAME, CLASS)

    def gone(*arguments):
        shutil.rmtree(folder)
        return real(*arguments)

    monkeypatch.setattr(class_run, "Jobs", gone)
    with executors.opened(one_worker[1], small, NAME, tls) as executor:
        courses.graded(small, NAME, folder, tmp_path / "out", executor=executor)
    assert points(small, tmp_path / "out")["ada"]["double"] == (2.0, "passed")


def test_a_killed_worker_costs_no_mark_and_leaves_no_process(tls, small, class_, wanted, tmp_path):
    mark = tmp_path / "mark-of-the-workers"
    mark.mkdir()
    killed = []
    with cluster(tls, small.root, 2, mark) as (_, address), executors.opened(address, small, NAME, tls) as executor:
        pids = executor.client.run(os.getpid)

        def kill():
            end = time.monotonic() + 60
            while not killed and time.monotonic() < end:
                busy = [worker for worker, keys in executor.client.processing().items() if keys]
                started = len([pid for each in chaos.processes(mark).values() for pid in each])
                if busy and started >= 5:  # its servers are there, and a job's own processes
                    os.kill(pids[busy[0]], signal.SIGKILL)
                    killed.append(busy[0])
                time.sleep(0.02)

        killer = threading.Thread(target=kill)
        killer.start()
        found = graded(small, class_, tmp_path / "dask", executor)
        killer.join(60)
        assert len(killed) == 1
        assert killed[0] in pids
        assert alike(found, wanted)
    end = time.monotonic() + 30
    while (left := chaos.processes(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == {}


def test_a_cluster_without_workers_is_a_fault_of_the_machine_and_not_for_ever(tls, small, class_, tmp_path):
    with cluster(tls, small.root, 1) as (made, address):
        with DaskExecutor(address.replace("dask", "tls"), dask_executor.security(tls), patience=3) as executor:
            executor.same_course(small, NAME)
            made.scale(0)
            with pytest.raises(InfrastructureError, match="no worker for 3 s"):
                courses.graded(small, NAME, class_, tmp_path / "out", executor=executor)
        with pytest.raises(InfrastructureError, match="no worker came in 1 s"):
            DaskExecutor(address.replace("dask", "tls"), dask_executor.security(tls), patience=1).same_course(
                small, NAME
            )


def test_a_worker_with_another_course_is_named_and_nobody_is_graded(tls, small, class_, tmp_path):
    other = shutil.copytree(small.root, tmp_path / "other")
    checks = other / "checks" / f"test_{NAME}.py"
    checks.write_text(checks.read_text() + "\n")
    with cluster(tls, other, 1) as (_, address):
        with (
            pytest.raises(CourseError, match=r"worker tls://.*other the checks"),
            executors.opened(address, small, NAME, tls),
        ):
            pass
        executor = DaskExecutor(address.replace("dask", "tls"), dask_executor.security(tls))
        with executor, pytest.raises(CourseError, match="other the checks"):  # one that came later
            courses.graded(small, NAME, class_, tmp_path / "out", executor=executor)
    assert not (tmp_path / "out").exists()


def test_a_worker_whose_course_was_changed_under_its_servers_starts_new_ones(tls, small, class_, tmp_path):
    other = shutil.copytree(small.root, tmp_path / "other")
    checks = other / "checks" / f"test_{NAME}.py"
    with cluster(tls, other, 1) as (_, address), executors.opened(address, small, NAME, tls) as executor:
        rubric = forkserver.make_rubric(small, NAME)
        class_run.try_reference(small, rubric, RIGHT, run=Jobs(small, 1, executor))  # warm servers, the old checks
        kept = checks.read_text()
        checks.write_text(kept.replace("x * 2", "x * 3"))
        changed = Course.read(other)
        rubric = forkserver.make_rubric(changed, NAME)
        with pytest.raises(CourseError, match='exercise "double": the reference is failed'):
            class_run.try_reference(changed, rubric, RIGHT, run=Jobs(changed, 1, executor))


def test_nobody_without_the_certificate_gets_in(one_worker, tmp_path):
    others = dask_tls.write(tmp_path / "others")
    with pytest.raises(InfrastructureError, match="no certificate of ours"):
        DaskExecutor(one_worker[1].replace("dask:", "tls:"), dask_executor.security(others))


def test_a_chapter_that_needs_a_card_does_not_wait_for_a_worker_without(tls, small, one_worker):
    refused = pytest.raises(InfrastructureError, match="no worker has 1 card; start one with --resources GPU=1")
    with refused, executors.opened(one_worker[1], small, NAME, tls, gpus=1):
        pass
