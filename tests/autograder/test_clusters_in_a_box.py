"""A cluster of real processes starts, computes and ends inside the grader's box, whose loopback is its own."""

import os
from dataclasses import replace

import pytest
from boxed import CAPS, inherited, needs_a_box

from across import clusters, fresh
from across._process import pristine

pytestmark = [
    needs_a_box,
    pytest.mark.slow,  # TensorFlow is imported here, as in the server that kernels are forked from
]
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


def test_three_tasks_compute_and_end(in_each_box):
    import across._process.fresh_child
    import across._process.network_card  # noqa: F401 -- before the fork, as in a kernel's server

    assert in_each_box(compute, replace(ROOM, memory=ROOM.memory + 8 * inherited())) == [[3.0, []], 0]
