"""Trusted checks of chapter 05: graphs are run here by TensorFlow, in its own order; pools are counted, not timed."""

from __future__ import annotations

import functools
import math
import os
from typing import Any

import numpy as np
import tensorflow as tf

import running
from across import timeline
from across.expecting import anything, between, called, list_of, number, one_of, row, shown, text, truth, whole
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded
from forked import DEFAULT, DRAWN, Fork, pickled
from placing import device_of, imported, ran, session
from students_graphs import PINNED, PRODUCTS, same
from unaided import unaided
from walks import NO_WORK, Walk, check_results

NAPS = ("inter 1", "inter 2", "inter 4", "inter 1, intra 4", "inter 1, four CPUs")
test_every_place_of_the_quiz_is_recorded = recorded("quiz", dict.fromkeys(range(1, 6), one_of("ABCDE")))
test_every_guess_of_seconds_is_recorded = recorded("guesses", dict.fromkeys(NAPS, between(0, 10, number)))


# walk: the graph is built there, and run here


@probe(graphs=1)
def walked(student, size, devices):
    from across import tracing

    kinds = []

    def program(x):
        answer = student.walk(x, devices)
        if answer is None or isinstance(answer, (dict, tf.Tensor)) or hasattr(answer, "__next__"):
            kinds.append("iterator" if hasattr(answer, "__next__") else type(answer).__name__)
            return []
        return list(answer)

    made = tracing.program(program, tf.TensorSpec([size, size], tf.float32))
    if kinds:
        return kinds[0]
    return made.graph_def, made.inputs, made.outputs


def walk_of(student: Any, rng: np.random.Generator) -> Walk:
    """The student's `walk`, run on a fresh matrix."""
    i, j, _ = PINNED[rng.integers(len(PINNED))]
    devices, size = [f"/cpu:{i}", f"/cpu:{j}"], int(rng.integers(3, 6))
    x = rng.uniform(-1.2, 1.2, size=(size, size)).astype("float32")
    return Walk(student.ask(walked, size=size, devices=devices), x, devices)


@exercise("walk")
def test_five_ops_wait_only_for_what_they_read(student, rng):
    walk = walk_of(student, rng)
    check_results(walk)
    work = [op for op in walk.needed if op.type not in NO_WORK]
    if len(walk.ops["C"]) > 1:
        says = f"{walk.call} computes C {len(walk.ops['C'])} times; the budget is five ops: D and E read the same C."
        raise Misconception("two_of_c", says)
    for name, after in (("A", []), ("B", []), ("C", []), ("D", walk.ops["C"]), ("E", walk.ops["C"])):
        for op in walk.ops[name]:
            late = [each.type for each in walk.before(op) - set(after)]
            assert not late, (
                f"{walk.call}: {name} waits for {', '.join(sorted(late))}; see what the text says it reads."
            )
    assert len(work) == 5, f"{walk.call} needs {len(work)} ops; the budget is five."


@exercise("walk")
def test_each_op_is_on_the_device_of_the_text(student, rng):
    walk = walk_of(student, rng)
    check_results(walk)
    first, second = map(device_of, walk.devices)
    places = {name: {walk.where.get(op.name) for op in ops} for name, ops in walk.ops.items()}
    swapped = all(places[name] == {second} for name in "AB") and all(places[name] == {first} for name in "CDE")
    if swapped:
        says = f"{walk.call} puts A and B on the second device, the others on the first; expected the other way."
        raise Misconception("swapped", says)
    for name, found in places.items():
        right, nth = (first, "first") if name in "AB" else (second, "second")
        seen = ", ".join(sorted(map(str, found))) or "no device"
        assert found == {right}, f"{walk.call} runs {name} on {seen}; expected the {nth} device of the list."


# order: the student's simulator, where there is no executor, against TensorFlow's


def ordered(student: Any, peer: Any, rng: np.random.Generator) -> list[tuple[str, list[str], running.Edges, list[str]]]:
    """For a few fresh graphs: the call, the nodes, the edges, the student's order, in which each op is named once."""
    graphs = [running.telling_graph(rng, int(size)) for size in rng.integers(7, 10, size=3)]
    graphs.append(running.late_input(rng))
    fork = Fork(peer, unaided="`order` is to be written without `timeline` and without TensorFlow")
    found = []
    answers = fork.call(pickled(student, "order"), graphs)
    before = lambda graph: f"{called('order', graph)} returned"  # noqa: E731
    for (nodes, edges), got in each_answer(answers, graphs, list_of(text), before):
        call = called("order", [nodes, edges])
        missing = [name for name in nodes if name not in got]
        assert not missing, f"{call} returned {shown(got, 200)}; {missing[0]!r} is not in it."
        assert len(got) == len(nodes), f"{call} returned {len(got)} names; expected each of the {len(nodes)} once."
        found.append((call, nodes, edges, got))
    return found


