"""Chapter 08: its model of bytes is what a cluster sends, what it says of TensorFlow is so, and a slow card is slow."""

from __future__ import annotations

import sys

import judging
import pytest
from processes import forked, in_a_fresh_process

from across import clusters, fresh, placement
from across.clusters import LocalCluster

pytestmark = forked
CHAPTER = "08_sharded_variables"


def session(cluster, graph):
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=20_000)
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(cluster.target("worker", 0), graph=graph, config=config)


def counted(seed: int) -> tuple[list[int], list[int]]:
    """What the graders' model says that each server sends, and what was counted, for random variables and two workers."""
    import numpy as np
    import tensorflow as tf

    from across import traffic

    v1, rng = tf.compat.v1, np.random.default_rng(seed)
    checks = judging.checks_of(CHAPTER)
    variables = checks.drawn_variables(rng, 2, ["float32", "float64"], 6)
    with LocalCluster(ps=2, worker=2) as cluster, tf.Graph().as_default() as graph:
        made, pulled = [], []
        for number, (device, shape, dtype) in enumerate(variables):
            with tf.device(device):
                made.append(v1.get_variable(f"w{number}", shape, tf.as_dtype(dtype)))
        for index in (0, 1):
            with tf.device(f"/job:worker/task:{index}"):
                pulled += [tf.identity(each).op for each in made if "ps" in each.device]
        with session(cluster, graph) as running:
            running.run(v1.global_variables_initializer())
            sent = traffic.sent_by(traffic.count(running, pulled))
    return [2 * int(size) for size in checks.summed(variables, 2, checks.bytes_of)], [
        sent.get(f"ps:{ps}", 0) for ps in (0, 1)
    ]


def test_the_model_of_bytes_is_what_a_cluster_sends():
    for seed in (1, 2):
        model, found = fresh.run(counted, seed, timeout=120)
        assert model == found


@in_a_fresh_process()
def test_what_the_chapter_says_of_tensorflow():
    import tensorflow as tf

    v1 = tf.compat.v1
    assert not hasattr(v1, "contrib")
    assert not hasattr(v1.train, "GreedyLoadBalancingStrategy")
    with tf.Graph().as_default(), v1.device(v1.train.replica_device_setter(ps_tasks=2)):
        model = tf.keras.Sequential([tf.keras.layers.Dense(3) for _ in range(4)])
        model.build([None, 3])
        table = v1.get_variable("table", [7, 1], partitioner=v1.fixed_size_partitioner(3))
    assert {layer.kernel.value.device for layer in model.layers} == {"/job:ps/task:0"}
    assert [part.shape[0] for part in table] == [3, 2, 2]
    with pytest.raises(RuntimeError, match=r"tf\.device does not support functions"):
        tf.device(v1.train.replica_device_setter(ps_tasks=2))


@in_a_fresh_process()
def test_a_strategys_scope_takes_turns_over_variables_too():
    import tensorflow as tf

    with LocalCluster(ps=2, worker=1) as cluster:
        spec = tf.train.ClusterSpec(cluster.spec)
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
        with tf.distribute.ParameterServerStrategy(resolver).scope():
            model = tf.keras.Sequential([tf.keras.layers.Dense(3) for _ in range(4)])
            model.build([None, 3])
        assert {layer.kernel.value.device for layer in model.layers} == {"/job:ps/replica:0/task:0/device:CPU:0"}


@in_a_fresh_process()
def test_kerass_own_assign_sub_reads_the_variable_again():
    import tensorflow as tf

    with LocalCluster(ps=1, worker=1) as cluster:
        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(cluster.spec))
        ps, worker = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker"))
        with tf.device(ps):
            model = tf.keras.Sequential([tf.keras.layers.Dense(8)])
            model.build([None, 8])
        sent = []
        for own in (False, True):

            def step(x, own=own):
                with tf.device(worker):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(model(x))  # noqa: F821 - deleted only after the last call
                    (kernel, _) = model.trainable_variables  # noqa: F821
                    (kernel if own else kernel.value).assign_sub(tape.gradient(loss, kernel))

            seen = placement.trace(tf.function(step), tf.ones([2, 8]))
            sent.append(clusters.bytes_between(seen)["ps:0", "worker:0"])
        del model
    assert sent[1] - sent[0] == 8 * 8 * 4


