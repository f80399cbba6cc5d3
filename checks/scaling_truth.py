"""What chapter 14's answers are held against: one device's descent by NumPy, a least-squares line, the model, coins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import anything, list_of, row, text
from autograder.probe.asking import probe
from placing import device_of, imported, ran, session

Machine = dict[str, float]
Run = dict[str, Any]  # its way, replicas, batch, packs, table, slow and rate
Part = tuple[np.ndarray, np.ndarray]  # images and labels of one replica


@probe(graphs=1)
def traced(student, shapes, shares, batch, rate):
    """The graph of a step of all replicas, by `replica_step`; the names of its inputs, outputs and ends, and what was returned.

    In it copy k of weight i is the variable "i k". The inputs are all images, then all labels.
    """
    ways = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy([f"/CPU:{i}" for i in range(len(shares))], cross_device_ops=ways)
    with strategy.scope():
        w = [tf.Variable(tf.zeros(shape)) for shape in shapes]
    made = [(tf.zeros([share, shapes[0][0]]), tf.zeros([share], tf.int64)) for share in shares]
    given = strategy.experimental_distribute_values_from_function(lambda c: made[c.replica_id_in_sync_group])
    work, back = student.replica_step, []

    def replica(part):
        loss = work(w, *part, batch, rate)
        if loss is None or isinstance(loss, (tuple, list, dict)):
            back.append(type(loss).__name__)
            return tf.zeros([])
        return tf.convert_to_tensor(loss)

    run = tf.function(lambda part: strategy.run(replica, args=(part,))).get_concrete_function(given)
    copies = {}
    for i, each in enumerate(w):
        for k, copy in enumerate(strategy.experimental_local_results(each)):
            copies[id(copy.handle)] = (f"{i} {k}", copy)
    captured = {inside.op.name: copies.get(id(outside)) for outside, inside in run.graph.captures}
    graph_def = run.graph.as_graph_def()
    printing = {node.name for node in graph_def.node if node.op in ("PrintV2", "StringFormat")}  # may not come in
    nodes = [node for node in graph_def.node if node.name not in printing]
    del graph_def.node[:]
    for node in nodes:
        inputs = [name for name in node.input if name.lstrip("^") not in printing]
        del node.input[:]
        node.input.extend(inputs)
        if found := captured.get(node.name):
            name, copy = found
            node.op, node.device = "VarHandleOp", copy.device
            node.attr.clear()
            node.attr["dtype"].type = 1
            node.attr["shape"].shape.CopyFrom(copy.shape.as_proto())
            node.attr["shared_name"].s = name.encode()
        graph_def.node.append(node)
    inputs = [tensor.name for tensor in run.inputs if tensor.op.name not in captured]
    ends = [op.name for op in run.graph.control_outputs if op.name not in printing]
    return graph_def, inputs, [tensor.name for tensor in run.outputs], ends, back[0] if back else ""


@probe
def handed_in(student, name):
    """That value, an answer."""
    return getattr(student, name)


TRACED = row(anything, list_of(text), list_of(text), list_of(text), text).named("a graph that can be run")


def descended(
    answer: Any, weights: Sequence[np.ndarray], parts: Sequence[Part], steps: int
) -> tuple[list[list[np.ndarray]], list[list[np.ndarray]], str]:
    """Run what was `traced` here: each replica's losses before each step, all copies of the weights, and what was returned.

    AssertionError for a graph that cannot be run.
    """
    graph_def, inputs, outputs, ends, wrong_kind = TRACED(answer, "Your code led to")
    graph, given = imported(graph_def), [*(x for x, _ in parts), *(y for _, y in parts)]
    try:
        feed = {graph.get_tensor_by_name(name): value for name, value in zip(inputs, given, strict=True)}
        losses = [graph.get_tensor_by_name(name) for name in outputs]
        last = [graph.get_operation_by_name(name) for name in ends]
        handles = {op.get_attr("shared_name").decode(): op for op in graph.get_operations() if op.type == "VarHandleOp"}
        first, copies = [], []
        with graph.as_default():
            for i, weight in enumerate(weights):
                copies.append([])
                for k in range(len(parts)):
                    handle = handles.get(f"{i} {k}")
                    if handle is None:  # the step does not touch it
                        copies[i].append(tf.constant(weight))
                        continue
                    with tf.device(handle.device):
                        first.append(tf.raw_ops.AssignVariableOp(resource=handle.outputs[0], value=weight))
                        copies[i].append(tf.raw_ops.ReadVariableOp(resource=handle.outputs[0], dtype=tf.float32))
    except (ValueError, TypeError, KeyError):
        raise AssertionError("The graph that your code built does not hold together.") from None
    for number, name in enumerate(inputs):  # what a replica was not given is not there where replicas are machines
        astray = _read_elsewhere(graph.get_tensor_by_name(name), number % len(parts))
        assert not astray, f"Replica {number % len(parts)}'s examples are read by {astray}, which is no op of its own."
    with session(graph) as running:
        if first:
            ran(running, first)
        found = [[np.asarray(each) for each in ran(running, [losses, last], feed)[1][0]] for _ in range(steps)]
        return found, ran(running, copies)[1], wrong_kind


def _read_elsewhere(tensor: Any, replica: int) -> str:
    """An op that reads an input of this replica on another one's device, if there is one."""
    for op in tensor.consumers():
        if op.type == "Identity":
            found = _read_elsewhere(op.outputs[0], replica)
            if found:
                return found
        elif device_of(op.device.split("device:")[-1]) != f"CPU:{replica}":
            return f"{op.type} on {op.device or 'any device'}"
    return ""


