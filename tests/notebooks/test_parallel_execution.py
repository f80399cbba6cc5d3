"""Chapter 05's claims, and what its checks rest on: counted and ordered, never timed."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import running
from across import fresh, timeline


def test_a_queue_of_dependency_counters_is_tensorflows_order_on_every_graph_that_a_check_draws():
    rng = np.random.default_rng(5)
    for size in rng.integers(7, 10, size=40):
        nodes, edges = running.telling_graph(rng, int(size))
        assert running.by_queue(nodes, edges) == timeline.run_order(nodes, edges)


def test_with_one_thread_in_the_pool_it_is_a_stack():
    rng = np.random.default_rng(6)
    for size in rng.integers(7, 10, size=20):
        nodes, edges = running.telling_graph(rng, int(size))
        assert running.by_queue(nodes, edges, stack=True) == timeline.run_order(nodes, edges, threads=1)


@pytest.mark.parametrize("devices", [[1, 1, 1], [2, 3, 2]])
def test_no_wrong_way_of_counting_is_right_on_what_a_check_draws_and_any_two_differ(devices):
    cases = running.telling_together(np.random.default_rng(7), devices)
    ways = [running.MISCOUNTED[name][0] for name in running.ways_for(min(devices))]
    counts = [[way(stats) for stats in cases] for way in ways]
    assert all(
        running.most(running.spans_of(stats)) not in column
        for stats, column in zip(cases, zip(*counts, strict=True), strict=True)
    )
    assert len(set(map(tuple, counts))) == len(ways)


def threads(*configs: dict[str, Any]) -> list[int]:
    """How many threads this process gets more by each session in turn; each has run an op when the next is made."""
    import tensorflow as tf

    v1 = tf.compat.v1
    counts, sessions = [len(os.listdir("/proc/self/task"))], []
    for config in configs:
        with tf.Graph().as_default() as graph:
            product = tf.matmul(*[tf.random.uniform([300, 300]) for _ in range(2)])
        sessions.append(v1.Session(graph=graph, config=v1.ConfigProto(**config)))
        sessions[-1].run(product)
        counts.append(len(os.listdir("/proc/self/task")))
    return [int(each) for each in np.diff(counts)]


LINUX = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in Linux's /proc")


@LINUX
def test_the_first_session_sizes_both_pools_and_only_that_of_whole_ops_can_be_a_sessions_own():
    first, shared, own, pieces = fresh.run(
        threads,
        {"inter_op_parallelism_threads": 2, "intra_op_parallelism_threads": 2},
        {"inter_op_parallelism_threads": 9},
        {"inter_op_parallelism_threads": 7, "use_per_session_threads": True},
        {"inter_op_parallelism_threads": 1, "intra_op_parallelism_threads": 9, "use_per_session_threads": True},
    )
    assert first > 0
    assert (shared, own, pieces) == (0, 7, 1)


@LINUX
@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"inter_op_parallelism_threads": 5, "use_per_session_threads": True}, 5),
        ({"inter_op_parallelism_threads": 5}, 0),
        ({"intra_op_parallelism_threads": 5}, 0),
        ({"device_count": {"CPU": 5}}, 0),
    ],
)
def test_a_configuration_is_judged_by_the_threads_that_it_starts(config, wanted):
    assert running.threads_of(running.v1.ConfigProto(**config)) == wanted


def four_naps(homes: int) -> list[list[str]]:
    """The lanes of four naps on so many logical CPUs, in three runs with one inter-op and four intra-op threads."""
    import time

    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(4)

    def wait(seconds):
        time.sleep(float(seconds))
        return seconds

    @tf.function
    def program(seconds):
        naps = []
        for i in range(4):
            with tf.device(f"/CPU:{i % homes}"):
                naps.append(tf.numpy_function(wait, [seconds], tf.float32, stateful=False))
        return naps

    program(tf.constant(0.01))
    runs = [timeline.record(program, tf.constant(0.01)) for _ in range(3)]
    return [[op.lane for op in seen if op.type == "PyFuncStateless"] for seen in runs]


def test_four_logical_cpus_share_one_inter_op_thread():
    assert fresh.run(four_naps, 4, cpus=4, timeout=240) == [["inter-op 1"] * 4] * 3
