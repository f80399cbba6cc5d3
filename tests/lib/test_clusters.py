"""Clusters of real processes: they start, compute together, say what went wrong, and end whatever becomes of their owner."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from processes import ended, forked

from across import clusters, fresh
from across.clusters import LocalCluster, Logs, StartError

pytestmark = forked


def three_tasks(spec, target):
    """A run over three tasks: what came out, where each op ran, bytes by the trace and as TensorFlow's own log has them."""
    import re

    import tensorflow as tf

    from across import placement

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [3], name="x")
        with tf.device("/job:ps/task:0"):
            w = v1.Variable(tf.ones([100, 3]), name="w")
        with tf.device("/job:worker/task:1"):
            y = tf.linalg.matvec(w, x, name="y")
        z = tf.reduce_sum(y, name="z")
    with v1.Session(target, graph=graph, config=v1.ConfigProto(operation_timeout_in_ms=20_000)) as session:
        session.run(w.initializer)
        trace = placement.trace_graph(graph, z, {x: [1, 2, 3]}, session=session)
        seen = v1.RunMetadata()
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        counted: dict[str, int] = {}  # the most of ten runs: what other workers have logged is not always there in time
        for _ in range(10):
            value = session.run(z, {x: [1, 2, 3]}, options=options, run_metadata=seen)
            run: dict[str, int] = {}
            for node in (node for device in seen.step_stats.dev_stats for node in device.node_stats):
                if node.node_name == "RecvTensor":
                    task = re.compile(r"/job:(\w+)/replica:0/task:(\d+)")
                    ends = "-".join(":".join(end) for end in task.findall(node.timeline_label))
                    size = sum(out.tensor_description.allocation_description.requested_bytes for out in node.output)
                    run[ends] = run.get(ends, 0) + size
            counted = {ends: max(run.get(ends, 0), counted.get(ends, 0)) for ends in {*run, *counted}}
    return float(value), trace, counted


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(ps=1, worker=2) as running:
        yield running


@pytest.fixture(scope="module")
def run(cluster):
    return fresh.run(three_tasks, cluster.spec, cluster.target("worker", 0))


def test_tasks_compute_together(run):
    value, trace, _ = run
    assert value == 600.0
    assert {op.type: op.device for op in trace if op.type in ("ReadVariableOp", "MatMul", "Sum")} == {
        "ReadVariableOp": "ps:0 CPU:0",
        "MatMul": "worker:1 CPU:0",
        "Sum": "worker:0 CPU:0",
    }


def test_bytes_are_those_that_tensorflow_counts_itself(run):
    _, trace, counted = run
    found = {"-".join(ends): size for ends, size in clusters.bytes_between(trace).items()}
    assert found == counted == {"ps:0-worker:1": 1200, "worker:0-worker:1": 12, "worker:1-worker:0": 400}


def test_the_picture_says_who_sent_what(cluster, run):
    drawn = cluster.draw(run[1], title="A run")
    assert "ps:0 sent 1.2 kB to worker:1" in drawn.alt
    assert f"worker:1 at {cluster.spec['worker'][1]} has CPU:0" in drawn.alt


def test_a_program_of_today_connects_to_it_and_its_calls_are_counted(cluster):
    def connected(spec):
        import tensorflow as tf

        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(spec))
        with tf.device("/job:worker/replica:0/task:1/device:CPU:0"):
            return (tf.ones([2]) + 1.0).device

    outcome = fresh.call(connected, cluster.spec, env={"GRPC_TRACE": "http", "GRPC_VERBOSITY": "DEBUG"})
    assert outcome.result() == "/job:worker/replica:0/task:1/device:CPU:0"
    made = clusters.calls(outcome.output)
    assert made["EagerService/CreateContext"] == len(cluster.tasks)
    assert not [name for name in made if name.startswith("MasterService")]


def test_each_task_has_an_address_a_target_and_its_tf_config(cluster):
    assert [len(cluster.spec[job]) for job in ("ps", "worker")] == [1, 2]
    assert cluster.targets["worker"][1] == cluster.target("worker", 1) == f"grpc://{cluster.spec['worker'][1]}"
    assert json.loads(cluster.tf_config("worker", 1)) == {
        "cluster": cluster.spec,
        "task": {"type": "worker", "index": 1},
    }
    with pytest.raises(KeyError, match=r"no task ps:1; there are: ps:0, worker:0, worker:1"):
        cluster.target("ps", 1)


