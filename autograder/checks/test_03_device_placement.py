"""Trusted checks of chapter 03: placements are run here, by TensorFlow's own placer, and looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import device, device_in, dict_of, one_of, shown, text
from autograder.checks.placing import (
    Program,
    Wish,
    device_of,
    elsewhere,
    greedy,
    names,
    some_devices,
    spans,
    telling,
    wishes,
)
from autograder.checks.students_graphs import PINNED, Halves, Step, built, same, shuffled, went
from autograder.probe.asking import Misconception, each_answer, exercise, kept, probe, recorded

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
    name = text.named("a device's name, as in D")
    for place, got in each_answer(answers, wanted, name, "`where` returned"):
        assert "job:" not in got, (
            f"`where` returned the whole name {shown(got)}; expected only its end, spelled as in D."
        )
        found = device.named("a device's name, spelled as in D")(got, "`where` returned")
        assert found == device_of(place), f"A tensor was {made} and you say it is at {shown(got)}; {hint}."


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

one_of_d = device_in(f"CPU:{i}" for i in range(4)).named("one of D, or default")
test_every_op_has_a_recorded_device = recorded(
    "prediction", dict.fromkeys(("ReadVariableOp", "Mul", "AddV2", "AssignAddVariableOp"), one_of_d)
)


# place: the student's rules against TensorFlow's placer


@probe
def placed(student, ops, default, before):
    return student.place([student.Op(*op) for op in ops], default, before)


def check_place(got: Any, ops: Sequence[Wish], ran_on: dict[str, str], before: dict[str, str]) -> None:
    """Compare the student's placement with the one that happened, in the words of the rule that was missed."""
    got = dict_of().named("a dictionary from name to device")(got, "`place` returned")
    for name, pin, variable in ops:
        assert name in got, f"`place` says nothing about {name!r}; expected a device for every op of the list."
        if device(got[name], f"Where {name!r} goes, `place` says") == ran_on[name]:
            continue
        if name in before:
            why = "had been placed by an earlier run: rule 1 comes first"
        elif variable is not None:
            why = f"touches the variable {variable!r}: rule 0 beats {'its pin' if pin else 'the default'}"
        else:
            why = "is pinned and touches no variable: see rule 2" if pin else "is pinned nowhere: see rule 3"
        raise AssertionError(f"You place {name!r} on {got[name]}, TensorFlow ran it elsewhere: it {why}.")


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


@exercise("split", weight=1)
def test_the_sum_is_right(student, rng):
    halves = Halves(student, rng)
    assert np.shape(halves.total) == halves.a.shape, (
        f"`split` returned a tensor of shape {np.shape(halves.total)}; expected the shape of the matrices."
    )
    one = same(halves.total, halves.a @ halves.b) or same(halves.total, halves.b @ halves.a)
    assert not one, "`split` returned one of the two products; expected their sum."
    if same(halves.total, 2 * halves.a @ halves.b) or same(halves.total, 2 * halves.b @ halves.a):
        says = "You computed the same product twice; the order of the factors matters: expected a @ b + b @ a."
        raise Misconception("same_product_twice", says)
    assert same(halves.total, halves.a @ halves.b + halves.b @ halves.a), "The sum is off; expected a @ b + b @ a."


@exercise("split", weight=3)
def test_each_product_runs_on_its_own_device(student, rng):
    halves = Halves(student, rng, PINNED)
    ordered = [("a @ b", halves.a @ halves.b), ("b @ a", halves.b @ halves.a)]
    found = []
    for product, value in ordered:
        places = {place for got, place in halves.products if same(got, value)}
        assert places, f"No matrix product in your graph computes {product}; expected one."
        found.append((product, places))
    wanted = [device_of(device) for device in halves.devices]
    (_, first), (_, second) = found
    assert first != second, f"Both products ran on {', '.join(sorted(map(str, first)))}; expected two devices at work."
    swapped = first == {wanted[1]} and second == {wanted[0]}
    assert not swapped, "Each product ran on the other's device; expected a @ b on the first of the list."
    for (product, places), right, nth in zip(found, wanted, ("first", "second"), strict=False):
        seen = ", ".join(sorted(map(str, places)))
        assert places == {right}, f"{product} ran on {seen}; expected the {nth} device of the list that was passed in."


@exercise("split", weight=2)
def test_the_sum_is_formed_on_the_third_device(student, rng):
    halves = Halves(student, rng)
    assert same(halves.total, halves.a @ halves.b + halves.b @ halves.a), "The sum is off; expected a @ b + b @ a."
    assert halves.last == device_of(halves.devices[2]), (
        f"The sum was formed on {halves.last}; expected the third device of the list that was passed in."
    )


# Device functions: the graph is built there under the student's function, and run here


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
    if swapped:
        says = "Variables and all the rest changed places; expected the variables on `first`."
        raise Misconception("swapped", says)
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
    if len(set(seen)) == 1:
        says = f"All {len(seen)} variables went to {seen[0]}; expected them to take turns."
        raise Misconception("always_the_first", says)
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
    got = dict_of().named("a dictionary from name to device")(got, "`soonest` returned")
    for name, _, _ in tasks:
        assert name in got, f"`soonest` says nothing about {name!r}; expected a device for every task."
        one_of(devices).named("one of the devices given")(got[name], f"{name!r} is put on")
    wanted = greedy(tasks, devices, copy)
    got = {name: got[name] for name in wanted}
    if got == wanted:
        return
    if got == greedy(tasks, devices, 0.0):
        says = f"You placed as if copies were free; expected the {copy:g} s of each copy to count."
        raise Misconception("copies_are_free", says)
    if got == greedy(tasks, devices, copy, start=True):
        says = "You took the device that is free soonest; expected the one where the task would finish soonest."
        raise Misconception("free_soonest", says)
    for i, (name, _, _) in enumerate(tasks):
        if got[name] == wanted[name]:
            continue
        mine, best = (spans(tasks[: i + 1], {**wanted, name: each[name]}, copy)[name][2] for each in (got, wanted))
        if mine == best:
            says = f"{name!r} would finish after {mine:g} s on two devices; expected the one listed first."
            raise Misconception("last_of_a_tie", says)
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
