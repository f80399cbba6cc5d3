"""Replicas: schedules are read and drawn, a step is stopped halfway, a slow process is slow and runs on, trainers are tried."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time

import pytest

from across import fresh, replicas
from across._process import slowed, warm

INSIDE = [("read", 0), ("read", 1), ("write", 1), ("write", 0)]
forking = pytest.mark.skipif(not warm.available(), reason="without warm forking a task costs an import of TensorFlow")
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are stopped by pidfd")


def test_the_steps_of_a_schedule_stand_in_the_order_of_their_writes():
    assert replicas.steps_of([*INSIDE, ("read", 1)]) == [(1, 1, 2), (0, 0, 3)]


def test_a_write_without_a_read_is_refused():
    with pytest.raises(ValueError, match="worker 2 writes at moment 1 and has not read"):
        replicas.steps_of([("read", 0), ("write", 2)])


def test_the_picture_says_who_reads_and_writes_when():
    alt = replicas.draw(INSIDE, title="Two steps").alt
    assert "worker:0: read … write 0 to 4" in alt
    assert "worker:1: read … write 1 to 3" in alt


def test_steps_are_drawn_from_the_first_on_with_who_stood_idle_below():
    steps = {"worker:0": [(10.0, 10.5, 0)], "worker:1": [(10.25, 11.0, 3)]}
    alt = replicas.draw_steps(
        steps, [("worker:1 stands still", 9.0, 10.75), ("worker:1 stands still", 20.0, 21.0)], title="S"
    ).alt
    assert "worker:0: 0 0 to 500" in alt
    assert "worker:1: 3 250 to 1e+03" in alt
    assert "worker:1 stands still: busy 0 to 750." in alt


def test_no_step_cannot_be_drawn():
    with pytest.raises(ValueError, match="no worker made a step"):
        replicas.draw_steps({"worker:0": []}, title="S")


def test_the_picture_of_a_global_step_says_where_it_falls():
    alt = replicas.draw_progress([(5.0, 0), (6.0, 90), (7.0, 2)], {"worker:0 back": 6.5}, title="A run").alt
    assert alt == "A run: the global step over 2 s, to 2, which falls from 90 to 2. worker:0 back at 1.5 s."
    assert "does not fall" in replicas.draw_progress([(5.0, 0), (6.0, 90)], {}, title="A run").alt


DID = {"made": [(True, "worker", 1)], "joined": False, "led": False, "masters": ["worker:1"], "step": 8, "returned": 8}


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({}, ""),
        ({"step": 9, "returned": 9.0}, ""),
        ({"made": []}, "made 0 servers"),
        ({"made": [[True, "worker", 0]]}, "made the server of worker:0"),
        ({"made": [[False, "worker", 1]]}, "another cluster"),
        ({"joined": True}, "waits in `join`"),
        ({"led": True}, "prepared the variables as a chief does"),
        ({"masters": ["worker:1", ""]}, "on no server of the cluster"),
        ({"masters": []}, "on no server;"),
        ({"step": 7}, "stopped when the global step was 7"),
        ({"returned": None}, "returned None"),
    ],
)
def test_what_a_trainer_did_wrong_is_told_in_a_sentence(other, says):
    _, fault = replicas.fault_of(("worker", 1), 8, **{**DID, **other})
    assert (says in fault) if says else not fault


def test_a_ps_only_waits():
    did = {**DID, "made": [(True, "ps", 0)], "masters": []}
    assert "did not wait" in replicas.fault_of(("ps", 0), 8, **did)[1]
    assert replicas.fault_of(("ps", 0), 8, **{**did, "joined": True}) == ("", "")


def halfway(assigns: bool) -> float:
    """What a variable of 8 is when a step of -3 comes into the middle of one of -2."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=8.0)
        size = v1.placeholder(tf.float32, [])
        step = replicas.Halfway(w.assign(w - size) if assigns else w.assign_sub(size))
        session.run(w.initializer)
        kept = step.stop(session, {size: 2.0})
        session.run(step.step, {size: 3.0})
        step.go_on(session, kept, {size: 2.0})
        return float(session.run(w))


