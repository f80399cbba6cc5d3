"""What checks on running in parallel are made of: graphs whose order tells, step statistics that tell, pools counted.

Truth is never written down here: TensorFlow's executor says in which order it runs a graph (`timeline.run_order`), the
operating system how many threads a session has started (`threads_of`).
"""

from __future__ import annotations

import functools
import itertools
import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across import timeline
from placing import WORDS

v1 = tf.compat.v1
Edges = list[tuple[str, str]]

# Orders


def by_queue(nodes: Sequence[str], edges: Edges, *, stack: bool = False) -> list[str]:
    """Dependency counters with a queue; or a stack, which is the order of whoever takes what became ready last."""
    missing = Counter(b for _, b in edges)
    ready, done = deque(name for name in nodes if not missing[name]), []
    while ready:
        done.append(ready.pop() if stack else ready.popleft())
        for name in nodes:
            if (done[-1], name) in edges:
                missing[name] -= 1
                ready += [] if missing[name] else [name]
    return done


def by_edges(nodes: Sequence[str], edges: Edges) -> list[str]:
    """The same queue, but readers enter it in the order of the edges."""
    missing = Counter(b for _, b in edges)
    ready, done = deque(name for name in nodes if not missing[name]), []
    while ready:
        done.append(ready.popleft())
        for a, b in edges:
            missing[b] -= a == done[-1]
            if a == done[-1] and not missing[b]:
                ready.append(b)
    return done


def by_waves(nodes: Sequence[str], edges: Edges) -> list[str]:
    """All that is ready, in the order of the program; then all that is ready after that."""
    done: list[str] = []
    while len(done) < len(nodes):
        done += [n for n in nodes if n not in done and all(a in done for a, b in edges if b == n)]
    return done


def by_first_input(nodes: Sequence[str], edges: Edges) -> list[str]:
    """Whoever has one of its inputs enters the queue."""
    fed = {b for _, b in edges}
    ready = deque(name for name in nodes if name not in fed)
    seen, done = set(ready), []
    while ready:
        done.append(ready.popleft())
        new = [b for b in nodes if (done[-1], b) in edges and b not in seen]
        seen.update(new)
        ready += new
    return done


WRONG: dict[str, tuple[Callable[[Sequence[str], Edges], list[str]], str]] = {
    "program_order": (lambda nodes, edges: list(nodes), "that is the order of `nodes`"),
    "by_name": (lambda nodes, edges: sorted(nodes), "that is the order of the names"),
    "a_stack": (
        lambda nodes, edges: by_queue(nodes, edges, stack=True),
        "the op that became ready last is taken first",
    ),
    "by_edges": (by_edges, "the readers of an op enter the queue in the order of `edges`; expected that of `nodes`"),
    "first_input": (by_first_input, "an op enters the queue when one of its inputs is there; its counter is not yet 0"),
    "in_waves": (by_waves, "you collect all that is ready, then all that is ready after that"),
}


def telling_graph(rng: np.random.Generator, size: int) -> tuple[list[str], Edges]:
    """A graph on which every rule gives an order of its own, that of the first input one before what it reads; edges shuffled.

    `run_order` takes no larger ones.
    """
    while True:
        nodes = [str(word) for word in rng.permutation(WORDS)[:size]]
        edges = [(a, b) for j, b in enumerate(nodes) for a in nodes[:j] if rng.random() < 0.28]
        edges = [edges[i] for i in rng.permutation(len(edges))]
        outs = Counter(a for a, _ in edges)
        sources = set(nodes) - {b for _, b in edges}
        if not 3 <= len(sources) <= timeline.SOURCES or max(outs.values(), default=0) > timeline.READERS:
            continue
        early = by_first_input(nodes, edges)
        if all(early.index(a) < early.index(b) for a, b in edges):
            continue
        orders = [by_queue(nodes, edges), *(rule(nodes, edges) for rule, _ in WRONG.values())]
        if len(set(map(tuple, orders))) == len(orders) and set(nodes[: len(sources)]) != sources:
            return nodes, edges


def late_input(rng: np.random.Generator) -> tuple[list[str], Edges]:
    """A graph on which who goes by depth, and then by the last input in `nodes`, is wrong: of d's inputs c runs before b."""
    a, b, c, d, e = nodes = sorted(map(str, rng.permutation(WORDS)[:5]), reverse=True)
    return nodes, [(a, b), (b, d), (b, e), (c, d)]


# Step statistics: a device's name and its nodes, each a name, a start and a length in nanoseconds

