"""What `across.graphs` promises of order, against TensorFlow's own runs of the same graphs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
import tensorflow as tf

from across import fresh, graphs, timeline
from across._draw import lanes

SIZE = 1 << 18  # floats: a megabyte
V = tf.Variable(tf.zeros([]), name="v")


def book(names: tuple[str, ...]) -> Callable[[], tf.Tensor]:
    """The textbook's program; x and y wait for the ops called `names`."""

    def program() -> tf.Tensor:
        made = {"a": tf.constant(1.0, name="a")}
        made["b"] = tf.add(made["a"], 2.0, name="b")
        with tf.control_dependencies([made[name] for name in names]):
            x, y = tf.constant(3.0, name="x"), tf.constant(4.0, name="y")
        return tf.add(x, y, name="z")

    return program


def effects(x: tf.Tensor) -> tf.Tensor:
    V.assign(x)
    tf.print("hello")
    V.assign_add(1.0)
    return V + 1.0


def drawn(seed: int, size: int = 7) -> graphs.Graph:
    rng = random.Random(seed)
    data, control = [], []
    for j in range(size):
        for i in range(j):
            kind = rng.random()
            data += [(f"n{i}", f"n{j}")] if kind < 0.25 else []
            control += [(f"n{i}", f"n{j}")] if 0.2 < kind < 0.6 else []
    return graphs.from_edges(data, control)


def sums(edge: bool, count: int = 8) -> tf.Tensor:
    """The sum of `count` tensors that could all be there at once; with an edge each waits for the sum so far."""
    total = tf.random.uniform([SIZE])
    for _ in range(count - 1):
        with tf.control_dependencies([total] if edge else []):
            part = tf.random.uniform([SIZE])
        total = total + part
    return total[0]


def test_tensors_and_control_edges_are_told_apart():
    graph = graphs.of(book(("a", "b")))
    assert set(graph.data) == {("a", "b"), ("x", "z"), ("y", "z")}
    assert set(graph.control) == {("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")}


def test_it_is_ordered_what_a_way_leads_to():
    graph = graphs.of(book(("b",)))
    assert graph.ordered("a", "z")
    assert not graph.ordered("x", "y")
    assert graph.before("x") == {"a", "b"}
    with pytest.raises(KeyError):
        graph.ordered("a", "nowhere")


@pytest.mark.parametrize("seed", range(5))
def test_the_allowed_orders_are_those_that_break_no_edge(seed):
    graph = drawn(seed, 5)
    pairs = {(edge.source, edge.target) for edge in graph.edges()}
    names = [op.name for op in graph]
    legal = {each for each in permutations(names) if all(each.index(a) < each.index(b) for a, b in pairs)}
    assert set(graph.orders()) == legal


@pytest.mark.parametrize("seed", range(12))
def test_tensorflow_leaves_the_transitive_reduction_and_no_order_is_lost(seed):
    graph = drawn(seed)
    left = graphs.simplified(graph)
    for edge in graph.control:
        others = tuple(each for each in graph.control if each != edge)
        joined = graphs.from_edges(graph.data, others)
        names = [op.name for op in joined]
        needless = set(edge) <= set(names) and joined.ordered(*edge)
        assert (edge not in left.control) == needless
    assert set(left.orders()) == set(graph.orders())


def test_what_tensorflow_runs_is_an_order_that_is_allowed():
    allowed = graphs.of(book(("b",))).orders()
    v1 = tf.compat.v1
    plain = v1.ConfigProto()
    plain.graph_options.rewrite_options.disable_meta_optimizer = True
    plain.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    seen, options = v1.RunMetadata(), v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    with tf.Graph().as_default() as graph:
        result = book(("b",))()
        with v1.Session(graph=graph, config=plain) as session:
            session.run(result, options=options, run_metadata=seen)
    started = [op.name for op in timeline.of_step(seen.step_stats)]
    assert tuple(name for name in started if name in allowed[0]) in allowed


def test_automatic_edges_of_a_variable_are_seen_and_a_print_has_none_with_it():
    graph = graphs.of(effects, tf.constant(1.0))
    assert graph.ordered("AssignVariableOp", "AssignAddVariableOp")
    assert graph.ordered("AssignAddVariableOp", "ReadVariableOp")
    assert not graph.ordered("AssignVariableOp", "PrintV2")
    assert [op.name for op in graph.given] == ["x", "v"]


def test_running_a_function_leaves_its_variables_alone():
    V.assign(5.0)
    graphs.peak(lambda x: V.assign(x), tf.constant(1.0))
    assert float(V) == 5.0


