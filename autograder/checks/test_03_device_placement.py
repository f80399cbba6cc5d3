"""Trusted checks of chapter 03: placements are run here, by TensorFlow's own placer, and looked at."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from autograder.checks.placing import (
    Program,
    Wish,
    device_of,
    elsewhere,
    greedy,
    imported,
    names,
    ran,
    session,
    some_devices,
    spans,
    telling,
    wishes,
)
from autograder.probe.asking import exercise, kept, probe

# where


@probe
def made(student, firsts, seconds, late, by_function):
    def make(x):
        tensors = []
        for first, second, is_second in zip(firsts, seconds, late, strict=True):
            with tf.device(first):
                one = x + 1.0 if by_function else tf.constant([1.0])
            with tf.device(second):
                two = one + 1.0
            tensors.append(two if is_second else one)
        return tensors

    if by_function:
        make = tf.function(make, autograph=False)
    kept["tensors"] = make(tf.constant(1.0))


@probe
def held(student):
    import gc

    gc.collect()  # the names are in nobody's memory any more, and in no frame: `where` has its tensor and that is all
    return [student.where(tensor) for tensor in kept.pop("tensors")]


def check_where(answers: Any, wanted: list[str], made: str, hint: str) -> None:
    """Compare the devices that the student names for tensors that were `made` on the `wanted` ones."""
    assert type(answers) is list, (
        f"The kernel answered with a {type(answers).__name__}; expected what `where` returned."
    )
    assert len(answers) == len(wanted), f"The kernel gave {len(answers)} answers about {len(wanted)} tensors."
    for got, device in zip(answers, wanted, strict=True):
        assert type(got) is str, (
            f"`where` returned a value of type {type(got).__name__}; expected a device's name, as in D."
        )
        assert "job:" not in got, f"`where` returned the whole name {got!r}; expected only its end, spelled as in D."
        assert device_of(got), f"`where` returned {got!r}; expected a device's name, spelled as in D."
        assert device_of(got) == device_of(device), f"A tensor was {made} and you say it is at {got}; {hint}."


def asked_where(student, rng, wanted: list[str], by_function: bool) -> Any:
    """Have tensors made on the `wanted` devices, each beside one on another: the names that cross do not tell which."""
    late = [bool(i % 2) for i in rng.permutation(len(wanted))]
    pairs = [(device, elsewhere(rng, device.lower())) for device in wanted]
    firsts, seconds = zip(*(pair[::-1] if last else pair for pair, last in zip(pairs, late, strict=True)), strict=True)
    student.ask(made, firsts=firsts, seconds=seconds, late=late, by_function=by_function)
    return student.ask(held)


@exercise("where")
def test_a_tensor_made_eagerly_is_found(student, rng):
    wanted = [f"/CPU:{i}" for i in rng.permutation(4)]
    answers = asked_where(student, rng, wanted, by_function=False)
    check_where(answers, wanted, "made eagerly", "expected the device that holds the number")


@exercise("where")
def test_what_a_function_computed_elsewhere_is_found(student, rng):
    wanted = [f"/CPU:{i}" for i in 1 + rng.permutation(3)]
    answers = asked_where(student, rng, wanted, by_function=True)
    hint = "that is where the call was made; expected the device that holds the number"
    check_where(answers, wanted, "computed inside a tf.function", hint)


# prediction

OPS = ["ReadVariableOp", "Mul", "AddV2", "AssignAddVariableOp"]


@probe
def recorded(student):
    return student.prediction


@exercise("prediction")
def test_every_op_has_a_recorded_device(student):
    guess = student.ask(recorded)
    assert type(guess) is dict, (
        f"`prediction` is of type {type(guess).__name__}; expected a dictionary with four entries."
    )
    missing = [op for op in OPS if op not in guess]
    assert not missing, f"`prediction` has no entry for {', '.join(missing)}; expected one for each of the four ops."
    empty = [op for op in OPS if guess[op] is None]
    assert len(empty) < len(OPS), "Nothing is predicted yet: expected a device in place of each None."
    assert not empty, f"{', '.join(empty)} is left open; a prediction is a commitment: expected a device there too."
    for op in OPS:
        assert type(guess[op]) is str, (
            f"{op} is predicted at a value of type {type(guess[op]).__name__}; expected a device's name."
        )
        there = device_of(guess[op]) in {f"CPU:{i}" for i in range(4)}
        assert there, f"{op} is predicted at {guess[op]!r}; there is no such device: expected one of D, or default."


# place: the student's rules against TensorFlow's placer


@probe
def placed(student, ops, default, before):
    return student.place([student.Op(*op) for op in ops], default, before)


def check_place(got: Any, ops: Sequence[Wish], truth: dict[str, str], before: dict[str, str]) -> None:
    """Compare the student's placement with the one that happened, in the words of the rule that was missed."""
    assert type(got) is dict, (
        f"`place` returned a value of type {type(got).__name__}; expected a dictionary from name to device."
    )
    for name, pin, variable in ops:
        assert name in got, f"`place` says nothing about {name!r}; expected a device for every op of the list."
        said = got[name]
        assert device_of(said), f"`place` says {said!r} for {name!r}; expected a device's name."
        if device_of(said) == truth[name]:
            continue
        if name in before:
            why = "had been placed by an earlier run: rule 1 comes first"
        elif variable is not None:
            why = f"touches the variable {variable!r}: rule 0 beats {'its pin' if pin else 'the default'}"
        else:
            why = "is pinned and touches no variable: see rule 2" if pin else "is pinned nowhere: see rule 3"
        raise AssertionError(f"You place {name!r} on {said}, TensorFlow ran it elsewhere: it {why}.")


