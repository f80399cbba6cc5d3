"""Trusted checks of chapter 03: placements are run here, by TensorFlow's own placer, and looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import device, device_in, dict_of, one_of, shown, text
from autograder.probe.asking import Misconception, each_answer, exercise, kept, probe, recorded
from device_functions import OTHERS, Step, built, mixed_steps, shuffled, went
from placing import (
    MISSED,
    Program,
    Wish,
    by_rules,
    device_of,
    elsewhere,
    greedy,
    misplaced,
    names,
    some_devices,
    telling,
    wishes,
)
from students_graphs import PINNED, Forward, Halves, same

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
def held(student, listed):
    import gc

    gc.collect()  # the names are in nobody's memory any more, and in no frame: `where` has its tensor and that is all
    before = list(student.D)
    student.D[:] = listed or before
    try:
        return [student.where(tensor) for tensor in kept.pop("tensors")]
    finally:
        student.D[:] = before


def check_where(answers: Any, wanted: list[str], made: str, called_on: str = "") -> None:
    """Compare the devices that the student names for tensors `made` under a block for each of the `wanted` ones.

    `called_on` is where the function that made them was called, if one did.
    """
    name = text.named("a device's name, as in D")
    for place, got in each_answer(answers, wanted, name, "`where` returned"):
        assert "job:" not in got, (
            f"`where` returned the whole name {shown(got)}; expected only its end, spelled as in D."
        )
        found = device.named("a device's name, spelled as in D")(got, "`where` returned")
        if not str(device_of(place)).startswith(found[:3]):
            says = f"`where` returned {shown(got)} for a tensor on {place}; expected the type of its device, too."
            raise Misconception("another_type", says)
        why = ": there the function was called" if found == called_on else ""
        assert found == device_of(place), (
            f"`where` returned {shown(got)} for a tensor that {made} under `tf.device({place!r})`{why}; "
            "expected the device that holds the number."
        )


def asked_where(student, rng, wanted: list[str], by_function: bool) -> Any:
    """Have tensors made on the `wanted` devices, each beside one on another: the names that cross do not tell which."""
    late = [bool(i % 2) for i in rng.permutation(len(wanted))]
    pairs = [(device, elsewhere(rng, device.lower())) for device in wanted]
    firsts, seconds = zip(*(pair[::-1] if last else pair for pair, last in zip(pairs, late, strict=True)), strict=True)
    student.ask(made, firsts=firsts, seconds=seconds, late=late, by_function=by_function)
    # a function's tensors as where D is four GPUs, and they are on none of them
    return student.ask(held, listed=[f"/GPU:{i}" for i in range(4)] if by_function else [])


@exercise("where")
def test_a_tensor_made_eagerly_is_found(student, rng):
    wanted = [f"/CPU:{i}" for i in rng.permutation(4)]
    answers = asked_where(student, rng, wanted, by_function=False)
    check_where(answers, wanted, "an eager op made")


@exercise("where")
def test_what_a_function_computed_elsewhere_is_found(student, rng):
    wanted = [f"/CPU:{i}" for i in 1 + rng.permutation(3)]
    answers = asked_where(student, rng, wanted, by_function=True)
    check_where(answers, wanted, "a tf.function computed", called_on="CPU:0")


# prediction

one_of_d = device_in(f"{kind}:{i}" for kind in ("CPU", "GPU") for i in range(4)).named("one of D, or default")
test_every_op_has_a_recorded_device = recorded(
    "prediction", dict.fromkeys(("ReadVariableOp", "Mul", "AddV2", "AssignAddVariableOp"), one_of_d)
)


# place: the student's rules against TensorFlow's placer


@probe
def placed(student, ops, default, before):
    return student.place([student.Op(*op) for op in ops], default, before)


def check_place(got: Any, ops: Sequence[Wish], default: str, ran_on: dict[str, str], before: dict[str, str]) -> None:
    """Compare the student's placement with the one that happened; name a rule if doing without it gives this answer."""
    got = dict_of().named("a dictionary from name to device")(got, "`place` returned")
    listed = {name for name, _, _ in ops}
    for name, pin, variable in ops:
        assert name in got, f"`place` says nothing about {name!r}; expected a device for every op of the list."
        there = device(got[name], f"Where {name!r} goes, `place` says")
        if there == ran_on[name]:
            continue
        why = [
            says
            for rule, says in MISSED.items()
            if device_of(by_rules(ops, default, before, rule)[name]) == there and (rule != "rule 1" or name in before)
        ]
        known = next(
            (each for each in (name, variable) if each in before and (each == name or each not in listed)), None
        )
        op = f"Op({name!r}, pin={pin!r}, variable={variable!r})"
        op += f", {known!r} in `before` on {device_of(before[known])}," if known else ""
        if known and known == variable:
            why = ["it touches a variable that `before` has"]
        says = f"You place {op} on {there}, TensorFlow ran it on {ran_on[name]}"
        raise AssertionError(f"{says}: {why[0]}." if why else f"{says}; the default is {default}.")


