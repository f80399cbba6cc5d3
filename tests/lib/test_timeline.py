"""What `across.timeline` promises: who ran where, after whom. Nothing here depends on how long anything takes."""

from __future__ import annotations

import json
import random
import time
from collections import Counter, deque
from graphlib import CycleError
from typing import Any

import pytest

from across import fresh, timeline
from across.timeline import Op, Timeline

OPS = (Op("a", "one/A", "MatMul", 0.0, 4.0), Op("b", "B", "Sin", 1.0, 3.0), Op("a", "C", "Sin", 4.0, 5.0))


def recordings() -> dict[str, Any]:
    """One process for everything that is recorded: five ops three times, an eager op, a session without a pool."""
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(4)
    tf.config.threading.set_intra_op_parallelism_threads(3)

    def wait(seconds):
        time.sleep(float(seconds))
        return np.float32(seconds)

    def nap(seconds, name):
        return tf.numpy_function(wait, [seconds], tf.float32, stateful=False, name=name)

    @tf.function
    def five(x, seconds):
        a, b, c = tf.matmul(x, x, name="A"), nap(seconds, "B"), nap(seconds, "C")
        return a, b, nap(c, "D"), nap(c, "E")

    x, seconds, found = tf.ones([900, 900]), tf.constant(0.02), {}
    five(x, seconds)
    found["five"] = [timeline.record(five, x, seconds) for _ in range(3)]
    found["eager"] = timeline.record(lambda: tf.matmul(x, x))

    def fails():
        five(x, seconds)
        raise KeyError("mine")

    for name, fn in {"inside": lambda: timeline.record(five, x, seconds), "fails": fails}.items():
        try:
            timeline.record(fn)
        except Exception as error:
            found[name] = type(error).__name__
    found["after"] = timeline.record(five, x, seconds)

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
        length = v1.placeholder(tf.float32, [])
        c = nap(length, "C")
        last = [nap(c, "D"), nap(c, "E")]
    metadata, full = v1.RunMetadata(), v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    with v1.Session(graph=graph, config=v1.ConfigProto(inter_op_parallelism_threads=-1)) as session:
        found["caller"] = timeline.record(session.run, last, {length: 0.001})
        session.run(last, {length: 0.001}, options=full, run_metadata=metadata)
    found["stats"] = timeline.of_step(metadata.step_stats)
    return found


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return fresh.run(recordings, timeout=240)


def spans(found: Timeline) -> dict[str, Op]:
    return {op.name: op for op in found}


def test_every_recording_has_the_five_ops_and_readers_come_after_what_they_read(recorded):
    for found in (*recorded["five"], recorded["after"]):
        ran = spans(found)
        assert sorted(ran) == ["A", "B", "C", "D", "E"]
        assert min(ran["D"].start, ran["E"].start) >= ran["C"].end
        assert min(op.start for op in found) == 0.0


def test_whole_ops_run_in_the_inter_op_pool_and_pieces_are_those_of_the_product(recorded):
    for found in recorded["five"]:
        assert {op.lane.rpartition(" ")[0] for op in found} == {timeline.INTER}
        assert len({op.lane for op in found}) <= 4
        assert {piece.name for piece in found.pieces} == {"A"}
        assert {piece.lane.rpartition(" ")[0] for piece in found.pieces} == {timeline.INTRA}


def test_ops_of_one_thread_do_not_overlap(recorded):
    for found in recorded["five"]:
        for lane in found.lanes:
            of_lane = [op for op in found if op.lane == lane]
            assert Timeline(tuple(of_lane)).at_once() <= 1


def test_an_eager_op_runs_in_the_callers_thread(recorded):
    (product,) = recorded["eager"]
    assert (product.type, product.lane) == ("MatMul", timeline.CALLER)


def test_a_session_without_a_pool_runs_in_the_callers_thread(recorded):
    assert {op.name for op in recorded["caller"]} == {"C", "D", "E"}
    assert recorded["caller"].lanes == (timeline.CALLER,)
    assert recorded["caller"].at_once() == 1


def test_what_the_function_raises_is_raised_and_the_next_recording_is_whole(recorded):
    assert (recorded["inside"], recorded["fails"]) == ("AlreadyExistsError", "KeyError")


def test_step_statistics_give_a_lane_a_device_and_none_of_the_sessions_own_nodes(recorded):
    ran = spans(recorded["stats"])
    assert sorted(ran) == ["C", "D", "E"]
    assert recorded["stats"].lanes == ("CPU:0",)
    assert {op.type for op in ran.values()} == {"PyFuncStateless"}
    assert min(ran["D"].start, ran["E"].start) >= ran["C"].end


def test_at_once_time_by_type_and_length_in_milliseconds_and_lanes_by_pool_and_number():
    found, nothing = Timeline(OPS), Timeline(())
    assert found.at_once() == 2  # an op that ends when another starts does not overlap it
    assert list(found.by_type().items()) == [("MatMul", 4.0), ("Sin", 3.0)]
    assert (found.length, nothing.length, nothing.at_once()) == (5.0, 0.0, 0)
    names = ["intra-op 1", "inter-op 10", "caller", "inter-op 2"]
    found = Timeline(tuple(Op(lane, "x", "X", 0.0, 1.0) for lane in names))
    assert found.lanes == ("caller", "inter-op 2", "inter-op 10", "intra-op 1")


def test_the_picture_says_what_ran_when_and_pieces_in_a_row_are_one():
    pieces = tuple(Op("intra-op 1", "one/A", "MatMul", at / 10, at / 10 + 0.09) for at in range(10))
    alt = Timeline(OPS, pieces).draw(title="two lanes").alt
    assert alt.startswith("Timeline, two lanes, in milliseconds. ")
    assert "b: B 1 to 3" in alt
    assert "intra-op 1: A 0 to 0.99" in alt
    with pytest.raises(ValueError, match="no spans"):
        Timeline(()).draw()