def complain(call: str, nodes: list[str], edges: running.Edges, got: list[str], what: str) -> None:
    """Raise what is to be said of an order that is not TensorFlow's."""
    says = f"{call} returned {shown(got, 200)}; {what}"
    for name, (rule, why) in running.WRONG.items():
        if got == rule(nodes, edges):
            raise Misconception(name, f"{says}: {why}.")
    raise AssertionError(f"{says}.")


@exercise("order", weight=1)
def test_sources_come_first_and_no_op_before_what_it_reads(student, peer, rng):
    for call, nodes, edges, got in ordered(student, peer, rng):
        place = {name: i for i, name in enumerate(got)}
        for a, b in edges:
            if place[a] > place[b]:
                complain(call, nodes, edges, got, f"{b!r} reads {a!r} and runs before it")
        sources = set(nodes) - {b for _, b in edges}
        early = next((name for name in got[: len(sources)] if name not in sources), None)
        if early:
            complain(call, nodes, edges, got, f"{early!r} reads something, and runs before a source")


@exercise("order", weight=2)
def test_the_order_is_tensorflows_own(student, peer, rng):
    for call, nodes, edges, got in ordered(student, peer, rng):
        wanted = timeline.run_order(nodes, edges)
        if got != wanted:
            i = next(i for i, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1])
            what = f"TensorFlow agrees as far as {got[:i]}, then runs another op than {got[i]!r}"
            complain(call, nodes, edges, got, what)


# at_once: step statistics, made there of numbers that are drawn here

BASE = 4_000_000_000_000_000  # nanoseconds at which the first op may start


@probe(uses=[unaided])
def counted(student, cases, base, late, tail):
    from across import fresh, timeline

    taken = [timeline.of_step, timeline.Timeline.at_once, fresh.run, fresh.call, fresh.side_by_side]
    says = "`at_once` is to be written without `timeline`"
    made = []
    for devices in cases:
        metadata = tf.compat.v1.RunMetadata()
        for name, nodes in devices:
            of_device = metadata.step_stats.dev_stats.add(device=f"/job:localhost/replica:0/task:0/device:{name}")
            for node, start, length in nodes:
                of_device.node_stats.add(
                    node_name=node,
                    all_start_micros=(base + start) // 1000,
                    all_start_nanos=base + start,
                    op_start_rel_micros=late // 1000,
                    op_start_rel_nanos=late,
                    op_end_rel_micros=length // 1000,
                    op_end_rel_nanos=length,
                    all_end_rel_micros=(length + tail) // 1000,
                    all_end_rel_nanos=length + tail,
                )
        made.append(metadata.step_stats)
    return unaided(taken, says, lambda: [student.at_once(stats) for stats in made])


def check_at_once(student: Any, cases: list[list[running.Device]]) -> None:
    answers = student.ask(counted, cases=cases, base=BASE, late=running.LATE, tail=running.TAIL)
    told = list(each_answer(answers, cases, whole, "`at_once(stats)` returned"))
    got = [count for _, count in told]
    for devices, count in told:
        if count == running.most(running.spans_of(devices)):
            continue
        ops = "; ".join(
            f"{place}: " + ", ".join(f"{name} {start} to {start + length}" for name, start, length in nodes)
            for place, nodes in devices
        )
        says = f"`at_once` returned {shown(count)} for ops that ran from and to (in nanoseconds) {ops}"
        for name in running.ways_for(max(map(len, cases))):
            way, why = running.MISCOUNTED[name]
            if got == [way(case) for case in cases]:
                raise Misconception(name, f"{says}: {why}.")
        if max(got) <= 1:
            says += ": no op seems to last; `op_end_rel_nanos` counts from the op's own start"
            raise Misconception("end_is_absolute", f"{says}.")
        raise AssertionError(f"{says}.")


@exercise("at_once")
def test_ops_of_one_device_are_counted_at_their_fullest_moment(student, rng):
    check_at_once(student, running.telling_together(rng, [1, 1, 1]))


@exercise("at_once")
def test_all_devices_count_together(student, rng):
    check_at_once(student, running.telling_together(rng, [int(n) for n in rng.permutation([2, 2, 3])]))