def test_logs_are_text_and_fold_in_a_notebook(cluster):
    assert cluster.logs("ps", 0) == f"ps:0 listens: {cluster.target('ps', 0)}\n"
    assert cluster.logs()._repr_html_().count("<details>") == 3
    assert "&lt;b&gt;" in Logs({"ps:0": "<b>"})._repr_html_()


def test_a_killed_task_comes_back_at_its_address():
    with LocalCluster(worker=2) as two:
        first = two.pid("worker", 1)
        two.kill("worker", 1)
        assert not two.alive("worker", 1)
        assert ended(first, 0.0)
        assert "worker:1 at" in two.draw().alt
        assert "(ended)" in two.draw().alt
        two.restart("worker", 1)
        assert two.alive("worker", 1)
        assert two.logs("worker", 1).count(two.target("worker", 1)) == 2


def test_a_task_has_its_environment_and_a_result():
    def told(spec, job, index):
        import tensorflow as tf

        server = tf.distribute.Server(spec, job, index)
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        print(server.target, flush=True)
        time.sleep(0.5)  # it is seen listening
        return hidden, os.environ["ODD"], json.loads(os.environ["TF_CONFIG"])["task"]

    with LocalCluster(told, ps=1, worker=1, env={"ODD": "1"}) as both:
        assert both.result("ps", 0) == (os.environ.get("CUDA_VISIBLE_DEVICES"), "1", {"type": "ps", "index": 0})


def test_a_program_is_rehearsed_for_machines_that_are_not_there():
    spec = {"ps": ["machine-a:2221"], "worker": ["machine-a:2222", "machine-b:2222"]}

    def serve(spec, job, index):
        import tensorflow as tf

        os.environ["CUDA_VISIBLE_DEVICES"] = "7"
        tf.distribute.Server(tf.train.ClusterSpec(spec), job, task_index=index).join()
        raise AssertionError("join returned")

    def hastily(spec, job, index):
        import tensorflow as tf

        return tf.compat.v1.train.Server({"local": ["localhost:1"]}).target

    assert clusters.rehearse(serve, spec, [("worker", 1), ("ps", 0)]) == [
        [clusters.Rehearsal(spec, "worker", 1, "7", True)],
        [clusters.Rehearsal(spec, "ps", 0, "7", True)],
    ]
    assert not clusters.rehearse(hastily, spec, [("worker", 1)])[0][0].joined
    assert clusters.rehearse(lambda *_: None, spec, [("worker", 1)]) == [[]]
    seen = [each[0].visible for each in clusters.rehearse(hastily, spec, [("worker", 1), ("ps", 0)], gpus="3,5")]
    assert seen == ["3,5", "3,5"]
    with pytest.raises(ValueError, match="Must specify an explicit"):
        clusters.rehearse(lambda spec, *_: __import__("tensorflow").distribute.Server(spec), spec, [("worker", 1)])


@pytest.mark.whole
def test_a_program_that_waits_elsewhere_than_in_join_is_ended():
    def sleeps(spec, job, index):
        import tensorflow as tf

        tf.distribute.Server(spec, job, index)
        while True:
            time.sleep(3600)

    spec = {"worker": ["machine-a:2222", "machine-b:2222"]}
    found = clusters.rehearse(sleeps, spec, [("worker", 1), ("worker", 0)])
    assert [[(one.index, one.joined) for one in asked] for asked in found] == [[(1, False)], [(0, False)]]


def test_a_program_that_raises_is_told_and_leaves_nothing():
    def breaks(spec, job, index):
        print("so far so good")
        raise ValueError("of its own")

    before = snapshot()
    with pytest.raises(ValueError, match="of its own") as caught:
        LocalCluster(breaks, worker=2)
    assert "in worker:0, in breaks" in caught.value.__notes__[0]
    del caught
    assert after(before)