def one_device(
    weights: Sequence[np.ndarray], parts: Sequence[Part], rate: float, steps: int, wrong: str = ""
) -> tuple[list[list[float]], list[np.ndarray]]:
    """Each part's share of the loss before each of the steps, and the weights after them, computed in float64.

    `wrong` "sum", "replica_means" (added) or "mean_of_means": what the loss would be divided by. "first_layer_first" or
    "last_layer_first": each layer moves before the next one's gradient is taken.
    """
    w = [np.asarray(each, np.float64) for each in weights]
    total, losses = sum(len(y) for _, y in parts), []
    every = list(range(len(w)))
    turns = {"first_layer_first": [[i] for i in every], "last_layer_first": [[i] for i in every[::-1]]}.get(
        wrong, [every]
    )
    for _ in range(steps):
        for number, turn in enumerate(turns):
            shares, gradients = list[float](), [np.zeros_like(each) for each in w]
            for x, y in parts:
                count = {"sum": 1, "replica_means": len(y), "mean_of_means": len(y) * len(parts)}.get(wrong, total)
                own, slopes = _backward(w, x.astype(np.float64), y)
                shares.append(own / count)
                gradients = [g + slope / count for g, slope in zip(gradients, slopes, strict=True)]
            if number == 0:
                losses.append(shares)
            w = [each - rate * g if i in turn else each for i, (each, g) in enumerate(zip(w, gradients, strict=True))]
    return losses, w


def _backward(w: Sequence[np.ndarray], x: np.ndarray, y: np.ndarray) -> tuple[float, list[np.ndarray]]:
    """The sum of the cross-entropies of a network with ReLU between its layers, and its gradients."""
    held = [x]
    for matrix in w[:-1]:
        held.append(np.maximum(held[-1] @ matrix, 0))
    scores = held[-1] @ w[-1]
    scores = scores - scores.max(axis=1, keepdims=True)
    chances = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    rows = np.arange(len(y))
    back = np.exp(chances)
    back[rows, y] -= 1
    gradients = []
    for layer in reversed(range(len(w))):
        gradients.append(held[layer].T @ back)
        back = (back @ w[layer].T) * (held[layer] > 0)
    return float(-chances[rows, y].sum()), gradients[::-1]


def line(batches: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """The least-squares line: seconds at 0 examples, seconds of one more."""
    x, y = np.asarray(batches, float), np.asarray(seconds, float)
    example = float(np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2))
    return float(y.mean() - example * x.mean()), example


def other_lines(batches: Sequence[float], seconds: Sequence[float]) -> dict[str, tuple[float, float]]:
    """Lines that somebody may take for it, by name."""
    x, y = np.asarray(batches, float), np.asarray(seconds, float)
    fixed, example = line(batches, seconds)
    low, high = int(np.argmin(x)), int(np.argmax(x))
    far = float((y[high] - y[low]) / (x[high] - x[low]))
    means = {b: float(y[x == b].mean()) for b in sorted(set(x.tolist()))}
    middles = {b: float(np.median(y[x == b])) for b in means}
    return {
        "swapped": (example, fixed),
        "through_zero": (0.0, float(x @ y / (x @ x))),
        "mean_rate": (0.0, float(np.mean(y / x))),
        "smallest_and_largest": (float(y[low]) - far * float(x[low]), far),
        "means_of_batches": line(list(means), list(means.values())),
        "medians_of_batches": line(list(middles), list(middles.values())),
        "other_way_round": _inverted(*line(seconds, batches)),
        "sorted_apart": line(sorted(x), sorted(y)),
        "outliers_dropped": _without(np.abs(y - fixed - example * x), x, y),
        "outliers_of_all_dropped": _without(np.abs(y - y.mean()), x, y, spread=float(y.std())),
    }