# sized: in forks of a peer, whose threads are counted from outside


def pool_sizes(rng: np.random.Generator) -> list[int]:
    """Two different sizes, and none that TensorFlow takes by itself."""
    own = {os.cpu_count(), len(os.sched_getaffinity(0))}
    return [int(each) for each in rng.permutation([size for size in range(3, 12) if size not in own])[:2]]


def answered(fork: Fork, answer: bytes, cases: list[list[int]], where: str) -> list[bool]:
    """What `sized` returned there for each of the cases."""
    told = each_answer(fork.call(answer, cases), cases, truth, lambda case: f"{called('sized', case)} {where} returned")
    return [got for _, got in told]


@exercise("sized")
def test_both_pools_are_sized_in_time(student, peer, rng):
    inter, intra = pool_sizes(rng)
    call, answer, fork = f"`sized({inter}, {intra})`", pickled(student, "sized"), Fork(peer)
    (got,) = answered(fork, answer, [[inter, intra]], "before TensorFlow started")
    assert not any(fork.threads([0, 0], seconds=0)), (
        f"{call} started TensorFlow itself; then no pool can be sized any more."
    )
    fork.begin()
    found = fork.threads([inter, intra])
    if found == [intra, inter]:
        raise Misconception("swapped", f"After {call} the inter-op pool has {found[0]} threads; inter comes first.")
    assert found == [inter, intra], (
        f"After {call} TensorFlow started with {found[0]} inter-op and {found[1]} intra-op threads."
    )
    assert got, f"{call} returned {got} in time; both pools have the sizes asked for."
    again, twice = Fork(peer), [[inter + 10, intra + 10], [inter, intra]]
    second = answered(again, answer, twice, "before TensorFlow started")[1]
    again.begin()
    found = again.threads([inter, intra])
    assert second and found == [inter, intra], (
        f"{call}, after {called('sized', twice[0])} and before TensorFlow has started, returned {second}, and it started "
        f"with {found[0]} and {found[1]} threads; that a size was set does not mean that TensorFlow has started."
    )


@exercise("sized")
def test_a_change_that_comes_too_late_is_told(student, peer, rng):
    answer, other = pickled(student, "sized"), int(rng.choice([-2, -1, 1, 2]))
    for more in rng.permutation([[0, 0], [other, 0], [0, -other], [None, None]]):
        fork = Fork(
            peer, DRAWN
        )  # each is told one case only, or it could tell from the others which are the sizes it has
        inter, intra = fork.sizes
        exchanged = more[0] is None
        case = [intra, inter] if exchanged else [inter + int(more[0]), intra + int(more[1])]
        wanted = case == [inter, intra]
        where = f"in a process that started with {inter} inter-op and {intra} intra-op threads"
        (got,) = answered(fork, answer, [case], where)
        why = "has these sizes already" if wanted else "keeps the sizes it has"
        assert got == wanted, f"{called('sized', case)} {where} returned {got}; TensorFlow {why}."
    where, case = "in a process that started without sizes of its own", pool_sizes(rng)
    (got,) = answered(Fork(peer, DEFAULT), answer, [case], where)
    assert not got, f"{called('sized', case)} {where} returned True; it keeps TensorFlow's default, which says 0."


# own_pool: a session is made here with what the student configured


@probe
def configured(student, sizes):
    answers = []
    for threads in sizes:
        config = student.own_pool(threads)
        is_config = isinstance(config, tf.compat.v1.ConfigProto)
        answers.append([is_config, config.SerializeToString() if is_config else type(config).__name__])
    return answers


MOST = 40  # threads that a configuration may ask for here