@exercise("place", weight=1)
def test_pins_variables_and_the_default(student, rng):
    default = f"/cpu:{rng.integers(1, 4)}"  # not D[0], the notebook's
    fresh = names(rng, 11)
    ops = wishes(rng, default, fresh[:3], fresh[3:5], fresh[5:9])
    ops += [(fresh[9], None, None), (fresh[10], elsewhere(rng, default), fresh[9])]  # a variable that nobody pinned
    program = Program(default)
    program.add(ops, {*fresh[3:5], fresh[9]})
    got = student.ask(placed, ops=ops, default=default, before={})
    check_place(got, ops, default, program.run(), {})


@exercise("place", weight=1)
def test_what_an_earlier_run_placed_stays(student, rng):
    default = f"/cpu:{rng.integers(1, 4)}"  # not D[0], the notebook's
    fresh = names(rng, 13)
    ops = wishes(rng, default, fresh[:4], fresh[4:6], fresh[6:8])
    program = Program(default)
    program.add(ops, set(fresh[4:6]))
    ran_first = program.run()
    before = {name: f"/{ran_first[name]}" for name, _, _ in ops}
    late_pins = {name: elsewhere(rng, before[name].lower()) for name, _, _ in ops if name != fresh[1]}
    ops = [(name, late_pins.get(name), variable) for name, _, variable in ops]  # too late; of fresh[1] its pin is gone
    late: list[Wish] = [(name, None, fresh[4 + i % 2]) for i, name in enumerate(fresh[8:10])]
    late.append((fresh[12], elsewhere(rng, before[fresh[4]].lower()), fresh[4]))
    ops += [*late, (fresh[10], None, None), (fresh[11], elsewhere(rng, default), None)]
    for name, pin, _ in ops[:8]:
        program.graph.get_operation_by_name(name)._set_device(pin or "")
    program.add(ops[8:], set())
    ops = [op for op in ops if op[0] != fresh[5]]  # a variable that `before` alone has
    got = student.ask(placed, ops=ops, default=default, before=before)
    check_place(got, ops, default, program.run(), before)


# split


def halved(student: Any, rng: np.random.Generator, *triples: Any) -> Halves:
    """The student's `split`, run; of its call a message says D, as any student can make it."""
    halves = Halves(student, rng, *triples)
    of_d = ", ".join(f"D[{device[-1]}]" for device in halves.devices)
    halves.call = halves.call.replace(f"{halves.devices}", f"[{of_d}]") + ", D four CPUs,"
    return halves


def check_sum(halves: Halves) -> None:
    """A sum that is wrong costs all: where it was formed is then of no interest."""
    assert np.shape(halves.total) == halves.a.shape, (
        f"`split` returned a tensor of shape {np.shape(halves.total)}; expected the shape of the matrices."
    )
    one = same(halves.total, halves.a @ halves.b) or same(halves.total, halves.b @ halves.a)
    assert not one, "`split` returned one of the two products; expected their sum."
    if same(halves.total, 2 * halves.a @ halves.b) or same(halves.total, 2 * halves.b @ halves.a):
        says = "You computed the same product twice; the order of the factors matters: expected a @ b + b @ a."
        raise Misconception("same_product_twice", says)
    assert same(halves.total, halves.a @ halves.b + halves.b @ halves.a), "The sum is off; expected a @ b + b @ a."