def _without(far: np.ndarray, x: np.ndarray, y: np.ndarray, spread: float | None = None) -> tuple[float, float]:
    """The line without the runs that are more than two standard deviations away."""
    kept = far <= 2 * (float(np.sqrt(np.mean(far**2))) if spread is None else spread) + 1e-12
    return line(x[kept].tolist(), y[kept].tolist())


def _inverted(fixed: float, example: float) -> tuple[float, float]:
    """The line of seconds by examples from that of examples by seconds."""
    return (-fixed / example, 1 / example) if example else (math.nan, math.nan)


MISREAD = {
    "linear": "that is the number of replicas; a step has costs that replicas do not share.",
    "cores_of_rings": "the replicas of servers and GPUs share the cores, too.",
    "cores_of_no_gpus": "GPUs share the cores, too.",
    "cores_of_no_servers": "the replicas of servers share the cores, too.",
    "nothing_crosses": "what crosses costs nothing in it.",
    "no_fixed": "`fixed` is not in it.",
    "no_cores": "the replicas share no cores in it.",
    "always_shared": "the work is divided by the cores even where there are fewer replicas than cores.",
    "batch_of_each": "`batch` is of all replicas together; each has a share of it.",
    "steps_not_examples": "runs may get through other numbers of examples in a step; count those.",
    "whole_examples": "a share need not be a whole number of examples.",
    "inverted": "more than 1 means faster; that is the inverse.",
    "ring_of_whole": "each of the ring's transfers is 1/n of the gradients.",
    "one_way": "a ring has 2 (n - 1) transfers, and a tree 2 log2(n).",
    "whole_rounds": "three replicas on two cores take turns: 1.5 times as long, no whole rounds.",
    "fixed_shared": "`fixed` is not work that cores share.",
    "ring_of_two": "that ring is right for two replicas; each of its 2 (n - 1) transfers sends 1/n of the gradients.",
    "ring_for_all": "GPUs add along a tree: each of its 2 log2(n) transfers has all gradients.",
    "star": "a tree has 2 log2(n) transfers of all gradients, not 2 (n - 1).",
    "one_message": "each gradient that is sent by itself has a latency; here all together cost one.",
    "always_messages": "packed gradients are one message.",
    "bytes_of_each": "more messages have no more bytes: each is a part of the same gradients.",
    "latency_once": "each of the tree's transfers has its latencies.",
    "no_table": "a table's gradient crosses, too.",
    "whole_table": "servers send only the rows of a share's examples, not the whole table.",
    "rows_of_batch": "a replica reads the rows of its own share, not of the whole batch.",
    "one_direction": "a replica reads from the server and writes to it: twice.",
    "rows_once": "a share's rows are read, and their gradients written: twice.",
    "servers_wait": "nobody waits for the slowest at the servers: the replicas' examples per second add up.",
    "nobody_slow": "the slow replica is not in it.",
    "awake_alone": "one replica alone is the last one, and sleeps, too.",
    "rate_of_base": "each run has a `rate` of its own.",
    "base_alone": "the base is a run like another: its own batch and what crosses in it count.",
}

APART = {  # mistake -> the ways whose replicas share no cores in it
    "cores_of_rings": ("servers", "gpus"),
    "cores_of_no_gpus": ("gpus",),
    "cores_of_no_servers": ("servers",),
}


