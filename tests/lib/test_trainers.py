"""Trainers: commands and flags, and a program tried as each task of a cluster."""

from __future__ import annotations

from processes import forked

from across import trainers


def test_flags_are_what_the_command_says():
    flags = trainers.flags_of(trainers.command({"ps": ["a:1", "b:2"], "worker": ["c:3"]}, "ps", 1, "/logs", 200))
    assert (flags.ps_hosts, flags.worker_hosts) == ("a:1,b:2", "c:3")
    assert (flags.job_name, flags.task_index, flags.logdir, flags.last_step) == ("ps", 1, "/logs", 200)


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


@forked
def test_a_trainer_is_tried_as_each_task_in_turn():
    jobs, tasks = {"ps": 1, "worker": 2}, [("ps", 0), ("worker", 0), ("worker", 1)]
    ps, chief, other = trainers.rehearse(trainer, jobs, tasks)
    assert (ps.joined, chief.joined, other.joined) == (True, False, False)
    assert [each[1:] for tried in (ps, chief, other) for each in tried.servers] == tasks
    assert (chief.led, other.led) == (True, False)
    assert (chief.masters[-1], other.masters[-1]) == ("worker:0", "worker:1")
    assert (chief.step, other.step) == (3, 6)
    assert (chief.returned, other.returned) == (0, 1)


@forked
def test_who_waits_for_a_chief_that_is_not_there_gives_up():
    (tried,) = trainers.rehearse(trainer, {"ps": 1, "worker": 2}, [("worker", 1)])
    assert (tried.led, tried.step, tried.returned) == (False, None, None)


def unsplit(spec, job, index):
    """Trainers whose worker hosts stay one text, in a dictionary or a ClusterSpec; and one for which that text is one host."""
    import tensorflow as tf

    hosts = ",".join(spec["worker"])
    cluster = {**spec, "worker": [hosts] if index == 2 else hosts}
    tf.distribute.Server(tf.train.ClusterSpec(cluster) if index == 1 else cluster, job, 0)


@forked
def test_hosts_that_were_not_split_are_noted_in_each_form():
    found = trainers.rehearse(unsplit, {"ps": 1, "worker": 3}, [("worker", index) for index in range(3)])
    assert [each.unsplit for each in found] == [True, True, True]


@forked
def test_a_task_is_told_apart_that_comes_when_the_global_step_is_reached():
    chief, other = trainers.rehearse(trainer, {"ps": 1, "worker": 2}, [("worker", 0), ("worker", 1)])
    assert (chief.before, chief.step, other.before, other.step) == (None, 3, 3, 6)