@exercise("place")
def test_pins_are_obeyed_and_the_rest_takes_the_default(student, rng):
    default = f"/cpu:{rng.integers(4)}"
    ops = wishes(rng, default, names(rng, int(rng.integers(5, 8))), [], [])
    program = Program(default)
    program.add(ops, set())
    got = student.ask(placed, ops=ops, default=default, before={})
    check_place(got, ops, program.run(), {})


@exercise("place")
def test_ops_that_touch_a_variable_go_where_it_is(student, rng):
    default = f"/cpu:{rng.integers(4)}"
    fresh = names(rng, 9)
    ops = wishes(rng, default, fresh[:3], fresh[3:5], fresh[5:])
    program = Program(default)
    program.add(ops, set(fresh[3:5]))
    got = student.ask(placed, ops=ops, default=default, before={})
    check_place(got, ops, program.run(), {})


@exercise("place")
def test_what_an_earlier_run_placed_stays(student, rng):
    default = f"/cpu:{rng.integers(4)}"
    fresh = names(rng, 12)
    ops = wishes(rng, default, fresh[:4], fresh[4:6], fresh[6:8])
    program = Program(default)
    program.add(ops, set(fresh[4:6]))
    before = program.run()
    before = {name: f"/{before[name]}" for name, _, _ in ops}
    ops = [(name, elsewhere(rng, before[name].lower()), variable) for name, _, variable in ops]  # too late
    late: list[Wish] = [(name, None, fresh[4 + i % 2]) for i, name in enumerate(fresh[8:10])]
    ops += [*late, (fresh[10], None, None), (fresh[11], f"/cpu:{rng.integers(4)}", None)]
    for name, pin, _ in ops[:8]:
        program.graph.get_operation_by_name(name)._set_device(pin)
    program.add(ops[8:], set())
    got = student.ask(placed, ops=ops, default=default, before=before)
    check_place(got, ops, program.run(), before)


# split


@probe(graphs=1)
def traced(student, size, devices):
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    def program(a, b):
        return student.split(a, b, devices)

    spec = tf.TensorSpec([size, size], tf.float32)
    graph = tf.function(program, autograph=False).get_concrete_function(spec, spec)
    if graph.graph.as_graph_def().library.function:  # functions inside: write their bodies out
        graph = convert_variables_to_constants_v2(graph)
    graph_def = graph.graph.as_graph_def()
    printing = {node.name for node in graph_def.node if node.op in ("PrintV2", "StringFormat")}  # may not come in
    nodes = [node for node in graph_def.node if node.name not in printing]
    del graph_def.node[:]
    for node in nodes:
        inputs = [name for name in node.input if name.lstrip("^") not in printing]
        del node.input[:]
        node.input.extend(inputs)
        graph_def.node.append(node)
    return graph_def, [tensor.name for tensor in graph.inputs], [tensor.name for tensor in graph.outputs]