def test_chromes_file_names_every_lane_and_counts_in_microseconds(tmp_path):
    path = Timeline(OPS, (Op("intra-op 1", "one/A", "MatMul", 0.5, 1.0),)).save(tmp_path / "trace.json")
    events = json.loads(path.read_text())["traceEvents"]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert sorted(lanes.values()) == ["a", "b", "intra-op 1"]
    ops = [(lanes[e["tid"]], e["name"], e["cat"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert ("a", "A", "MatMul", 0.0, 4000.0) in ops
    assert ("intra-op 1", "A", "MatMul", 500.0, 500.0) in ops
    assert len(ops) == 4


def test_an_empty_recording_is_an_empty_timeline():
    assert timeline.decoded(b"") == Timeline(())
    assert repr(Timeline(OPS)).count("Sin") == 2


def drawn(rng: random.Random, size: int) -> tuple[list[str], list[tuple[str, str]]]:
    nodes = [f"n{i}" for i in range(size)]
    while True:
        edges = [(a, b) for j, b in enumerate(nodes) for a in nodes[:j] if rng.random() < 0.25]
        readers = Counter(a for a, _ in edges)
        if len(set(nodes) - {b for _, b in edges}) <= 6 and max(readers.values(), default=0) <= 8:
            rng.shuffle(edges)
            return nodes, edges


def simulated(nodes: list[str], edges: list[tuple[str, str]], stack: bool) -> list[str]:
    left = {n: {a for a, b in edges if b == n} for n in nodes}
    ready, done = deque(n for n in nodes if not left[n]), []
    while ready:
        done.append(ready.pop() if stack else ready.popleft())
        freed = [n for n in nodes if done[-1] in left[n] and len(left[n]) == 1]
        for n in nodes:
            left[n].discard(done[-1])
        ready += freed
    return done


@pytest.mark.parametrize(("threads", "stack"), [(-1, False), (1, True)])
def test_the_executors_order_is_a_queue_in_the_callers_thread_and_a_stack_with_one_of_a_pool(threads, stack):
    rng = random.Random(threads)
    for _ in range(25):
        nodes, edges = drawn(rng, rng.randint(1, 12))
        assert timeline.run_order(nodes, edges, threads) == simulated(nodes, edges, stack)


@pytest.mark.parametrize("edge", [("b", "a"), ("a", "a"), ("a", "z"), ("z", "a")])
def test_an_edge_that_leads_back_or_nowhere_is_an_error(edge):
    with pytest.raises(ValueError, match="does not lead"):
        timeline.run_order(["a", "b"], [edge])


@pytest.mark.parametrize("threads", [-1, 1])
def test_as_many_sources_and_readers_as_have_a_fixed_order_and_no_more(threads):
    sources, readers = [f"s{i}" for i in range(7)], [f"r{i}" for i in range(9)]
    for nodes, edges in (
        (sources[:6], []),
        (["s", *readers[:8]], [("s", name) for name in reversed(readers[:8])]),
        ([], []),
    ):
        assert timeline.run_order(nodes, edges, threads) == simulated(nodes, edges, threads == 1)
    for nodes, edges in ((sources, []), (["s", *readers], [("s", name) for name in readers])):
        with pytest.raises(ValueError, match="beyond 6 sources and 8 readers"):
            timeline.run_order(nodes, edges, threads)


def test_the_longest_chain_counts_what_is_asked_for():
    inputs = {"e": ["c", "d"], "d": ["b"], "c": ["a"], "b": ["a"], "a": ["x"]}
    assert timeline.longest_chain(inputs) == ["x", "a", "b", "d", "e"]
    assert timeline.longest_chain(inputs, {"b", "d"}) == ["b", "d"]
    assert timeline.longest_chain(inputs, {"c"}) == ["c"]
    assert timeline.longest_chain({}) == []
    with pytest.raises(CycleError):
        timeline.longest_chain({"a": ["b"], "b": ["a"]})


def test_a_card_whose_stream_tells_no_times_is_shown_as_the_host_launched_it():
    from tensorflow.core.framework import step_stats_pb2

    begin = 1795760921609735634  # RECORDED: TensorFlow 2.21 on an NVIDIA H200, driver 580, 2026-11-27
    gpu, local = "/device:GPU:0", "/job:localhost/replica:0/task:0"
    rows = {
        f"{gpu}/stream:13": [("product0:MatMul", "void cutlass::Kernel2<cutlass_80_tensorop>", 0, 0)],
        f"{gpu}/stream:all": [("product0:MatMul", "void cutlass::Kernel2<cutlass_80_tensorop>", 0, 0)],
        f"{gpu}/memcpy": [("product0/_0:_Send", "MemcpyD2H kind_src:device", 0, 0)],
        f"{local}/device:CPU:0": [("host", "host = _MklMatMul(a, a)", begin - 401021, 97220)],
        f"{local}{gpu}": [("product0", "[GPU_0_bfc 0.6MB 0.6MB] product0 = MatMul(a, a)", begin, 103651)],
    }
    stats: Any = step_stats_pb2.StepStats()
    for device, nodes in rows.items():
        added = stats.dev_stats.add(device=device)
        for name, label, start, length in nodes:
            added.node_stats.add(node_name=name, timeline_label=label, all_start_nanos=start, op_end_rel_nanos=length)
    found = [(op.lane, op.name, op.type) for op in timeline.of_step(stats)]
    assert found == [("CPU:0", "host", "_MklMatMul"), ("GPU:0", "product0", "MatMul")]
    assert timeline.of_step(stats).length == pytest.approx(0.504672)