def test_a_program_without_a_server_is_told():
    with pytest.raises(StartError, match=r"worker:0 returned, before it listened"):
        LocalCluster(lambda spec, job, index: None, worker=1)
    with pytest.raises(StartError, match=r"did not listen at 127.0.0.1:\d+ within 0.2 s"):
        LocalCluster(lambda spec, job, index: time.sleep(60), worker=1, timeout=0.2)
    with pytest.raises(ValueError, match="at least one task"):
        LocalCluster()


def test_a_port_that_is_taken_is_not_the_end(monkeypatch: pytest.MonkeyPatch):
    with socket.socket(socket.AF_INET6) as squatter:
        squatter.bind(("::", 0))
        squatter.listen()
        real, asked = clusters.free_address, []

        def address(held):
            asked.append(1)
            return f"127.0.0.1:{squatter.getsockname()[1]}" if len(asked) == 1 else real(held)

        def refused(host, *_):
            raise ConnectionRefusedError if host[1] == squatter.getsockname()[1] else AssertionError

        monkeypatch.setattr(clusters, "free_address", address)
        with LocalCluster(worker=1) as one:
            assert len(asked) == 2
            assert one.alive("worker", 0)


def test_a_closed_cluster_keeps_its_logs_and_starts_nothing():
    cluster = LocalCluster(worker=1)
    cluster.close()
    assert "worker:0 listens" in cluster.logs("worker", 0)
    with pytest.raises(StartError, match="closed"):
        cluster.restart("worker", 0)


def snapshot() -> tuple[int, set[str]]:
    fresh.run(int)  # the server is up
    gc.collect()
    server = os.path.dirname(fresh.server_path(time.monotonic() + 60, cold=False) or "")
    return len(os.listdir("/proc/self/fd")), set(os.listdir(server))


def after(before: tuple[int, set[str]]) -> bool:
    return snapshot() == before


def listening(address: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0


@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_starts_and_stops_leave_nothing(times: int):
    before = snapshot()
    for _ in range(times):
        with LocalCluster(ps=1, worker=1) as both:
            pids = [both.pid(*task) for task in both.tasks]
            addresses = [each for job in both.spec.values() for each in job]
            assert all(map(listening, addresses))
        assert all(ended(pid, 0.0) for pid in pids)
        assert not any(map(listening, addresses))
    assert after(before)


def test_without_a_reference_it_ends():
    cluster = LocalCluster(worker=1)
    pid = cluster.pid("worker", 0)
    del cluster
    gc.collect()
    assert ended(pid)


OWNER = """
    import os, signal, sys, time
    from across.clusters import LocalCluster
    cluster = LocalCluster(ps=1, worker=1)
    print(*(cluster.pid(*task) for task in cluster.tasks), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.whole
def test_the_tasks_of_an_owner_that_is_killed_end():
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        owner.wait(60)
        gone = time.monotonic() + 1.0
        assert len(pids) == 2
        assert all(ended(pid, max(0.0, gone - time.monotonic())) for pid in pids)
    finally:
        owner.kill()
        owner.stdout.close()  # pyright: ignore[reportOptionalMemberAccess]
        owner.wait()


def test_interrupts_at_any_moment_leave_nothing():
    before = snapshot()

    def interrupted(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            with LocalCluster(ps=1, worker=1):
                pass
        except KeyboardInterrupt:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    handler = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        for step in range(10):
            interrupted(0.01 + 0.02 * step)
    finally:
        signal.signal(signal.SIGALRM, handler)
    assert after(before)


@pytest.mark.whole
def test_a_notebook_has_one_and_its_kernels_end_is_theirs():
    cells = [
        "from across.clusters import LocalCluster\ncluster = LocalCluster(worker=1)",
        "def serve(spec, job, index):\n    import tensorflow as tf\n    tf.distribute.Server(spec, job, index).join()\n"
        "own = LocalCluster(serve, worker=1)",
        "print(cluster.pid('worker', 0), own.pid('worker', 0))",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    NotebookClient(notebook, timeout=120).execute()
    assert all(ended(int(pid)) for pid in notebook.cells[-1].outputs[0].text.split())


def test_in_a_fresh_process_as_well():
    def nested() -> bool:
        with LocalCluster(worker=1) as one:
            return Path(f"/proc/{one.pid('worker', 0)}").exists()

    assert fresh.run(nested, timeout=120)