Device = tuple[str, list[tuple[str, int, int]]]
UNIT = 400  # nanoseconds: no whole number of microseconds, so that who drops what is below one counts otherwise
LATE = 500  # nanoseconds from a node's start to that of its op, which `op_start_rel_nanos` says
TAIL = 900  # nanoseconds from the end of its op to that of the node, which `all_end_rel_nanos` says


def most(spans: Sequence[tuple[int, int]], *, touching: bool = False) -> int:
    """The most of these spans, start and end, that hold one moment."""
    return max((sum(s <= now < e + touching for s, e in spans) for now, _ in spans), default=0)


def spans_of(devices: Sequence[Device], *, own: bool = False) -> list[tuple[int, int]]:
    return [(s, s + n) for _, nodes in devices for name, s, n in nodes if own or not name.startswith("_")]


def neighbours(spans: Sequence[tuple[int, int]]) -> int:
    """The longest run of spans, by start, of which each overlaps the one before it."""
    found = run = 1
    order = sorted(spans)
    for before, after in itertools.pairwise(order):
        run = run + 1 if after[0] < before[1] else 1
        found = max(found, run)
    return found


def company(spans: Sequence[tuple[int, int]]) -> int:
    """The most spans that overlap one and the same span, it among them."""
    return max(sum(s < end and start < e for s, e in spans) for start, end in spans)