TRIPLES = [  # never what the notebook asks for (1, 2, 3), nor its first two swapped, nor the sum on the default device
    (i, j, k)
    for i, j, k in itertools.permutations(range(4), 3)
    if i != 1 and j != 2 and k not in (0, 3) and (i, j) != (2, 1)
]
PINNED = [each for each in TRIPLES if 0 not in each[:2]]  # a product that nobody pinned runs on CPU:0
PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")


class Halves:
    """The student's `split`, traced there and run here on fresh matrices."""

    def __init__(self, student: Any, rng: np.random.Generator, triples: list[tuple[int, ...]] = TRIPLES) -> None:
        size = int(rng.integers(2, 6))
        self.devices = [f"/cpu:{i}" for i in triples[rng.integers(len(triples))]]
        self.a, self.b = rng.integers(-9, 10, size=(2, size, size)).astype("float32")
        answer: Any = student.ask(traced, size=size, devices=self.devices)
        whole = type(answer) is tuple and len(answer) == 3
        assert whole, "Your code did not lead to a graph that can be run."
        graph_def, inputs, outputs = answer
        graph = imported(graph_def)
        single = type(outputs) is list and len(outputs) == 1
        assert single, "`split` returned no single tensor; expected one: the sum."
        try:
            feed = {graph.get_tensor_by_name(name): x for name, x in zip(inputs, (self.a, self.b), strict=True)}
            out = graph.get_tensor_by_name(outputs[0])
            products = [op.outputs[0] for op in graph.get_operations() if op.type in PRODUCTS]
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        with session(graph) as running:
            self.where, (self.total, *values) = ran(running, [out, *products], feed)
        while out.op.type == "Identity":
            out = out.op.inputs[0]
        self.last = self.where.get(out.op.name)
        self.products = [
            (value, self.where.get(tensor.op.name)) for value, tensor in zip(values, products, strict=True)
        ]


def same(got: Any, wanted: np.ndarray) -> bool:
    numbers = np.asarray(got)
    return numbers.dtype.kind == "f" and numbers.shape == wanted.shape and np.allclose(numbers, wanted, atol=1e-3)


@exercise("split", weight=1)
def test_the_sum_is_right(student, rng):
    halves = Halves(student, rng)
    assert np.shape(halves.total) == halves.a.shape, (
        f"`split` returned a tensor of shape {np.shape(halves.total)}; expected the shape of the matrices."
    )
    one = same(halves.total, halves.a @ halves.b) or same(halves.total, halves.b @ halves.a)
    assert not one, "`split` returned one of the two products; expected their sum."
    twice = same(halves.total, 2 * halves.a @ halves.b) or same(halves.total, 2 * halves.b @ halves.a)
    assert not twice, "You computed the same product twice; the order of the factors matters: expected a @ b + b @ a."
    assert same(halves.total, halves.a @ halves.b + halves.b @ halves.a), "The sum is off; expected a @ b + b @ a."


@exercise("split", weight=3)
def test_each_product_runs_on_its_own_device(student, rng):
    halves = Halves(student, rng, PINNED)
    ordered = [("a @ b", halves.a @ halves.b), ("b @ a", halves.b @ halves.a)]
    found = []
    for text, value in ordered:
        places = {place for got, place in halves.products if same(got, value)}
        assert places, f"No matrix product in your graph computes {text}; expected one."
        found.append((text, places))
    wanted = [device_of(device) for device in halves.devices]
    (_, first), (_, second) = found
    assert first != second, f"Both products ran on {', '.join(sorted(map(str, first)))}; expected two devices at work."
    swapped = first == {wanted[1]} and second == {wanted[0]}
    assert not swapped, "Each product ran on the other's device; expected a @ b on the first of the list."
    for (text, places), device, nth in zip(found, wanted, ("first", "second"), strict=False):
        seen = ", ".join(sorted(map(str, places)))
        assert places == {device}, f"{text} ran on {seen}; expected the {nth} device of the list that was passed in."


@exercise("split", weight=2)
def test_the_sum_is_formed_on_the_third_device(student, rng):
    halves = Halves(student, rng)
    assert same(halves.total, halves.a @ halves.b + halves.b @ halves.a), "The sum is off; expected a @ b + b @ a."
    assert halves.last == device_of(halves.devices[2]), (
        f"The sum was formed on {halves.last}; expected the third device of the list that was passed in."
    )


# Device functions: the graph is built there under the student's function, and run here