def predicted(run: Run, base: Run, machine: Machine, wrong: str = "") -> float:
    """The speed-up by the chapter's model, or by one that is `wrong` in a way of MISREAD."""

    def examples_a_second(run: Run) -> float:
        n, batch, way = run["replicas"], run["batch"], run["way"]
        share = batch if wrong == "batch_of_each" else batch / n
        share = math.floor(share) if wrong == "whole_examples" else share
        turns = {
            "no_cores": 1.0,
            "always_shared": n / machine["cores"],
            "whole_rounds": math.ceil(n / machine["cores"]),
        }.get(wrong, max(1.0, n / machine["cores"]))
        if way in APART.get(wrong, ()):
            turns = 1.0
        fixed = 0.0 if wrong == "no_fixed" else machine["fixed"] * (turns if wrong == "fixed_shared" else 1)
        work, slow = fixed + machine["example"] * share * turns, 0.0 if wrong == "nobody_slow" else run["slow"]
        slow = 0.0 if wrong == "awake_alone" and n == 1 else slow
        rate = base["rate"] if wrong == "rate_of_base" else run["rate"]
        table = 0 if wrong == "no_table" else 256 * run["table"]
        if wrong == "nothing_crosses":
            rate, way = math.inf, "all-reduce" if way == "gpus" else way
        if way == "servers":
            rows = (
                table if wrong == "whole_table" else 256 * (batch if wrong == "rows_of_batch" else share) * bool(table)
            )
            rows /= 2 if wrong == "rows_once" else 1
            own = work + (1 if wrong == "one_direction" else 2) * (machine["size"] + rows) / rate
            if wrong == "servers_wait":
                return batch / (own + slow)
            naps = [0.0] * (n - 1) + [slow]
            return sum((share if wrong == "whole_examples" else batch / n) / (own + nap) for nap in naps)
        whole = (machine["size"] + table) / rate
        ring, hops = 2 * (n - 1) * whole / n, 2 * math.log2(n)
        if way == "all-reduce":
            ring *= {"ring_of_whole": n, "one_way": 0.5, "ring_of_two": n / 2}.get(wrong, 1)
            return batch / (work + slow + ring)
        messages = (
            1 if wrong == "one_message" or (run["packs"] and wrong != "always_messages") else machine["gradients"]
        )
        hops *= 0.5 if wrong == "one_way" else 1
        if wrong == "star":
            hops = 2 * (n - 1)
        wait = messages * machine["latency"]
        crossing = hops * (wait + whole * (messages if wrong == "bytes_of_each" else 1))
        if wrong == "latency_once":
            crossing = (n > 1) * wait + hops * whole
        if wrong == "ring_for_all":
            crossing = 2 * (n - 1) * (wait + whole / n)
        return batch / (work + crossing)

    if wrong == "linear":
        return float(run["replicas"])
    first = {**base, "replicas": 1, "batch": run["batch"]} if wrong == "base_alone" else base
    found = examples_a_second(run) / examples_a_second(first)
    found *= first["batch"] / run["batch"] if wrong == "steps_not_examples" else 1
    return 1 / found if wrong == "inverted" else found


WIDTHS = [(64, 448), *[(448, 448)] * 4, (448, 10)]


@cache
def _weights() -> list[np.ndarray]:
    """The chapter's weights without a table, as float32: six matrices."""
    drawn: list[Any] = [tf.random.stateless_normal(each, (1, i)) for i, each in enumerate(WIDTHS, 1)]
    return [(each * (2 / each.shape[0]) ** 0.5).numpy() for each in drawn]


def first_loss(run: Mapping[str, Any], seed: int) -> float:
    """The mean cross-entropy of a run's first batch, drawn by that seed, before any step."""
    draw, count = np.random.default_rng(seed), run["batch"]
    if run["table"]:
        rows = draw.integers(run["table"], size=count)
        table: Any = tf.random.stateless_normal([run["table"], 64], (1, 0))
        x = table.numpy()[rows]
    else:
        x = draw.normal(size=(count, 64)).astype(np.float32)
    y = draw.integers(10, size=count)
    for matrix in _weights()[:-1]:
        x = np.maximum(x @ matrix, 0)
    scores = (x @ _weights()[-1]).astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(count), y]))


def unevenly(ratios: Sequence[float], wrong: str = "") -> float:
    """How probable coins are that fall at least as unevenly, counted one by one."""
    if wrong == "equal_once":
        ratios = sorted(set(ratios))
    if wrong == "near_ties":
        ratios = [ratio for ratio in ratios if abs(ratio - 1) > 0.05]
    above = sum(ratio > 1 for ratio in ratios)
    count = len(ratios) if wrong == "ties_count" else sum(ratio != 1 for ratio in ratios)
    if wrong == "ties_above":
        above, count = sum(ratio >= 1 for ratio in ratios), len(ratios)
    gap = abs(2 * above - count)
    heads = [sum(coins) for coins in itertools.product((0, 1), repeat=count)]
    if wrong == "one_side":
        good = [each >= max(above, count - above) for each in heads]
    elif wrong == "above_only":
        good = [each >= above for each in heads]
    elif wrong == "exactly":
        good = [abs(2 * each - count) == gap for each in heads]
    elif wrong == "more_uneven":
        good = [abs(2 * each - count) > gap for each in heads]
    else:
        good = [abs(2 * each - count) >= gap for each in heads]
    found = sum(good) / 2**count
    return 1 - found if wrong == "complement" else found


MISCOUNTED = {
    "one_side": "a result as uneven to the other side counts, too.",
    "above_only": "a result with most of them below 1 is as uneven as one with most above.",
    "exactly": "results that are still more uneven count, too.",
    "more_uneven": "results that are just as uneven count, too.",
    "complement": "that is the chance of all other results.",
    "ties_count": "a ratio of exactly 1 is no coin.",
    "ties_above": "a ratio of exactly 1 is no coin.",
    "equal_once": "equal ratios are a coin each.",
    "near_ties": "a ratio close to 1 is above or below it, too; leave out exactly 1 only.",
}


def known(names: dict[str, str], fits: Any) -> str:
    """The first of the known mistakes that explains all answers; empty if none does."""
    return next((name for name in names if fits(name)), "")