@exercise("split")
def test_each_product_runs_on_its_own_device(student, rng):
    halves = halved(student, rng, PINNED)
    check_sum(halves)
    ordered = [("a @ b", halves.a @ halves.b), ("b @ a", halves.b @ halves.a)]
    found = []
    for product, value in ordered:
        places = halves.computed(value)
        assert places, f"No op in your graph computes {product}; expected one."
        found.append((product, places))
    wanted = [device_of(device) for device in halves.devices]
    (_, first), (_, second) = found
    both = f"{halves.call} shows both products on {', '.join(sorted(map(str, first)))}; expected two devices at work."
    assert first != second, both
    swapped = first == {wanted[1]} and second == {wanted[0]}
    assert not swapped, (
        f"{halves.call} shows a @ b on the second device and b @ a on the first; expected them the other way."
    )
    for (product, places), right, nth in zip(found, wanted, ("first", "second"), strict=False):
        seen = ", ".join(sorted(map(str, places)))
        assert places == {right}, f"{halves.call} shows {product} on {seen}; expected the {nth} device of the list."


@exercise("split")
def test_the_sum_is_formed_on_the_third_device(student, rng):
    halves = halved(student, rng)
    check_sum(halves)
    again = halved(student, rng, [(int(rng.integers(1, 4)),) * 3])
    assert same(again.total, again.a @ again.b + again.b @ again.a), (
        f"{again.call}, one device three times, shows another sum than for three devices; expected a @ b + b @ a."
    )
    assert halves.last == device_of(halves.devices[2]), (
        f"{halves.call} shows the sum on {halves.last}; expected the third device of the list."
    )


# forward: each layer of a Keras model where its weights are


@probe
def named_past_nine(student):
    tf.keras.backend.clear_session()
    for _ in range(8):  # the next layers are dense_8, dense_9, dense_10: as text, in another order
        tf.keras.layers.Dense(1)


@exercise("forward", weight=1)
def test_each_layer_runs_where_its_weights_are(student, rng):
    one, two, three = 1 + rng.permutation(3)
    check_forward(student, rng, [one, one, two, three])


@exercise("forward", weight=1)
def test_no_weight_is_copied_on_the_way_back(student, rng):
    one, two = 1 + rng.permutation(3)[:2]
    check_forward(student, rng, [one, two, two, one, one])


@exercise("forward", weight=2)
def test_no_result_is_copied_without_need(student, rng):
    one, two, three = 1 + rng.permutation(3)
    run, says = check_forward(student, rng, [one, two, two, three, one])
    assert len(run.copies) <= run.budget, (
        f"{says} made {len(run.copies)} copies, though of no weight; {run.budget} are enough: "
        "x to the first layer, and one wherever the next layer's weights are on another device."
    )


def check_forward(student: Any, rng: np.random.Generator, homes: list[Any]) -> tuple[Forward, str]:
    """Run the student's `forward` on fresh weights, whose homes are known: is it right, was a weight copied?"""
    student.ask(named_past_nine)
    run = Forward(student, rng, [f"/cpu:{home}" for home in homes])
    says = f"`forward(model, x)` for layers with weights on {', '.join(map(str, run.homes))}"
    if run.right_without_activation:
        says += " and the activation 'relu' in every layer but the last"
        raise Misconception("activation_forgotten", f"{says} returned what `model(x)` does without its activations.")
    assert run.right, f"{says} returned something else than `model(x)` does."
    if weights := [name for name, _ in run.copies if name.startswith("weight")]:
        away = ", ".join(sorted({to for _, to in run.copies}))
        raise AssertionError(
            f"{says} made {len(weights)} copies of its {2 * len(homes)} weights (to {away}); the budget for weights is 0."
        )
    return run, says


# Device functions: the graph is built there under the student's function, and run here


KIND = {"new": "a VarHandleOp", "old": "a VariableV2", "product": "a Mul", "sum": "an AddV2", "negation": "a Neg"}
KIND |= {"copy": "an Identity", "constant": "a Const"}


def check_variables_on(student: Any, rng: np.random.Generator, kind: str) -> None:
    """Variables of `kind` must go to one device, everything else to another: none of them the notebook's, nor the default."""
    first, rest = (f"/cpu:{i}" for i in (rng.choice([1, 3]), 2))
    steps = shuffled(rng, [kind] * int(rng.integers(2, 4)) + list(OTHERS))
    graph = student.ask(built, maker="variables_on", arguments=[first, rest], steps=steps)
    places = went(graph, steps)
    variables = {places[name] for each, name, _ in steps if each == kind}
    others = {places[name] for each, name, _ in steps if each in OTHERS}
    swapped = variables == {device_of(rest)} and others == {device_of(first)}
    if swapped:
        says = "Variables and all the rest changed places; expected the variables on `first`."
        raise Misconception("swapped", says)
    stray = variables - {device_of(first), device_of(rest)}
    called = f"`variables_on({first!r}, {rest!r})`"
    assert not stray, f"Under {called} variables are on {', '.join(sorted(stray))}: neither `first` nor `rest`."
    for each, name, _ in steps:
        wanted = device_of(first if each == kind else rest)
        which = f"`first`, {wanted}" if each == kind else f"`rest`, {wanted}"
        assert places[name] == wanted, f"{name}, {KIND[each]}, went to {places[name]}; expected it on {which}."


