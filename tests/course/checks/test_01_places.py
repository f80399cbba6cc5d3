"""Trusted checks of the fixture course's chapter: several tests an exercise, two exercises whose answer is a graph."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import tensorflow as tf

from autograder.probe import graphs
from autograder.probe.asking import exercise, kept, probe

HOST = "/job:localhost/replica:0/task:0/device:"
DEVICES = [f"/CPU:{i}" for i in range(4)]
WORDS = "amber birch cedar delta ember fjord grove heath inlet jetty knoll lagoon maple north oasis prism".split()


def device_of(name: object) -> str | None:
    """ "/CPU:2", "/device:CPU:2" and a whole name that ends so are "CPU:2"; anything else is None."""
    found = re.fullmatch(r"(?:.*/)?(?:DEVICE:)?([A-Z]+:\d+)", name.upper()) if type(name) is str else None
    return found[1] if found else None


def drawn(rng: np.random.Generator, count: int) -> list[str]:
    """`count` of the four devices, in any order."""
    return [DEVICES[i] for i in rng.permutation(4)[:count]]


def names(rng: np.random.Generator, count: int) -> list[str]:
    """Fresh names, no two alike."""
    return [f"{word}_{rng.integers(10, 99)}" for word in rng.permutation(WORDS)[:count]]


# where


@probe
def made(student, firsts, seconds, late, by_function):
    from types import SimpleNamespace

    found = []
    for first, second, is_second in zip(firsts, seconds, late, strict=True):
        held = second if is_second else first
        found.append(SimpleNamespace(device=firsts[0] if by_function else held, backing_device=held))
    kept["tensors"] = found


@probe
def held(student):
    return [student.where(tensor) for tensor in kept.pop("tensors")]


def asked_where(student: Any, rng: np.random.Generator, wanted: list[str], by_function: bool) -> None:
    """Have tensors made on the `wanted` devices, each beside one on another, and ask where they are."""
    late = [bool(i % 2) for i in rng.permutation(len(wanted))]
    others = [rng.choice([each for each in DEVICES if each != device]) for device in wanted]
    pairs = [
        (str(other), one) if last else (one, str(other)) for one, other, last in zip(wanted, others, late, strict=True)
    ]
    firsts, seconds = ([HOST + name[1:] for name in each] for each in zip(*pairs, strict=True))
    student.ask(made, firsts=firsts, seconds=seconds, late=late, by_function=by_function)
    answers = student.ask(held)
    assert type(answers) is list, (
        f"The kernel answered with a {type(answers).__name__}; expected what `where` returned."
    )
    assert len(answers) == len(wanted), f"The kernel gave {len(answers)} answers about {len(wanted)} tensors."
    for got, device in zip(answers, wanted, strict=True):
        assert type(got) is str, f"`where` returned a value of type {type(got).__name__}; expected a device's name."
        assert "job:" not in got, f"`where` returned the whole name {got!r}; expected only its end."
        assert got == device, f"A tensor is on another device than you say: {got!r}."


@exercise("where")
def test_a_tensor_made_eagerly_is_found(student, rng):
    asked_where(student, rng, drawn(rng, 4), by_function=False)


@exercise("where")
def test_what_a_function_computed_elsewhere_is_found(student, rng):
    asked_where(student, rng, drawn(rng, 3), by_function=True)


# prediction

OPS = ("ReadVariableOp", "Mul", "AddV2", "AssignAddVariableOp")


@probe
def recorded(student):
    return student.prediction


@exercise("prediction")
def test_every_op_has_a_recorded_device(student):
    guess = student.ask(recorded)
    assert type(guess) is dict, f"`prediction` is of type {type(guess).__name__}; expected a dictionary."
    for op in OPS:
        assert guess.get(op) is not None, f"{op} is left open; a prediction is a commitment."
        assert device_of(guess[op]) in {device_of(each) for each in DEVICES}, f"{op} is predicted at {guess[op]!r}."


# place


Op = tuple[str, str | None, str | None]  # name, pin, variable


@probe
def placed(student, ops, default, before):
    return student.place([student.Op(*op) for op in ops], default, before)


def check_place(student: Any, rng: np.random.Generator, pinned: bool, variables: int, before: dict[str, str]) -> None:
    """Fresh ops, and what the rules make of them."""
    default, fresh = drawn(rng, 1)[0], names(rng, 6 + variables)
    ops: list[tuple[str, str | None, str | None]] = [
        (name, DEVICES[(i + 1) % 4], None) for i, name in enumerate(fresh[:variables])
    ]
    for i, name in enumerate(fresh[variables:]):
        variable = fresh[i % variables] if variables and i % 2 else None
        ops.append((name, drawn(rng, 1)[0] if pinned and i % 3 else None, variable))
    before = {**before, **({fresh[-1]: drawn(rng, 1)[0]} if before else {})}
    wanted = dict(before)
    for name, pin, variable in ops:
        wanted.setdefault(name, wanted[variable] if variable else pin or default)
    got = student.ask(placed, ops=ops, default=default, before=before)
    assert type(got) is dict, f"`place` returned a value of type {type(got).__name__}; expected a dictionary."
    for name, pin, variable in ops:
        why = "rule 1" if name in before else "rule 0" if variable else "rule 2" if pin else "rule 3"
        assert type(got.get(name)) is str, f"`place` says nothing, or no device, about {name!r}."
        assert got[name] == wanted[name], f"You place {name!r} on {got[name]!r}; see {why}."


@exercise("place")
def test_pins_are_obeyed_and_the_rest_takes_the_default(student, rng):
    check_place(student, rng, pinned=True, variables=0, before={})


@exercise("place")
def test_ops_that_touch_a_variable_go_where_it_is(student, rng):
    check_place(student, rng, pinned=True, variables=2, before={})


@exercise("place")
def test_what_an_earlier_run_placed_stays(student, rng):
    check_place(student, rng, pinned=True, variables=2, before={"long_ago": "/CPU:3"})


# split: the student's graph, run here


@probe(graphs=1)
def traced(student, size, devices):
    from across import tracing

    spec = tf.TensorSpec([size, size], tf.float32)
    graph = tracing.concrete(lambda a, b: student.split(a, b, devices), spec, spec)
    outputs = [each.name for each in graph.outputs]
    return tracing.quiet(graph.graph, outputs), [each.name for each in graph.inputs], outputs


def imported(graph_def: Any) -> tf.Graph:
    """The student's graph, ready to run. AssertionError if it is none, or would cost too much."""
    assert type(graph_def).__name__ == "GraphDef", "Your code did not lead to a graph that can be run."
    try:
        return graphs.imported(graph_def)
    except graphs.GraphError as error:
        raise AssertionError(str(error)) from None