@probe(graphs=1)
def built(student, maker, arguments, steps):
    """Build `steps` ([kind, name, pin]; kinds: new and old variables, and products) under a device function."""
    graph = tf.Graph()
    function = getattr(student, maker)(*arguments)
    with graph.as_default(), tf.compat.v1.device(function):
        value = tf.compat.v1.placeholder(tf.float32, [], name="one")
        for kind, name, pin in steps:
            if kind == "new":
                tf.compat.v1.Variable(1.0, name=name, use_resource=True)
            elif kind == "old":
                tf.compat.v1.Variable(1.0, name=name, use_resource=False)
            elif pin is None:
                value = tf.multiply(value, value, name=name)
            else:
                with tf.device(pin):
                    value = tf.multiply(value, value, name=name)
    return graph.as_graph_def()


Step = list[Any]  # kind, name, pin


def went(graph_def: Any, steps: list[Step]) -> dict[str, str]:
    """Run a graph that was `built` and return where each of its steps ran."""
    graph = imported(graph_def)
    try:
        first = [graph.get_operation_by_name(f"{name}/Assign") for kind, name, _ in steps if kind != "product"]
        last = [graph.get_operation_by_name(name) for kind, name, _ in steps if kind == "product"]
        one: Any = graph.get_tensor_by_name("one:0")
    except (KeyError, ValueError):
        raise AssertionError("The graph that was built under your device function is not the one asked for.") from None
    with session(graph) as running:
        places = {**ran(running, first)[0], **ran(running, last, {one: 1.0})[0]}
    whole = all(name in places for _, name, _ in steps)
    assert whole, "The graph that was built under your device function is not the one asked for."
    return places


def shuffled(rng: np.random.Generator, kinds: list[str], pin: bool = False) -> list[Step]:
    """Steps of those kinds in any order, freshly named; `pin` gives the products a device block of their own."""
    order = [kinds[i] for i in rng.permutation(len(kinds))]
    return [
        [kind, name, f"/cpu:{rng.integers(4)}" if pin and kind == "product" else None]
        for kind, name in zip(order, names(rng, len(kinds)), strict=True)
    ]


KIND = {"new": "a VarHandleOp", "old": "a VariableV2", "product": "a Mul"}


def check_variables_on(student: Any, rng: np.random.Generator, kind: str) -> None:
    """Variables of `kind` must go to one device, everything else to another."""
    first, rest = some_devices(rng, 2)
    steps = shuffled(rng, [kind] * int(rng.integers(2, 4)) + ["product"] * int(rng.integers(2, 4)))
    graph = student.ask(built, maker="variables_on", arguments=[first, rest], steps=steps)
    places = went(graph, steps)
    variables = {places[name] for each, name, _ in steps if each == kind}
    products = {places[name] for each, name, _ in steps if each == "product"}
    swapped = variables == {device_of(rest)} and products == {device_of(first)}
    assert not swapped, "Variables and all the rest changed places; expected the variables on `first`."
    for each, name, _ in steps:
        wanted = device_of(first if each == kind else rest)
        which = "`first`" if each == kind else "`rest`"
        assert places[name] == wanted, f"{name}, {KIND[each]}, went to {places[name]}; expected it on {which}."


@exercise("variables_on")
def test_resource_variables_are_kept_on_the_first_device(student, rng):
    check_variables_on(student, rng, "new")


@exercise("variables_on")
def test_old_style_variables_are_kept_there_too(student, rng):
    check_variables_on(student, rng, "old")


# round_robin


def check_turns(places: dict[str, str], steps: list[Step], devices: list[str]) -> None:
    """Variables must have taken turns over `devices`, in the order in which they were made."""
    seen = [places[name] for kind, name, _ in steps if kind != "product"]
    wanted = [device_of(devices[i % len(devices)]) for i in range(len(seen))]
    if seen == wanted:
        return
    assert len(set(seen)) > 1, f"All {len(seen)} variables went to {seen[0]}; expected them to take turns."
    began = wanted.index(seen[0]) if seen[0] in wanted else 0
    later = [device_of(devices[(i + began) % len(devices)]) for i in range(len(seen))]
    text = f"{len(seen)} variables over {len(devices)} devices went to {', '.join(seen)}"
    assert seen != later, f"{text}: in turn, but expected every new device function to begin at the first of its list."
    raise AssertionError(f"{text}; expected each the next of the list: did an op that is no variable take a turn?")


