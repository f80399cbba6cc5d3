"""Chapter 07: the rule that it grades is TensorFlow's, what its prose claims is so, and no process outlives its notebook."""

from __future__ import annotations

import os
import time

import pytest
from nbclient import NotebookClient
from processes import forked, in_a_fresh_process

from across import fresh
from across.clusters import LocalCluster
from autograder.authoring import build
from autograder.model.course import find

pytestmark = forked
CHAPTER = "07_clusters"


def differences(seed: int, count: int, jobs: dict[str, int], masters: list[tuple[str, int]]) -> tuple[int, list[str]]:
    """How many random partial names were tried on each master, and where the rule and TensorFlow's sessions differ."""
    import numpy as np
    import tensorflow as tf

    import cluster_names
    import cluster_truth
    from across import placement

    v1, rng = tf.compat.v1, np.random.default_rng(seed)
    running, devices = cluster_truth.Servers(cpus=2, **jobs), cluster_names.specs(jobs, 2)
    found, tried = [], 0
    for master in masters:
        names = set()
        for _ in range(count):
            job, task = rng.choice(["", *(f"/job:{each}" for each in jobs)]), rng.integers(-2, max(jobs.values()))
            cpu = rng.integers(-2, 2)
            names.add(f"{job}{f'/task:{task}' * bool(task >= 0)}{f'/cpu:{cpu}' * bool(cpu >= 0)}")
        fitting = sorted(name for name in names if cluster_names.resolved(name, devices, master) is not None)
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [], "x")
            for number, name in enumerate(fitting):
                with tf.device(name):
                    tf.negative(x, name=f"op{number}")
            fetches = [f"op{number}:0" for number in range(len(fitting))]
            with running.session(graph, master) as session:
                seen = placement.trace_graph(graph, fetches, {x: 1.0}, session=session)
        for number, name in enumerate(fitting):
            ran, right = seen[f"op{number}"].device, cluster_names.short(cluster_names.resolved(name, devices, master))
            found += [f"{name} on {master}: {ran}, not {right}"] * (ran != right)
        for name in sorted(names.difference(fitting)):
            with tf.Graph().as_default() as graph, tf.device(name):
                op = tf.constant(1.0)
                with running.session(graph, master) as session:
                    try:
                        session.run(op)
                        found.append(f"{name} on {master} runs")
                    except tf.errors.InvalidArgumentError:
                        pass
        tried += len(names)
    return tried, found


def both() -> list[tuple[int, list[str]]]:
    return [
        differences(1, 40, {"ps": 2, "worker": 3}, [("worker", 2), ("ps", 1)]),
        differences(2, 40, {"amber": 2, "oasis": 1, "oasis_3": 3}, [("oasis_3", 1), ("amber", 0)]),
    ]


@pytest.mark.whole
def test_the_rule_for_names_with_gaps_is_tensorflows_also_where_names_begin_alike():
    for tried, found in fresh.run(both, timeout=120):
        assert found == []
        assert tried >= 40


@in_a_fresh_process()
def test_an_eager_op_fills_gaps_by_this_process_task_0_and_cpu_0():
    import tensorflow as tf

    def device(name: str) -> str:
        with tf.device(name):
            return (tf.ones([]) + 1.0).device

    assert tf.compat.v1.train.Server is tf.distribute.Server
    with LocalCluster(ps=1, worker=2, cpus=2) as cluster:
        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(cluster.spec))
        assert device("/job:worker") == "/job:worker/replica:0/task:0/device:CPU:0"
        assert device("/cpu:0") == "/job:localhost/replica:0/task:0/device:CPU:0"
        with pytest.raises(tf.errors.InvalidArgumentError):
            device("/task:1")


def children() -> set[int]:
    """The processes that were started with this test's environment, or forked from one of them."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                of_ours = f"ACROSS_TEST_OWNER={os.getpid()}".encode() in file.read()
        except OSError:
            continue
        if of_ours:
            found.add(int(name))
    return found


@pytest.mark.slow
def test_run_all_leaves_no_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACROSS_TEST_OWNER", str(os.getpid()))
    NotebookClient(build.solved(find(), CHAPTER), timeout=180, kernel_name="python3").execute()
    until = time.monotonic() + 10.0
    while children() and time.monotonic() < until:
        time.sleep(0.05)
    assert children() == set()