class Halves:
    """The student's `split`, traced there and run here on fresh matrices."""

    def __init__(self, student: Any, rng: np.random.Generator) -> None:
        size, self.devices = int(rng.integers(2, 6)), drawn(rng, 3)
        self.a, self.b = rng.integers(-9, 10, size=(2, size, size)).astype("float32")
        answer = student.ask(traced, size=size, devices=self.devices)
        assert type(answer) is tuple and len(answer) == 3, "Your code did not lead to a graph that can be run."
        graph_def, inputs, outputs = answer
        graph = imported(graph_def)
        assert type(outputs) is list and len(outputs) == 1, "`split` returned no single tensor; expected the sum."
        try:
            feed = {graph.get_tensor_by_name(name): x for name, x in zip(inputs, (self.a, self.b), strict=True)}
            out = graph.get_tensor_by_name(outputs[0])
            config = tf.compat.v1.ConfigProto(device_count={"CPU": 4, "GPU": 0}, inter_op_parallelism_threads=1)
            with tf.compat.v1.Session(graph=graph, config=config) as session:
                self.total = session.run(out, feed, options=tf.compat.v1.RunOptions(timeout_in_ms=10_000))
        except AssertionError:
            raise
        except Exception:
            raise AssertionError("The graph that your code built cannot be run.") from None
        self.products = [device_of(op.device) for op in graph.get_operations() if "MatMul" in op.type]
        while out.op.type == "Identity":
            out = out.op.inputs[0]
        self.last = device_of(out.op.device)


@exercise("split", weight=1)
def test_the_sum_is_right(student, rng):
    halves = Halves(student, rng)
    wanted = halves.a @ halves.b + halves.b @ halves.a
    assert type(halves.total) is np.ndarray and halves.total.shape == wanted.shape, "`split` returned another shape."
    assert np.allclose(halves.total, wanted, atol=1e-3), "The sum is off; expected a @ b + b @ a."


@exercise("split", weight=3)
def test_each_product_runs_on_its_own_device(student, rng):
    halves = Halves(student, rng)
    wanted = [device_of(each) for each in halves.devices[:2]]
    assert halves.products == wanted, (
        f"The products are for {halves.products}; expected the first two devices, in order."
    )


@exercise("split", weight=2)
def test_the_sum_is_formed_on_the_third_device(student, rng):
    halves = Halves(student, rng)
    assert halves.last == device_of(halves.devices[2]), f"The sum is for {halves.last}; expected the third device."


# Functions from an op to a device


@probe
def devices_of(student, first, rest, kinds):
    device_of = student.variables_on(first, rest)
    return [device_of(student.Op("x", None, None, kind)) for kind in kinds]


def check_variables_on(student: Any, rng: np.random.Generator, kind: str) -> None:
    """Variables of `kind` must go to one device, everything else to another."""
    first, rest = drawn(rng, 2)
    kinds = [str(each) for each in rng.permutation([kind, kind, "Mul", "AddV2", "Variable"])]
    got = student.ask(devices_of, first=first, rest=rest, kinds=kinds)
    assert type(got) is list and len(got) == len(kinds), "The kernel answered with something else than five devices."
    for each, device in zip(kinds, got, strict=True):
        wanted = first if each == kind else rest
        assert type(device) is str and device == wanted, (
            f"a {each} went to {str(device)[:40]!r}; expected another device."
        )