@exercise("variables_on")
def test_resource_variables_are_kept_on_the_first_device(student, rng):
    check_variables_on(student, rng, "new")


@exercise("variables_on")
def test_old_style_variables_are_kept_there_too(student, rng):
    check_variables_on(student, rng, "old")


# round_robin


def check_turns(places: dict[str, str], steps: list[Step], devices: list[str], nth: str = "") -> None:
    """Variables must have taken turns over `devices`, in the order in which they were made; all else is left alone."""
    made = [(KIND[kind], name, places[name]) for kind, name, _ in steps if kind not in OTHERS]
    seen = [place for _, _, place in made]
    wanted = [device_of(devices[i % len(devices)]) for i in range(len(seen))]
    asked, pins = f"Under {nth}`round_robin({devices})`", {name: pin for _, name, pin in steps}
    if seen != wanted and len(set(seen)) == 1:
        says = f"{asked} all {len(seen)} variables went to {seen[0]}; expected them to take turns."
        raise Misconception("always_the_first", says)
    for kind in ("new", "old"):
        theirs = [places[name] for each, name, _ in steps if each == kind]
        others = {places[name] for each, name, _ in steps if each != kind and each not in OTHERS}
        if seen != wanted and theirs == wanted[: len(theirs)] and len(others) == 1:
            other = KIND["old" if kind == "new" else "new"]
            says = (
                f"{asked} every variable that is {other} stayed on {others.pop()}; expected both kinds to take turns."
            )
            raise Misconception(f"{kind}_ones_only", says)
    for i, (kind, name, place) in enumerate(made):
        before = f"the variable before it went to {seen[i - 1]}" if i else "it is the first variable"
        alone = "" if pins[name] is None else f" in a block for {pins[name]}"
        assert place == wanted[i], (
            f"{asked} {name}, {kind}{alone}, went to {place}, but {before}: the turn is {wanted[i]}'s."
        )
    for kind, name, pin in steps:
        alone = kind not in OTHERS or pin is None or places[name] == device_of(pin)
        assert alone, (
            f"{asked} {name}, {KIND[kind]} in a block for {pin}, ran on {places[name]}; expected it to keep its pin."
        )


def check_unpinned(graph: Any, steps: list[Step], devices: list[str]) -> None:
    """What is in no block must have no device in the graph: the session is to choose one."""
    device = {node.name: node.device for node in graph.node}
    for kind, name, pin in steps:
        assert kind not in OTHERS or pin or not device[name], (
            f"Under `round_robin({devices})` {name}, {KIND[kind]} in no block, was pinned to {device_of(device[name])}; "
            "expected it to have no pin, as before."
        )


@exercise("round_robin", weight=1)
def test_variables_take_turns(student, rng):
    devices = some_devices(rng, 3)
    steps = mixed_steps(rng, pin=False)
    graph = student.ask(built, maker="round_robin", arguments=[devices], steps=steps)
    check_turns(went(graph, steps), steps, devices)
    check_unpinned(graph, steps, devices)


@exercise("round_robin", weight=1)
def test_everything_else_is_left_alone(student, rng):
    devices = some_devices(rng, 2)
    steps = mixed_steps(rng, pin=True)
    graph = student.ask(built, maker="round_robin", arguments=[devices], steps=steps)
    check_turns(went(graph, steps), steps, devices)
    check_unpinned(graph, steps, devices)


@exercise("round_robin", weight=2)
def test_two_device_functions_do_not_share_their_turns(student, rng):
    devices = some_devices(rng, 3)
    for nth in ("", "a second "):  # eight variables over three devices: a count that is kept begins elsewhere
        steps = mixed_steps(rng, pin=True)
        graph = student.ask(built, maker="round_robin", arguments=[devices], steps=steps, again=bool(nth))
        check_turns(went(graph, steps), steps, devices, nth)


# soonest


@probe
def chosen(student, tasks, devices, copy):
    return student.soonest([student.Task(*task) for task in tasks], list(devices), copy)