def test_ways_through_what_is_left_out_stay():
    graph = graphs.of(book(("b",))).without("AddV2")
    assert graph.ordered("a", "x")
    assert [op.name for op in graph] == ["a", "x", "y"]


def test_too_many_orders_and_a_circle_are_refused():
    with pytest.raises(ValueError, match="smaller graph"):
        graphs.from_edges([(f"a{i}", "end") for i in range(10)]).orders()
    with pytest.raises(ValueError, match="circle"):
        graphs.from_edges([("a", "b")], [("b", "a")])


def test_the_critical_path_is_the_longest_way_and_a_control_edge_lengthens_it():
    graph = graphs.from_edges([("a", "b"), ("b", "e"), ("a", "c"), ("c", "d"), ("d", "e")])
    assert graph.critical_path() == ["a", "c", "d", "e"]
    assert len(graphs.of(book(())).critical_path()) == 2
    assert len(graphs.of(book(("b",))).critical_path()) == 4


@pytest.mark.parametrize("seed", range(9))
def test_at_once_is_the_most_of_any_allowed_order(seed):
    graph = drawn(seed, 6)
    names = [op.name for op in graph]
    ways = ([{n} for n in names], [set(names[i::3]) for i in range(3)], [set(names[:3]), set(names[3:])])
    groups = ways[seed % 3]
    readers = {name: {b for a, b in graph.data if a == name} for name in names}
    most = 0
    for order in graph.orders():
        for end in range(len(order) + 1):
            done = set(order[:end])
            most = max(most, sum(any(n in done and not readers[n] <= done for n in group) for group in groups))
    assert graph.at_once(*groups) == most


def test_what_is_made_of_each_use_of_a_variable_ends_at_a_single_number():
    def program(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        mean = tf.reduce_mean(tf.exp(V * x, name="e"), name="mean")
        return tf.add(mean, tf.abs((y + 0.0 * mean) * V, name="s"), name="both")

    graph = graphs.of(program, tf.ones([4]), tf.ones([4]))
    assert [names[1:] for names in graph.uses("v").values()] == [["e"], ["s", "both"]]
    with pytest.raises(KeyError):
        graph.uses("nowhere")


def test_calls_that_wait_for_one_another_are_a_row():
    graph = graphs.from_edges([("a", "b"), ("c", "d")], [("b", "d"), ("b", "f"), ("e", "f")])
    assert graph.in_a_row(["a", "b"], ["c", "d"], ["e", "f"]) == 2
    assert graph.in_a_row(["a"], ["c"], ["e"]) == 1


@pytest.mark.parametrize("threads", [-1, 1, 4])
def test_with_an_edge_the_peak_is_two_tensors_whatever_the_threads(threads):
    assert round(graphs.peak(sums, True, threads=threads) / (4 * SIZE)) == 2


def test_without_an_edge_a_queue_holds_every_tensor():
    assert round(graphs.peak(sums, False) / (4 * SIZE)) == 8


def test_a_picture_says_in_words_what_waits_for_what():
    picture = graphs.of(book(("b",))).draw(title="The book's", critical=True)
    assert picture.alt.startswith("The book's: 5 ops")
    assert "Control edges go from b to x, b to y" in picture.alt
    assert "critical path: a, b, x, z" in picture.alt


def test_control_edges_are_told_from_tensors_without_their_colour():
    styles = [lanes._STYLES[kind] for kind in (lanes.DATA, lanes.COPY, lanes.CONTROL)]
    assert len({str(style["linestyle"]) for style in styles}) == 3


def four_naps_after(first: Callable[[], object]) -> int:
    """The most of four naps at once in a session with four threads, of a process whose first session was another."""
    first()
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        naps = [tf.numpy_function(nap, [np.float32(0.3)], tf.float32) for _ in range(4)]
    seen, options = v1.RunMetadata(), v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    with v1.Session(graph=graph, config=v1.ConfigProto(inter_op_parallelism_threads=4)) as session:
        session.run(naps, options=options, run_metadata=seen)
    return timeline.of_step(seen.step_stats).at_once()


def nap(seconds: float) -> float:
    time.sleep(float(seconds))
    return seconds


@pytest.mark.parametrize(
    "first",
    [
        lambda: graphs.peak(sums, True),
        lambda: timeline.run_order(["a", "b"], [("a", "b")]),
    ],
    ids=["peak", "run_order"],
)
@pytest.mark.whole
def test_a_run_leaves_the_pool_of_the_process_to_later_sessions(first: Callable[[], object]):
    assert fresh.run(four_naps_after, first) > 1
