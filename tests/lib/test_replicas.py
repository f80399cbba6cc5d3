"""Replicas: schedules are read and drawn, a step is stopped halfway or made slow, clients are timed, a step watched."""

from __future__ import annotations

import time

import pytest
from processes import forked, in_a_fresh_process

from across import fresh, replicas
from across.clusters import LocalCluster

INSIDE = [("read", 0), ("read", 1), ("write", 1), ("write", 0)]


def test_the_steps_of_a_schedule_stand_in_the_order_of_their_writes():
    assert replicas.steps_of([*INSIDE, ("read", 1)]) == [(1, 1, 2), (0, 0, 3)]
    with pytest.raises(ValueError, match="worker 2 writes at moment 1 and has not read"):
        replicas.steps_of([("read", 0), ("write", 2)])


def test_the_picture_says_in_which_order_they_read_and_write():
    alt = replicas.draw(INSIDE, title="Two steps").alt
    assert alt.endswith("In this order: worker:0 reads, worker:1 reads, worker:1 writes, worker:0 writes.")


@pytest.mark.parametrize(
    ("held", "last"),
    [
        ([10.0, 10.0, 10.0, 11.0, 11.0], "4 of 4: worker:0 writes 11; w was 11: the update of worker:1 is lost"),
        ([10.0, 10.0, 10.0, 11.0, 12.0], "4 of 4: worker:0 writes 12; w was 11"),
    ],
)
def test_a_walk_says_what_each_read_and_wrote_and_whose_update_is_lost(held, last):
    walked = replicas.walk(INSIDE, held, adds=1.0, title="t")
    before, *_, third, fourth = walked.steps
    assert before == "before the first of 4 moments: w is 10"
    assert (third, fourth) == ("3 of 4: worker:1 writes 11; w was 10", last)


def test_steps_are_drawn_from_a_moment_on_and_cut_at_both_ends():
    steps = {"worker:0": [(9.0, 10.5, 0), (10.6, 12.0, 4)], "worker:1": [(10.25, 10.5, 3), (11.5, 12.0, 1)]}
    alt = replicas.draw_steps(steps, title="S", start=10.0, seconds=1.0).alt
    assert alt.endswith("In 1 seconds, worker:0: 2 steps, staleness 0 to 4; worker:1: 1 steps, staleness 3 to 3.")
    with pytest.raises(ValueError, match="no worker made a step"):
        replicas.draw_steps({"worker:0": [(1.0, 2.0, 0)]}, title="S", start=3.0, seconds=1.0)


def test_the_picture_of_a_global_step_says_where_it_falls():
    alt = replicas.draw_progress([(5.0, 0), (6.0, 90), (7.0, 2)], {"worker:0 back": 6.5}, title="A run").alt
    assert alt == "A run: the global step over 2 s, to 2, which falls from 90 to 2. worker:0 back at 1.5 s."
    assert "does not fall" in replicas.draw_progress([(5.0, 0), (6.0, 90)], {}, title="A run").alt


@pytest.mark.parametrize(("assigns", "left"), [(True, 6.0), (False, 3.0)])
@in_a_fresh_process()
def test_a_step_that_is_stopped_halfway_loses_what_came_between_only_if_it_assigns(assigns, left):
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
        assert float(session.run(w)) == left


@in_a_fresh_process()
def test_a_step_that_changes_nothing_is_refused():
    import tensorflow as tf

    with tf.Graph().as_default():
        assert replicas.why_no_step(tf.constant(1.0)) == "returned a step that changes no variable"
        assert replicas.why_no_step(None) == "returned None; expected an op"
        assert replicas.why_no_step(3) == "returned a value of type int; expected an op"
        assert replicas.why_no_step(tf.compat.v1.get_variable("w", initializer=1.0).assign_sub(1.0)) == ""
        with pytest.raises(ValueError, match="the step changes no variable"):
            replicas.Halfway(tf.constant(1.0))


@in_a_fresh_process()
def test_what_is_slow_is_the_same_and_comes_so_much_later():
    import tensorflow as tf

    v1 = tf.compat.v1

    def took(seconds: float) -> float:
        """How long the quickest of three runs took, each with another input."""
        with tf.Graph().as_default(), v1.Session() as session:
            given = v1.placeholder(tf.float32, [2])
            came = replicas.slow(2.0 * given, seconds)
            session.run(came, {given: [0.0, 0.0]})
            all_took = []
            for number in range(3):
                start = time.monotonic()
                assert session.run(came, {given: [0.0, float(number)]})[1] == 2.0 * number
                all_took.append(time.monotonic() - start)
            return min(all_took)

    assert took(0.2) >= 0.2 > took(0.0)


def adds(target: str, clients: int, pause: float) -> replicas.Timed:
    """A client that adds 1 to a shared number, again and again for 0.4 seconds."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        number, ready = (v1.get_variable(name, initializer=0) for name in ("number", "ready"))
        step = replicas.slow(number.assign_add(1, read_value=True), pause)
        with v1.Session(target, config=v1.ConfigProto(operation_timeout_in_ms=10_000)) as session:
            return replicas.timed(session, step, 0.4, ready, clients)


def zeroed(target: str) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"), v1.Session(target) as session:
        session.run([v1.get_variable(name, initializer=0).initializer for name in ("number", "ready")])


@forked
def test_clients_are_timed_from_when_all_are_ready():
    with LocalCluster(ps=1, worker=2) as cluster:
        fresh.run(zeroed, cluster.target("ps", 0))
        asked = [(target, 2, pause) for target, pause in zip(cluster.targets["worker"], (0.0, 0.1), strict=True)]
        first, second = fresh.side_by_side(adds, asked)
    assert abs(first.start - second.start) < 0.2
    assert len(second.values) <= 4
    assert len(first.values) > len(second.values)


def counted(target: str, until: int) -> None:
    """A chief that makes the global step, and counts to `until`."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"), v1.Session(target) as session:
        step = v1.get_variable("global_step", [], tf.int64, initializer=v1.zeros_initializer())
        session.run(step.initializer)
        for _ in range(until):
            session.run(step.assign_add(1).op)


@forked
def test_a_global_step_is_watched_while_others_change_it():
    with LocalCluster(ps=1) as cluster, replicas.watching(cluster) as watch:
        fresh.run(counted, cluster.target("ps", 0), 5)
        watch.reach(5)
        watch.mark("counted")
        watch.reach(6, seconds=0.05)  # in vain
    assert watch.seen[-1][1] == 5
    assert [step for _, step in watch.seen] == sorted(step for _, step in watch.seen)
    assert list(watch.marks) == ["counted"]
