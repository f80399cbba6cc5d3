"""Trainers: commands and flags, a program tried as each task of a cluster, and what it did wrong in a sentence."""

from __future__ import annotations

import pytest

from across import trainers
from across._process import warm

forking = pytest.mark.skipif(not warm.available(), reason="without warm forking a task costs an import of TensorFlow")


def test_flags_are_what_the_command_says():
    flags = trainers.flags_of(trainers.command({"ps": ["a:1", "b:2"], "worker": ["c:3"]}, "ps", 1, "/logs", 200))
    assert (flags.ps_hosts, flags.worker_hosts) == ("a:1,b:2", "c:3")
    assert (flags.job_name, flags.task_index, flags.logdir, flags.last_step) == ("ps", 1, "/logs", 200)


DID = {
    "made": [(True, "worker", 1)],
    "unsplit": False,
    "joined": False,
    "led": False,
    "masters": ["worker:1"],
    "before": 4,
    "step": 8,
    "returned": 8,
}
LATE = {"before": 12, "step": 13, "returned": 13}  # told to train until 8


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({}, ""),
        ({"step": 9, "returned": 8.0}, ""),
        ({"step": 9, "returned": 9}, "returned 9; expected 8, the global step"),
        ({"made": []}, "made 0 servers"),
        ({"made": [[True, "worker", 0]]}, "made the server of worker:0"),
        ({"made": [[False, "worker", 1]]}, "another cluster"),
        ({"joined": True}, "waits in `join`"),
        ({"led": True}, "prepared the variables as a chief does"),
        ({"masters": ["worker:1", ""]}, "on no server of the cluster"),
        ({"masters": []}, "on no server;"),
        ({"step": 7}, "stopped when the global step was 7"),
        ({"returned": None}, "returned None"),
        ({"unsplit": True, "made": []}, "did not split all hosts"),
        ({"before": None}, ""),
        (LATE, ""),
        ({**LATE, "step": 12, "returned": 12}, ""),
        ({**LATE, "returned": 12}, ""),
        ({**LATE, "step": 15, "returned": 15}, "expected one step at most"),
        (
            {**LATE, "returned": 8},
            "the global step was 12 and `last_step` 8: as worker:1, `trainer` returned 8, which is `last_step`; "
            "expected 12",
        ),
    ],
)
def test_what_a_trainer_did_wrong_is_told_in_a_sentence(other, says):
    _, fault = trainers.fault_of(("worker", 1), 8, **{**DID, **other})
    assert (says in fault) if says else not fault


def test_a_ps_only_waits():
    did = {**DID, "made": [(True, "ps", 0)], "masters": []}
    assert "did not wait" in trainers.fault_of(("ps", 0), 8, **did)[1]
    assert trainers.fault_of(("ps", 0), 8, **{**did, "joined": True}) == ("", "")


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
    ps, chief, other = trainers.rehearse(trainer, jobs, tasks)
    assert (ps.joined, chief.joined, other.joined) == (True, False, False)
    assert [each[1:] for tried in (ps, chief, other) for each in tried.servers] == tasks
    assert (chief.led, other.led) == (True, False)
    assert (chief.masters[-1], other.masters[-1]) == ("worker:0", "worker:1")
    assert (chief.step, other.step) == (3, 6)
    assert (chief.returned, other.returned) == (0, 1)


@forking
def test_who_waits_for_a_chief_that_is_not_there_gives_up():
    (tried,) = trainers.rehearse(trainer, {"ps": 1, "worker": 2}, [("worker", 1)])
    assert (tried.led, tried.step, tried.returned) == (False, None, None)


def unsplit(spec, job, index):
    """Trainers whose worker hosts stay one text, in a dictionary or a ClusterSpec; and one for which that text is one host."""
    import tensorflow as tf

    hosts = ",".join(spec["worker"])
    cluster = {**spec, "worker": [hosts] if index == 2 else hosts}
    tf.distribute.Server(tf.train.ClusterSpec(cluster) if index == 1 else cluster, job, 0)


@forking
def test_hosts_that_were_not_split_are_noted_in_each_form():
    found = trainers.rehearse(unsplit, {"ps": 1, "worker": 3}, [("worker", index) for index in range(3)])
    assert [each.unsplit for each in found] == [True, True, True]


@forking
def test_a_task_is_told_apart_that_comes_when_the_global_step_is_reached():
    chief, other = trainers.rehearse(trainer, {"ps": 1, "worker": 2}, [("worker", 0), ("worker", 1)])
    assert (chief.before, chief.step, other.before, other.step) == (None, 3, 3, 6)