def check_own_pool(student: Any, sizes: list[int]) -> None:
    kind = row(truth, anything).named("a v1.ConfigProto")
    answers = each_answer(student.ask(configured, sizes=sizes), sizes, kind, "your code returned")
    for threads, (is_config, content) in answers:
        call = f"`own_pool({threads})`"
        assert is_config and isinstance(content, bytes), f"{call} returned {shown(content)}; expected a v1.ConfigProto."
        try:
            config = running.v1.ConfigProto.FromString(content)
        except Exception:  # DecodeError
            raise AssertionError(f"{call} returned what is no v1.ConfigProto.") from None
        pools = [pool.num_threads for pool in config.session_inter_op_thread_pool]
        named = any(pool.global_name for pool in config.session_inter_op_thread_pool)
        asked = [config.inter_op_parallelism_threads, *pools]
        if named:
            says = f"{call} gives its pool a name; all sessions that ask for a pool of that name share it."
            raise Misconception("a_named_pool", says)
        assert max(asked) <= MOST and len(pools) < 2, f"{call} asks for other pools than one of {threads}."
        asks_intra = config.intra_op_parallelism_threads == threads and threads not in asked
        if asks_intra:
            says = (
                f"{call} sizes the intra-op pool, which computes pieces of one op; expected whole ops at the same time."
            )
            raise Misconception("intra_for_inter", says)
        if threads in config.device_count.values() and threads not in asked:
            says = f"{call} makes {threads} logical CPUs; these are names, and share one pool of threads."
            raise Misconception("logical_cpus", says)
        if threads in asked and not pools and not config.use_per_session_threads:
            says = f"{call}: after another session in the same process this one shares that one's pool."
            raise Misconception("the_process_pool", says)
        started = running.threads_of(config)
        assert started == threads, f"A session with {call} has {started} threads of its own; expected {threads}."


@exercise("own_pool")
def test_a_session_gets_so_many_threads_of_its_own(student, rng):
    check_own_pool(student, [int(n) for n in rng.permutation([1, rng.integers(2, 6), rng.integers(6, 12)])])


# collapse: the graph is traced there with fresh kernels, and run here


@probe(graphs=1)
def collapsed(student, kernels):
    from across import tracing

    dense = [tf.keras.layers.Dense(kernel.shape[1], use_bias=False) for kernel in kernels]
    model = tf.keras.Sequential([tf.keras.Input([kernels[0].shape[0]]), *dense])
    model.set_weights(kernels)
    made = tracing.program(lambda: student.collapse(model))
    return made.graph_def, made.outputs


COLLAPSED = row(anything, list_of(text)).named("a graph that can be run")


def check_collapse(student: Any, rng: np.random.Generator, sizes: list[int]) -> None:
    """`sizes`: how many numbers the model reads, then the units of each layer."""
    n, square = len(sizes) - 1, len(set(sizes)) == 1
    kernels = running.kernels_of(rng, sizes)
    right = functools.reduce(np.matmul, kernels)
    graph_def, outputs = COLLAPSED(student.ask(collapsed, kernels=kernels), "Your code led to")
    graph = imported(graph_def)
    assert len(outputs) == 1, f"`collapse` returned {len(outputs)} tensors for a model of {n} layers; expected one."
    try:
        out = graph.get_tensor_by_name(outputs[0])
    except (ValueError, TypeError, KeyError):
        raise AssertionError("The graph that your code built does not hold together.") from None
    with session(graph) as live:
        _, (got,) = ran(live, [out])
    call = f"`collapse(model)` for {n} Dense({sizes[0]}) layers"
    if not square:
        call = f"`collapse(model)` for Dense layers of {shown(sizes[1:], 200)} units, which read {sizes[0]} numbers,"
    if square and same(got, functools.reduce(np.matmul, kernels[::-1])):
        raise Misconception("backwards", f"{call} multiplies from the last kernel to the first; the first comes first.")
    if square and same(got, np.prod(kernels, axis=0)):
        raise Misconception("by_element", f"{call} multiplies element by element; expected products of matrices.")
    assert same(got, right), f"{call} returned something else than `model(tf.eye({sizes[0]}))` does."
    products, chain, others = running.chain_of(graph, out, PRODUCTS)
    least = math.ceil(math.log2(n))
    if len(chain) == n - 1 > least:
        says = f"{call}: all {n - 1} products wait for one another; {least} in a row are enough."
        raise Misconception("one_after_the_other", says)
    few = f"{call} is computed by {products} products; expected {n - 1}, each of two matrices."
    assert products >= n - 1, few
    assert products == n - 1, f"{call} computes {products} products; the budget is {n - 1}."
    assert len(chain) <= least, f"{call}: {len(chain)} products wait for one another; {least} in a row are enough."
    assert not others, f"{call} computes by {', '.join(sorted(others))}, too; expected products of matrices alone."


@exercise("collapse")
def test_kernels_that_pair_up_are_multiplied_in_the_fewest_rounds(student, rng):
    check_collapse(student, rng, [3] * 9)
    check_collapse(student, rng, running.different(rng, 32))  # of 16 two blocks of eight, each by itself, are as short


@exercise("collapse")
def test_a_kernel_without_a_neighbour_waits(student, rng):
    for n in (*rng.permutation([7, 9]), 1):  # of 4, 5 or 6 two halves, each in a row, are as short
        check_collapse(student, rng, running.different(rng, int(n)))