@pytest.mark.parametrize(("assigns", "left"), [(True, 6.0), (False, 3.0)])
def test_a_step_that_is_stopped_halfway_loses_what_came_between_only_if_it_assigns(assigns, left):
    assert fresh.run(halfway, assigns) == left


def without_a_write() -> list[str]:
    import tensorflow as tf

    with tf.Graph().as_default():
        said = [replicas.why_no_step(each) for each in (tf.constant(1.0), None, 3)]
        said.append(replicas.why_no_step(tf.compat.v1.get_variable("w", initializer=1.0).assign_sub(1.0)))
        try:
            replicas.Halfway(tf.constant(1.0))
        except ValueError as error:
            return [*said, str(error)]
    return said


def test_a_step_that_changes_nothing_is_refused():
    changes, none, number, right, refused = fresh.run(without_a_write)
    assert changes == "returned a step that changes no variable"
    assert (none, number) == ("returned None; expected an op", "returned a value of type int; expected an op")
    assert right == ""
    assert refused == "the step changes no variable"


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


@pytest.fixture
def busy():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield process
        process.kill()


def seen_while_slowed(pid: int) -> tuple[set[str], list[tuple[float, float]]]:
    """In which states a slowed process was, and when it is said to have stood still."""
    seen, until = set(), time.monotonic() + 20.0
    with slowed.slowed(pid, 0.02, 0.03) as stood:
        while not ("T" in seen and seen - {"T"}) and time.monotonic() < until:
            seen.add(state(pid))
    return seen, stood


@linux
def test_a_slow_process_stands_still_by_turns_and_runs_on_afterwards(busy):
    seen, stood = seen_while_slowed(busy.pid)
    assert "T" in seen
    assert stood
    assert all(begin < end for begin, end in stood)
    assert all(end < begin for (_, end), (begin, _) in itertools.pairwise(stood))
    assert seen - {"T"}
    assert state(busy.pid) != "T"


@linux
def test_a_slow_process_may_end_in_the_block(busy):
    with slowed.slowed(busy.pid, 0.02, 0.03):
        busy.kill()
        busy.wait()
    assert busy.returncode == -signal.SIGKILL


@linux
@pytest.mark.parametrize(("still", "of"), [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)])
def test_a_process_that_never_runs_is_not_slow(still, of):
    with pytest.raises(ValueError, match="a part of the time"), slowed.slowed(os.getpid(), still, of):
        pass


def trainer(spec, job, index):
    """A program that trains three steps as a chief; as another, that waits for one."""
    import tensorflow as tf

    v1 = tf.compat.v1
    v1.disable_eager_execution()
    server = tf.distribute.Server(spec, job, index)
    if job == "ps":
        server.join()
    with (
        tf.Graph().as_default(),
        v1.device(v1.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=spec)),
    ):
        step = v1.train.get_or_create_global_step()
        train = step.assign_add(1).op
        supervisor = v1.train.Supervisor(is_chief=index == 0, global_step=step, recovery_wait_secs=1)
        with supervisor.managed_session(server.target) as session:
            for _ in range(3):
                session.run(train)
        supervisor.stop()
    return index


@forking
def test_a_trainer_is_tried_as_each_task_in_turn():
    jobs, tasks = {"ps": 1, "worker": 2}, [("ps", 0), ("worker", 0), ("worker", 1)]
    ps, chief, other = replicas.rehearse(trainer, jobs, tasks)
    assert (ps.joined, chief.joined, other.joined) == (True, False, False)
    assert [each[1:] for tried in (ps, chief, other) for each in tried.servers] == tasks
    assert (chief.led, other.led) == (True, False)
    assert (chief.masters[-1], other.masters[-1]) == ("worker:0", "worker:1")
    assert (chief.step, other.step) == (3, 6)
    assert (chief.returned, other.returned) == (0, 1)


@forking
def test_who_waits_for_a_chief_that_is_not_there_gives_up():
    (tried,) = replicas.rehearse(trainer, {"ps": 1, "worker": 2}, [("worker", 1)])
    assert (tried.led, tried.step, tried.returned) == (False, None, None)