@exercise("round_robin")
def test_variables_take_turns(student, rng):
    devices = some_devices(rng, int(rng.integers(3, 5)))
    steps = shuffled(rng, ["new"] * int(rng.integers(2, 4)) + ["old"] * int(rng.integers(2, 4)) + ["product"] * 3)
    steps = [["new", "first_of_all", None], ["new", "second_of_all", None], *steps]  # two next to each other
    graph = student.ask(built, maker="round_robin", arguments=[devices], steps=steps)
    check_turns(went(graph, steps), steps, devices)


@exercise("round_robin")
def test_everything_else_is_left_alone(student, rng):
    devices = some_devices(rng, 2)
    steps = shuffled(rng, ["new"] * 3 + ["product"] * 4, pin=True)
    while all(device_of(pin) in ("CPU:0", *map(device_of, devices)) for kind, _, pin in steps if kind == "product"):
        steps = shuffled(rng, ["new"] * 3 + ["product"] * 4, pin=True)
    graph = student.ask(built, maker="round_robin", arguments=[devices], steps=steps)
    places = went(graph, steps)
    for kind, name, pin in steps:
        alone = kind != "product" or places[name] == device_of(pin)
        assert alone, f"{name}, a Mul in a block of its own, ran on {places[name]}; expected it to be left alone."
    check_turns(places, steps, devices)


@exercise("round_robin")
def test_two_device_functions_do_not_share_their_turns(student, rng):
    devices = some_devices(rng, 3)
    for _ in range(2):  # four variables over three devices: a count that is kept begins the next time elsewhere
        steps = shuffled(rng, ["new"] * 4)
        graph = student.ask(built, maker="round_robin", arguments=[devices], steps=steps)
        check_turns(went(graph, steps), steps, devices)


# soonest


@probe
def chosen(student, tasks, devices, copy):
    return student.soonest([student.Task(*task) for task in tasks], list(devices), copy)


def check_soonest(student: Any, tasks: list[tuple[Any, ...]], devices: list[str], copy: float) -> None:
    """Compare task by task, and say when the student's choice would have finished."""
    got = student.ask(chosen, tasks=tasks, devices=devices, copy=copy)
    assert type(got) is dict, (
        f"`soonest` returned a value of type {type(got).__name__}; expected a dictionary from name to device."
    )
    for name, _, _ in tasks:
        assert name in got, f"`soonest` says nothing about {name!r}; expected a device for every task."
        known = type(got[name]) is str and got[name] in devices
        assert known, f"{name!r} is put on {got[name]!r}; expected one of the devices given."
    wanted = greedy(tasks, devices, copy)
    if {name: got[name] for name in wanted} == wanted:
        return
    got = {name: got[name] for name in wanted}
    assert got != greedy(tasks, devices, 0.0), (
        f"You placed as if copies were free; expected the {copy:g} s of each copy to count."
    )
    assert got != greedy(tasks, devices, copy, start=True), (
        "You took the device that is free soonest; expected the one where the task would finish soonest."
    )
    for i, (name, _, _) in enumerate(tasks):
        if got[name] == wanted[name]:
            continue
        mine, best = (spans(tasks[: i + 1], {**wanted, name: each[name]}, copy)[name][2] for each in (got, wanted))
        assert mine != best, f"{name!r} would finish after {mine:g} s on two devices; expected the one listed first."
        raise AssertionError(
            f"{name!r} would finish after {mine:g} s where you put it; another device finishes sooner."
        )


@exercise("soonest")
def test_every_task_finishes_as_soon_as_it_can(student, rng):
    devices = some_devices(rng, 2)
    check_soonest(student, telling(rng, devices, 1.0, int(rng.integers(6, 9))), devices, 1.0)


@exercise("soonest")
def test_copies_count(student, rng):
    devices, copy = some_devices(rng, int(rng.integers(2, 4))), float(rng.integers(2, 5))
    check_soonest(student, telling(rng, devices, copy, int(rng.integers(7, 10))), devices, copy)


@exercise("soonest")
def test_it_works_for_any_number_of_devices(student, rng):
    for count in rng.permutation([3, 4]):
        devices, copy = some_devices(rng, int(count)), float(rng.integers(1, 3))
        check_soonest(student, telling(rng, devices, copy, int(rng.integers(8, 11))), devices, copy)