@exercise("variables_on")
def test_resource_variables_are_kept_on_the_first_device(student, rng):
    check_variables_on(student, rng, "VarHandleOp")


@exercise("variables_on")
def test_old_style_variables_are_kept_there_too(student, rng):
    check_variables_on(student, rng, "VariableV2")


@probe(graphs=1)
def built(student, devices, steps):
    graph, function = tf.Graph(), student.round_robin(devices)
    with graph.as_default(), tf.compat.v1.device(lambda op: function(op)):
        value = tf.compat.v1.placeholder(tf.float32, [], name="one")
        for kind, name in steps:
            if kind == "product":
                value = tf.multiply(value, value, name=name)
            else:
                tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], name=name)
    return graph.as_graph_def()


def check_turns(student: Any, rng: np.random.Generator, kinds: list[str], count: int) -> None:
    """Variables must take turns over the devices, and products are left alone; the graph is run, too."""
    devices = drawn(rng, count)
    steps = [[str(kind), name] for kind, name in zip(rng.permutation(kinds), names(rng, len(kinds)), strict=True)]
    graph = imported(student.ask(built, devices=devices, steps=steps))
    try:
        places = {name: device_of(graph.get_operation_by_name(name).device or "/CPU:9") for _, name in steps}
        ops = [graph.get_operation_by_name(name) for _, name in steps]
        one: Any = graph.get_tensor_by_name("one:0")
    except (KeyError, ValueError):
        raise AssertionError("The graph that was built under your device function is not the one asked for.") from None
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 4, "GPU": 0}, inter_op_parallelism_threads=1)
    with tf.compat.v1.Session(graph=graph, config=config) as session:  # first: whatever it costs is the student's
        try:
            session.run(ops, {one: 1.0}, options=tf.compat.v1.RunOptions(timeout_in_ms=10_000))
        except Exception:
            raise AssertionError("The graph that your code built cannot be run.") from None
    turns = [places[name] for kind, name in steps if kind != "product"]
    assert turns == [device_of(devices[i % count]) for i in range(len(turns))], (
        f"variables went to {turns}; expected turns."
    )
    alone = {places[name] for kind, name in steps if kind == "product"} <= {"CPU:9"}
    assert alone, "A product was given a device; expected it to be left alone."


@exercise("round_robin")
def test_variables_take_turns(student, rng):
    check_turns(student, rng, ["variable"] * 5 + ["product"], 3)


@exercise("round_robin")
def test_everything_else_is_left_alone(student, rng):
    check_turns(student, rng, ["variable"] * 3 + ["product"] * 3, 2)


@exercise("round_robin")
def test_two_device_functions_do_not_share_their_turns(student, rng):
    for _ in range(2):
        check_turns(student, rng, ["variable"] * 4 + ["product"], 3)


# soonest


@probe
def chosen(student, tasks, devices, copy):
    return student.soonest([student.Task(*task) for task in tasks], list(devices), copy)


def greedy(tasks: list[tuple[str, float, tuple[str, ...]]], devices: list[str], copy: float) -> dict[str, str]:
    """Each task where it ends soonest; on a tie the device listed first."""
    chosen: dict[str, str] = {}
    free, ends = dict.fromkeys(devices, 0.0), {}
    for name, seconds, inputs in tasks:
        ready = {d: max([free[d], *(ends[i] + copy * (chosen[i] != d) for i in inputs)]) for d in devices}
        chosen[name] = min(devices, key=ready.__getitem__)
        ends[name] = free[chosen[name]] = ready[chosen[name]] + seconds
    return chosen


def check_soonest(student: Any, rng: np.random.Generator, count: int, copy: float) -> None:
    """A fresh program on which the copies tell."""
    while True:
        devices, fresh = drawn(rng, count), names(rng, 7)
        inputs = [tuple(fresh[j] for j in sorted(rng.permutation(i)[: int(rng.integers(0, 3))])) for i in range(7)]
        tasks = [(name, float(rng.integers(1, 6)), each) for name, each in zip(fresh, inputs, strict=True)]
        wanted = greedy(tasks, devices, copy)
        if len(set(wanted.values())) > 1 and wanted != greedy(tasks, devices, 0.0):
            break
    got = student.ask(chosen, tasks=tasks, devices=devices, copy=copy)
    assert type(got) is dict, f"`soonest` returned a value of type {type(got).__name__}; expected a dictionary."
    for name in wanted:
        assert type(got.get(name)) is str, f"`soonest` says nothing about {name!r}; expected a device for every task."
        assert got[name] == wanted[name], f"{name!r} finishes sooner on another device."


@exercise("soonest")
def test_every_task_finishes_as_soon_as_it_can(student, rng):
    check_soonest(student, rng, 2, 1.0)


@exercise("soonest")
def test_copies_count(student, rng):
    check_soonest(student, rng, 3, float(rng.integers(2, 5)))


@exercise("soonest")
def test_it_works_for_any_number_of_devices(student, rng):
    for count in (3, 4):
        check_soonest(student, rng, count, float(rng.integers(1, 3)))
