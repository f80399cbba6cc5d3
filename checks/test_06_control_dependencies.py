"""Trusted checks of chapter 06: a graph is asked for its ways, never for the order of one run; then it is run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across import graphs
from across.expecting import anything, called, list_of, row, text, truth
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded
from forked import Fork, pickled
from ordering import (
    Pair,
    Published,
    Totalled,
    a,
    long_way,
    ran_on,
    telling_cases,
    without_a_rule,
)
from placing import imported, names

# wait_for


@probe(graphs=1)
def waited(student, count, dtype, shape):
    from across import tracing

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(dtype, shape, name="x")
        tensor = tf.negative(x, name="tensor")
        ops = [tf.add(x, x, name=f"first_{i}") for i in range(count)]
        got = student.wait_for(tensor, [each if i % 2 else each.op for i, each in enumerate(ops)])
        if not tf.is_tensor(got):
            return tracing.quiet(graph), "None" if got is None else type(got).__name__
        tf.identity(got, name="reader")
    return tracing.quiet(graph, ["reader"]), "a tensor"


def check_wait_for(student: Any, rng: np.random.Generator, count: int) -> None:
    """Have tensors wait for `count` ops, of both kinds of numbers, with a side of 1, and of one number."""
    kinds = [("float32", [3]), ("int32", [1, 3]), (str(rng.choice(["float32", "int32"])), [])]
    for i in rng.permutation(len(kinds)):
        check_waiting(student, rng, count, *kinds[i])


def check_waiting(student: Any, rng: np.random.Generator, count: int, dtype: str, shape: list[int]) -> None:
    """Have such a tensor wait for `count` ops: it must have a way from each of them, and be the same."""
    answer = student.ask(waited, count=count, dtype=dtype, shape=shape)
    graph_def, returned = row(anything, text).named("a graph that can be run")(answer, "Your code led to")
    assert returned == "a tensor", f"`wait_for(tensor, ops)` returned {a(returned)}; expected a tensor."
    graph = imported(graph_def)
    x = (rng.permutation([-1, -1, 1]) * rng.integers(2, 9, size=3)).astype(dtype)
    x = x * 2**24 + 1 if dtype == "int32" else x  # float32 has no such number
    x = x.reshape(shape) if shape else np.abs(x[0])  # `tensor` is below zero then
    (values,) = ran_on(graph, ["reader:0"], {"x:0": x})
    assert np.shape(values) == tuple(shape) and np.array_equal(values, -x), (
        f"For a `tensor` of {(-x).tolist()}, `wait_for(tensor, ops)` has the values {np.asarray(values).tolist()!r}; "
        "expected the same values."
    )
    kind = np.asarray(values).dtype.name
    assert kind == dtype, f"For a `tensor` of {dtype}, `wait_for(tensor, ops)` is of {kind}; expected the same type."
    found = graphs.of_graph(graph)
    loose = [i for i in range(count) if not found.ordered(f"first_{i}", "reader")]
    if len(loose) == count:
        says = "`wait_for(tensor, ops)` waits for none of the ops: a block gives edges to what is created in it."
        raise Misconception("created_before", says)
    assert not loose, (
        f"`wait_for(tensor, ops)` with {count} ops waits for {count - len(loose)} of them; expected it to wait for each."
    )


@exercise("wait_for")
def test_it_waits_for_an_op(student, rng):
    check_wait_for(student, rng, 1)


@exercise("wait_for")
def test_it_waits_for_every_op_of_several(student, rng):
    check_wait_for(student, rng, int(rng.integers(3, 6)))


# needed

PAIRS = list_of(row(text, text).named("a pair of names")).named("a list of pairs of names")


def check_needed(student: Any, peer: Any, rng: np.random.Generator, sizes: Sequence[int]) -> None:
    """Ask for the edges that are needed in graphs on which every wrong rule that is known gives something else."""
    cases = [*telling_cases(rng, [names(rng, size) for size in sizes]), long_way(rng, names(rng, 8))]
    fork = Fork(peer, unaided="`needed` is to be written without `graphs` and without TensorFlow")
    answers = fork.call(pickled(student, "needed"), cases)
    asked = list(each_answer(answers, cases, PAIRS, lambda case: f"{called('needed', case)} returned"))
    rule = next(
        (
            each
            for each in MISSED
            if all(set(got) == without_a_rule(data, control, each) for (data, control), got in asked)
        ),
        "",
    )
    for (data, control), got in asked:
        given = graphs.from_edges(data, control)
        wanted = graphs.simplified(given).control
        says = f"`needed({data}, {control})`"
        unknown = set(got) - {tuple(edge) for edge in control}
        assert not unknown, f"{says} returned {min(unknown)}, which is no control edge; expected some of `control`."
        twice = [edge for edge, count in Counter(control).items() if count > 1]
        if twice and set(wanted) - set(got) == set(twice):
            told = f"{says} drops {twice[0]}; it is given twice, and its twin is no other way: it counts once."
            raise Misconception("the_twin_is_another_way", told)
        if set(got) == set(wanted):
            continue
        if rule:
            raise Misconception(rule, f"{says} is wrong: {MISSED[rule]}")
        if more := sorted(set(got) - set(wanted)):
            raise AssertionError(f"{says} keeps {more[0]}; another way leads from {more[0][0]} to {more[0][1]}.")
        lost = min(set(wanted) - set(got))
        raise AssertionError(f"{says} drops {lost}; then {early(data, got, lost)}, which was not allowed.")


def early(data: Collection[Pair], control: Collection[Pair], lost: Pair) -> str:
    """The beginning of an order that is allowed without the edge `lost`, and not with it."""
    left = graphs.from_edges(data, control)
    known = [op.name for op in left]
    first = [name for name in known if left.ordered(name, lost[1])] if lost[1] in known else []
    return f"{', '.join([*first, lost[1]])} may run before {lost[0]}"


MISSED = {
    "ways_of_two_edges": "another way may have any number of edges, not only two.",
    "ways_of_three_edges": "another way may have any number of edges, not only a few.",
    "control_edges_only": "another way may go over tensors, too: look at `data`.",
    "tensors_only": "another way may go over control edges, too: look at `control`.",
    "joined_by_a_tensor_only": "another way may have more edges than one tensor.",
    "end_has_another": "that something else leads to the end is not enough: a way must begin where the edge begins.",
    "start_has_another": "that something else leaves the start is not enough: a way must end where the edge ends.",
}


@exercise("needed")
def test_the_edges_of_small_graphs(student, peer, rng):
    check_needed(student, peer, rng, [6, 6, 6])


@exercise("needed")
def test_the_edges_of_larger_graphs(student, peer, rng):
    check_needed(student, peer, rng, [8, 9])


# guess

GUESSED = [
    "v.assign, v.assign_add",
    "v.assign, w.assign",
    "print first, print second",
    "v.assign, print first",
    "v.assign_add, print second",
]
test_every_pair_has_a_recorded_guess = recorded("guess", dict.fromkeys(GUESSED, truth))


# publish


def check_publish(student: Any, rng: np.random.Generator, by_chain: bool) -> None:
    """What somebody sees who looks at the variable in the place of `look`."""
    seen = Published(student, rng, by_chain)
    assert seen.looks == 1, f"`publish(v, value, look)` called look {seen.looks} times; expected it once."
    assert seen.assigns, "`publish(v, value, look)` nowhere assigns `value` to v."
    assert seen.found, (
        "`publish(v, value, look)` calls look where the check cannot follow; call look in `publish` itself."
    )
    assert seen.kind == "a tensor", f"`publish` returned {a(seen.kind)}; expected a tensor, `value`."
    if seen.backwards and not seen.ordered:
        raise Misconception("look_first", "The assignment waits for look; expected look to wait for the assignment.")
    assert seen.ordered, (
        f"look may run before the assignment: v was {seen.old}, {seen.value} was assigned, and look can see {seen.old}."
    )
    assert not seen.loose, f"v is written {seen.writes} times, and look does not wait for each; expected it to."
    assert seen.looked_at == seen.value, f"look saw {seen.looked_at} in v, after {seen.value} was assigned."
    assert seen.returned == seen.value, f"`publish` returned {seen.returned}; expected `value`, {seen.value}."
    assert seen.left == seen.value, f"v was {seen.left} at the end; expected `value`, {seen.value}."


@exercise("publish")
def test_look_sees_a_value_that_takes_long(student, rng):
    check_publish(student, rng, by_chain=True)


@exercise("publish")
def test_look_sees_a_value_that_is_there(student, rng):
    check_publish(student, rng, by_chain=False)


# total


def check_total(
    student: Any, rng: np.random.Generator, cases: Sequence[tuple[int, int]]
) -> list[tuple[str, Totalled, int]]:
    """Trace `total` for (batches, at_most): its sum must be right. What was asked, what was found, and `at_most`."""
    found = []
    for count, at_most in cases:
        run = Totalled(student, rng, count, at_most)
        asked = f"`total(model, batches, {at_most})` for {count} batches"
        assert run.right, f"{asked} is {run.value:.4g}; the sum of the means is {run.wanted:.4g}."
        assert run.calls == count, (
            f"{asked} calls the model {run.calls} times; expected one call for each batch, in a Python loop."
        )
        assert run.seen, f"{asked}: no large result was found in its graph; call the model in `total` itself."
        found.append((asked, run, at_most))
    return found


@exercise("total")
def test_no_more_batches_are_in_progress_than_allowed(student, rng):
    for asked, run, at_most in check_total(student, rng, [(4, 1), (5, 2)]):
        assert run.at_once <= at_most, (
            f"{asked} allows an order with {run.at_once} batches in progress; the budget is {at_most}."
        )


@exercise("total")
def test_as_many_batches_are_in_progress_as_allowed(student, rng):
    for asked, run, at_most in check_total(student, rng, [(4, 2), (8, 2), (6, 4), (5, 5)]):
        assert run.at_once <= at_most, (
            f"{asked} allows an order with {run.at_once} batches in progress; the budget is {at_most}."
        )
        assert run.at_once >= at_most, (
            f"{asked} allows {run.at_once} batches in progress in any order; threads have work if it is {at_most}."
        )
        least = math.ceil(run.calls / at_most)
        assert run.in_a_row <= least, (
            f"{asked} lets {run.in_a_row} batches wait in a row, each for the one before; {least} are enough, "
            "and threads have work."
        )


# in_turn


@probe(graphs=1)
def turned(student, count):
    from across import tracing

    sent, computed = [], []

    def send(part):
        sent.append(tf.negative(part, name=f"send_{len(sent)}"))
        return sent[-1]

    def compute(part):
        computed.append(tf.exp(part, name=f"compute_{len(computed)}"))
        return computed[-1]

    with tf.Graph().as_default() as graph:
        parts = [tf.compat.v1.placeholder(tf.float32, [], name=f"part_{i}") for i in range(count)]
        results = student.in_turn(parts, send, compute)
        if tf.is_tensor(results) or not hasattr(results, "__iter__") or isinstance(results, dict):
            kind = "None" if results is None else type(results).__name__
            return tracing.quiet(graph), 0, "one tensor" if tf.is_tensor(results) else f"a {kind}"
        results = list(results)
        for i, result in enumerate(results):
            tf.identity(result, name=f"result_{i}")
    return tracing.quiet(graph), len(results), ""


def check_in_turn(student: Any, rng: np.random.Generator) -> tuple[graphs.Graph, list[str], list[str]]:
    """Trace `in_turn`: its results must be right, and no two transfers free to run at the same time."""
    count = int(rng.choice([3, 5]))  # not the four of the chapter
    answer = student.ask(turned, count=count)
    graph_def, results, other = row(anything, anything, text)(answer, "Your code led to")
    asked = f"`in_turn(parts, send, compute)` with {count} parts"
    assert not other, f"{asked} returned {other.replace('a None', 'None')}; expected a list of tensors."
    graph = imported(graph_def)
    assert results == count, f"{asked} returned {results!r} results; expected {count}."
    parts = rng.permutation(9)[:count] / 4
    feed = {f"part_{i}:0": np.float32(part) for i, part in enumerate(parts)}
    values = [np.asarray(each) for each in ran_on(graph, [f"result_{i}:0" for i in range(count)], feed)]
    right = all(
        v.shape == () and v.dtype.kind == "f" and np.isclose(v, np.exp(-p)) for v, p in zip(values, parts, strict=True)
    )
    assert right, f"{asked} returned something else than compute(send(part)) for each part, in the order of the parts."
    found = graphs.of_graph(graph)
    own = {
        op.name: op.name.rpartition("/")[2] for op in found
    }  # without the scopes of names that an answer has around it
    sends, computes = ([name for name in own if own[name].startswith(each)] for each in ("send_", "compute_"))
    assert len(sends) == len(computes) == count, f"{asked} sent {len(sends)} and computed on {len(computes)} of them."
    loose = [
        (one, two)
        for i, one in enumerate(sends)
        for two in sends[:i]
        if not (found.ordered(one, two) or found.ordered(two, one))
    ]
    assert not loose, f"{asked} has {len(loose)} pairs of transfers that may run at the same time; expected none."
    return found, sends, computes


@exercise("in_turn")
def test_one_transfer_at_a_time(student, rng):
    check_in_turn(student, rng)


@exercise("in_turn")
def test_no_transfer_waits_for_computing(student, rng):
    found, sends, computes = check_in_turn(student, rng)
    late = [name for name in sends if found.before(name) & set(computes)]
    if late:
        says = f"{len(late)} of {len(sends)} transfers wait for computing; the link stands idle meanwhile."
        raise Misconception("link_waits_for_the_processor", says)
    early = [name for name in computes if len(found.before(name) & set(sends)) == len(sends)]
    assert len(early) < len(computes), (
        f"{len(early)} of {len(computes)} parts are computed on after all transfers; expected the last."
    )
    arrived = sorted(len(found.before(name) & set(sends)) for name in computes)
    behind = [number for i, number in enumerate(arrived, 1) if number > i]
    if behind:
        says = f"{len(behind)} of {len(computes)} parts wait for another transfer before they are computed on."
        raise Misconception("one_transfer_late", says)