def paced() -> tuple[float, float]:
    """Seconds in which 4 MB come from one server, and from two: the fastest of five, in one run of a cluster."""
    import time

    import tensorflow as tf

    v1, best = tf.compat.v1, []
    with LocalCluster(ps=2, worker=1, card=20e6) as cluster:
        for count in (1, 2):
            with tf.Graph().as_default() as graph:
                parts = []
                for index in range(count):
                    with tf.device(f"/job:ps/task:{index}"):
                        parts.append(
                            v1.get_variable(f"w{index}", [1_000_000 // count], initializer=v1.zeros_initializer())
                        )
                with tf.device("/job:worker/task:0"):
                    total = tf.add_n([tf.reduce_sum(part) for part in parts])
                with session(cluster, graph) as running:
                    running.run(v1.global_variables_initializer())
                    seconds = []
                    for _ in range(5):
                        start = time.perf_counter()
                        running.run(total)
                        seconds.append(time.perf_counter() - start)
            best.append(min(seconds))
    return best[0], best[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux paces a socket")
def test_a_card_sends_at_its_rate_and_two_cards_send_twice_as_much():
    one, two = fresh.run(paced, timeout=120)
    assert one > 0.8 * 0.2  # 4 MB at 20 MB/s: nothing makes a card faster
    assert two < one / 1.3  # twice as fast; a busy machine may take some of it


def test_a_card_is_more_than_nothing_and_for_servers_of_ours():
    for card, program in ((0.0, None), (-1.0, None), (1e6, print)):
        with pytest.raises(ValueError, match="card"):
            LocalCluster(program, ps=1, card=card)


def test_greedy_stays_within_grahams_bound_on_every_drawn_model():
    import numpy as np

    from across import balance

    checks, rng = judging.checks_of(CHAPTER), np.random.default_rng(3)
    for ps in (2, 3, 4, 7):
        for _ in range(50):
            shapes = balance.drawn(rng)
            sizes = [(shape, "float32") for shape in shapes]
            held = [0.0] * ps
            for task, each in zip(checks.greedy(sizes, ps, checks.bytes_of, last=False), sizes, strict=True):
                held[task] += checks.bytes_of(*each)
            assert max(held) <= balance.bound(shapes, ps) * (1 + 1e-9)


@in_a_fresh_process()
def test_op_by_op_a_whole_table_is_fetched_for_a_row_and_in_a_graph_it_is_not():
    import tensorflow as tf
    from tensorflow.python.distribute.sharded_variable import ShardedVariable

    with LocalCluster(ps=1, worker=1) as cluster:
        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(cluster.spec))
        with tf.device("/job:ps/replica:0/task:0/device:CPU:0"):
            table = ShardedVariable([tf.Variable(tf.zeros([500, 8])), tf.Variable(tf.zeros([500, 8]))])

        def row(ids):
            with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
                return tf.nn.embedding_lookup(table, ids)

        def named(ids):
            with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
                return tf.nn.embedding_lookup(table, ids, name="rows")

        def of_parts(ids):
            with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
                return tf.nn.embedding_lookup(table.variables, ids, name="rows")

        sent, ops = {}, {}
        for how in (row, named, of_parts):
            sent[how] = clusters.bytes_between(placement.trace(how, tf.constant([1])))["ps:0", "worker:0"]
            graph = tf.function(how).get_concrete_function(tf.constant([1])).graph
            ops[how] = {op.type for op in graph.get_operations()} & {"ReadVariableOp", "ResourceGather"}
    assert (sent[row], ops[row]) == (2 * 500 * 8 * 4, {"ResourceGather"})
    # a name of one's own hides from TensorFlow that it is such a lookup; what is given the parts needs no such sign
    assert (sent[named], ops[named]) == (2 * 500 * 8 * 4, {"ReadVariableOp"})
    assert sent[of_parts] < 500
    assert ops[of_parts] == {"ResourceGather"}