def in_a_middle(spans: Sequence[tuple[int, int]]) -> int:
    """The most spans that hold the middle of one of them."""
    return max(sum(s <= (start + end) // 2 < e for s, e in spans) for start, end in spans)


def longer(devices: Sequence[Device], change: int) -> list[tuple[int, int]]:
    """The spans with every end so many nanoseconds later."""
    return [(s, e + change) for s, e in spans_of(devices)]


MISCOUNTED: dict[str, tuple[Callable[[Sequence[Device]], int], str]] = {
    "each_device_alone": (
        lambda devices: max(most(spans_of([each])) for each in devices),
        "that is the most on one device; expected all devices together",
    ),
    "the_sessions_own": (
        lambda devices: most(spans_of(devices, own=True)),
        "you count names that begin with `_`, too",
    ),
    "underscore_inside": (
        lambda devices: most([(s, s + n) for _, nodes in devices for name, s, n in nodes if "_" not in name]),
        "you leave out names that hold `_` anywhere; expected only those that begin with it",
    ),
    "touching": (
        lambda devices: most(spans_of(devices), touching=True),
        "an op that ends when another starts does not overlap it",
    ),
    "in_microseconds": (
        lambda devices: most([(s // 1000, s // 1000 + (e - s) // 1000) for s, e in spans_of(devices)]),
        "you count in whole microseconds; expected nanoseconds, in which these ops differ",
    ),
    "less_its_start": (
        lambda devices: most(longer(devices, -LATE)),
        "you leave out `op_start_rel_nanos`; expected the time from `all_start_nanos` on, for `op_end_rel_nanos`",
    ),
    "end_of_all": (
        lambda devices: most(longer(devices, TAIL)),
        "you end an op at `all_end_rel_nanos`, when all about it is done; expected `op_end_rel_nanos`",
    ),
    "company": (
        lambda devices: company(spans_of(devices)),
        "so many overlap one and the same op, but not all of these at one moment",
    ),
    "neighbours": (
        lambda devices: neighbours(spans_of(devices)),
        "you compare an op with the one before it only; an earlier one may still run, or have ended",
    ),
    "in_a_middle": (
        lambda devices: in_a_middle(spans_of(devices)),
        "you look at the middle of each op; the fullest moment can be before it or after it",
    ),
    "by_name": (
        lambda devices: most(
            list({n: (s, s + k) for _, nodes in devices for n, s, k in nodes if n[0] != "_"}.values())
        ),
        "you keep one op of each name; an op in a loop has an entry for each time it ran",
    ),
    "equal_ones_as_one": (
        lambda devices: most(list(set(spans_of(devices)))),
        "you count ops that start and end together as one",
    ),
    "two_devices": (lambda devices: most(spans_of(devices[:2])), "you leave out all devices but the first two"),
    "all_of_them": (lambda devices: len(spans_of(devices)), "that is how many ops there are"),
}


def ways_for(devices: int) -> list[str]:
    """Which wrong ways of counting can be told on so many devices."""
    least = {"each_device_alone": 2, "two_devices": 3}
    return [name for name in MISCOUNTED if devices >= least.get(name, 1)]


def telling_stats(rng: np.random.Generator, devices: int) -> list[Device]:
    """Statistics on which no wrong way of counting is right; of one device: none that one can tell."""
    ways = [MISCOUNTED[name][0] for name in ways_for(devices)]
    while True:
        found: list[Device] = []
        words = rng.permutation(WORDS)
        for number in range(devices):
            count = 5 if devices > 1 else 10
            drawn = [(UNIT * int(rng.integers(0, 14)), UNIT * int(rng.integers(1, 7))) for _ in range(count)]
            spans = [drawn[i] for i in rng.integers(count, size=count)]  # some twice
            suffixes = itertools.cycle(["", "_1"])
            few = [
                str(word) + suffix for word, suffix in zip(words[number::devices][: count - 2], suffixes, strict=False)
            ]
            names = [few[i] for i in rng.integers(len(few), size=count)]
            nodes = [(name, *span) for name, span in zip(names, spans, strict=True)]
            nodes += [(f"_{name}", UNIT * int(rng.integers(0, 14)), 6 * UNIT) for name in ("SOURCE", "arg_x_0_0")]
            found.append((f"CPU:{number}", [nodes[i] for i in rng.permutation(len(nodes))]))
        right = most(spans_of(found))
        if right > 2 and right not in [way(found) for way in ways]:
            return found


def telling_together(rng: np.random.Generator, devices: Sequence[int]) -> list[list[Device]]:
    """Statistics for so many devices each, on which any two wrong ways of counting differ, and none gives only 0 and 1."""
    while True:
        cases = [telling_stats(rng, count) for count in devices]
        counts = [tuple(map(MISCOUNTED[name][0], cases)) for name in ways_for(min(devices))]
        if len(set(counts)) == len(counts) and all(max(each) > 1 for each in counts):
            return cases


# Pools


def threads_of(config: Any) -> int:
    """How many threads a session with this configuration starts of its own, after another session has run.

    Of the configuration only what sizes pools is taken. Counted by the operating system, so that no clock decides.
    """
    kept = v1.ConfigProto(
        inter_op_parallelism_threads=config.inter_op_parallelism_threads,
        intra_op_parallelism_threads=config.intra_op_parallelism_threads,
        use_per_session_threads=config.use_per_session_threads,
        session_inter_op_thread_pool=config.session_inter_op_thread_pool,
    )
    with tf.Graph().as_default() as graph:
        one = tf.constant(1.0)
    with v1.Session(graph=graph) as first:
        first.run(one)
        before = len(os.listdir("/proc/self/task"))
        with v1.Session(graph=graph, config=kept) as session:
            started = len(os.listdir("/proc/self/task")) - before
            session.run(one)
    return started


# Kernels


def different(rng: np.random.Generator, kernels: int) -> list[int]:
    """Sizes for so many kernels, from each to the next; no two neighbours are equal."""
    sizes = [3]
    while len(sizes) <= kernels:
        sizes.append(int(rng.choice([size for size in (2, 3, 4) if size != sizes[-1]])))
    return sizes


def kernels_of(rng: np.random.Generator, sizes: Sequence[int]) -> list[np.ndarray]:
    """A kernel from each of the sizes to the next. Their product holds no 0, and backwards it is another one.

    Of many kernels all numbers are positive: the sums of such a product lose no digits.
    """
    least, square = (-2 if len(sizes) <= 10 else 1), len(set(sizes)) == 1
    while True:
        kernels = [rng.integers(least, 3, size=pair).astype("float32") for pair in itertools.pairwise(sizes)]
        product = functools.reduce(np.matmul, kernels)
        if np.abs(product).min() > 0 and not (
            square and np.allclose(product, functools.reduce(np.matmul, kernels[::-1]))
        ):
            return kernels


PLUMBING = frozenset(
    "Const Identity IdentityN NoOp Placeholder Cast Reshape Transpose ExpandDims Squeeze Shape Pack Unpack ConcatV2 Split "
    "SplitV Slice StridedSlice GatherV2 StopGradient EnsureShape".split()
)  # what puts numbers elsewhere, and computes none


def chain_of(graph: tf.Graph, out: Any, types: Sequence[str]) -> tuple[int, list[str], set[str]]:
    """How many ops of these types `out` needs, the longest chain of them, and the types of others that compute."""
    needed, todo = {}, [out.op]
    while todo:
        op = todo.pop()
        if op.name not in needed:
            needed[op.name] = [*(each.op for each in op.inputs), *op.control_inputs]
            todo += needed[op.name]
    counted = [name for name in needed if graph.get_operation_by_name(name).type in types]
    others = {graph.get_operation_by_name(name).type for name in needed} - PLUMBING.union(types)
    return (
        len(counted),
        timeline.longest_chain({n: [op.name for op in ops] for n, ops in needed.items()}, counted),
        others,
    )
