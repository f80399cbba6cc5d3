"""A cluster of real processes starts, computes and ends inside the grader's box, whose loopback is its own."""

import os
from dataclasses import replace

import pytest
from boxed import CAPS, inherited, inside, needs_a_box

from across import clusters, fresh
from across._process import pristine

pytestmark = [
    needs_a_box,
    pytest.mark.slow,  # TensorFlow is imported here, as in the server that kernels are forked from
]
root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user for this test")
ROOM = replace(CAPS, memory=4 << 30, pids=2048, file=256 << 20, tmp=512 << 20)


def added(target):
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [])
        with tf.device("/job:worker/task:1"):
            y = x + 2.0
    with v1.Session(target, graph=graph, config=v1.ConfigProto(operation_timeout_in_ms=20_000)) as session:
        return float(session.run(y, {x: 1.0}))


def compute():
    from across._process import fresh_child

    pristine.leave(fresh_child)
    with clusters.LocalCluster(ps=1, worker=2) as cluster:
        value = fresh.run(added, cluster.target("worker", 0))
        pids = [cluster.pid(*task) for task in cluster.tasks]
    return [value, [pid for pid in pids if os.path.exists(f"/proc/{pid}")]]


def test_three_tasks_compute_and_end():
    import across._process.fresh_child  # noqa: F401 - before the fork, as in a kernel's server

    assert inside(compute, ROOM)[:2] == ([3.0, []], 0)


@root_only
def test_in_an_ordinary_users_box_as_well(as_nobody):
    import across._process.fresh_child
    import across._process.network_card  # noqa: F401 - this box, unlike a grader's, does not show the library

    room = replace(ROOM, memory=ROOM.memory + 8 * inherited())
    assert as_nobody(lambda: inside(compute, room)[:2]) == [[3.0, []], 0]