def waiting(rng: np.random.Generator, copy: float) -> list[tuple[Any, ...]]:
    """A program whose last tasks have two inputs: copied side by side, the last to arrive decides, be it first or last."""
    short, long, both, again = names(rng, 4)
    ends = [(short, 1.0, ()), (long, 3.0 + copy, ())]
    return [*ends, (both, 0.5, (short, long)), (again, 1.0, (long, short))]


def tied(rng: np.random.Generator, copy: float) -> list[tuple[Any, ...]]:
    """A program whose last task ends as soon on each of three devices: busy least is the third, with its input the second."""
    long, short, third, more, most, last = names(rng, 6)
    apart = [(long, 5.0, ()), (short, 1.0, ()), (third, 1.0, ()), (more, 4.0, ())]
    return [*apart, (most, copy, (more,)), (last, 1.0, (more,))]


def check_soonest(
    student: Any, tasks: list[tuple[Any, ...]], devices: list[str], copy: float, *, ties: bool, tells: bool = True
) -> None:
    """Go through the placement task by task: could this one have ended sooner, given where those before it are?

    With `ties`, of devices where it ends as soon the first must have been taken; without, any will do. `tells`: each
    known misconception gives an answer of its own.
    """
    got = student.ask(chosen, tasks=tasks, devices=devices, copy=copy)
    got = dict_of().named("a dictionary from name to device")(got, "`soonest` returned")
    for name, _, _ in tasks:
        assert name in got, f"`soonest` says nothing about {name!r}; expected a device for every task."
        one_of(devices).named("one of the devices given")(got[name], f"{name!r} is put on")
    got = {name: got[name] for name, _, _ in tasks}
    late = misplaced(tasks, devices, copy, got, ties=ties)
    if late is None:
        return
    i, best, ends = late
    name = tasks[i][0]
    text = ", ".join(f"Task({n!r}, {s:g}, {inputs!r})" for n, s, inputs in tasks[: i + 1])  # as short as it goes wrong
    asked = (
        f"`soonest([{text}], {devices}, {copy:g})`: you put {name!r} on {got[name]}, "
        f"where it ends after {ends[got[name]]:g} s; "
    )
    asked += (
        f"on {best} it ends after {ends[best]:g} s."
        if ends[best] != ends[got[name]]
        else f"on {best}, listed earlier, it ends then, too."
    )
    if len(tasks[i][2]) > 1 and ends[best] != ends[got[name]]:
        asked += " Its inputs are copied side by side; the last to arrive decides."
    known = {
        "copies_are_free": (greedy(tasks, devices, 0.0), "copies are free, but a copy takes time"),
        "free_soonest": (greedy(tasks, devices, copy, by="free"), "the device that is free soonest is taken"),
        "whole_schedule": (greedy(tasks, devices, copy, by="all"), "all tasks so far are to end soonest, not this one"),
        "last_of_a_tie": (greedy(tasks, devices[::-1], copy), "on a tie the last device is taken, not the first"),
        "two_devices_only": (greedy(tasks, devices[:2], copy), "there are the first two devices only"),
    }
    for misconception, (choice, says) in known.items():
        if tells and got == choice:
            raise Misconception(misconception, f"{asked} Your answer would be right if {says}.")
    raise AssertionError(asked)


@exercise("soonest", weight=1)
def test_every_task_ends_as_soon_as_it_can(student, rng):
    devices = some_devices(rng, 3)
    check_soonest(student, telling(rng, devices, 1.0, 6), devices, 1.0, ties=False)
    check_soonest(student, waiting(rng, 1.0), devices, 1.0, ties=False, tells=False)


@exercise("soonest", weight=1)
def test_copies_count(student, rng):
    devices, copy = some_devices(rng, 4), float(rng.integers(2, 4))
    check_soonest(student, telling(rng, devices, copy, 7), devices, copy, ties=False)
    check_soonest(student, waiting(rng, copy), devices, copy, ties=False, tells=False)


@exercise("soonest", weight=2)
def test_a_tie_goes_to_the_device_listed_first(student, rng):
    for count in rng.permutation([3, 4]):
        devices, copy = some_devices(rng, int(count)), float(rng.integers(1, 3))
        check_soonest(student, telling(rng, devices, copy, 8), devices, copy, ties=True)
        check_soonest(student, waiting(rng, copy), devices, copy, ties=True, tells=False)
    devices = sorted(some_devices(rng, 3))[::-1]  # the first is not the first by name
    check_soonest(student, tied(rng, 2.0), devices, 2.0, ties=True, tells=False)
