"""Trusted checks of chapter 14: a step against one device's, a line, predictions by the model, a plan by its rules."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import scaling_truth as truth
from across import planned
from across.expecting import Expected, anything, array, between, list_of, number, row, text
from autograder.probe.asking import Misconception, exercise

# replica_step


def check_step(student: Any, rng: np.random.Generator, shares: list[int]) -> None:
    """Two steps of a small network of three layers on `shares`, against one device that has all examples."""
    widths, rate = [6, *(int(each) for each in rng.integers(6, 9, size=2)), 10], 0.25  # 10 classes, as said
    weights = [rng.normal(size=shape).astype(np.float32) for shape in itertools.pairwise(widths)]
    parts = [
        (rng.normal(size=(share, 6)).astype(np.float32), rng.integers(0, widths[-1], size=share)) for share in shares
    ]
    batch = sum(shares)
    answer = student.ask(truth.traced, shapes=[list(w.shape) for w in weights], shares=shares, batch=batch, rate=rate)
    losses, copies, wrong_kind = truth.descended(answer, weights, parts, 2)
    call = f"With shares of {' and '.join(map(str, shares))} examples, `replica_step(w, x, y, {batch}, {rate})`"
    assert not wrong_kind, f"{call} returned {'None' if wrong_kind == 'NoneType' else f'a {wrong_kind}'}."
    losses = list_of(list_of(array(), len(shares)), 2)(losses, "The losses are")
    assert all(each.size == 1 for step in losses for each in step), f"{call} returned no single number."
    kinds = [list_of(array(each.shape), len(shares)) for each in weights]
    copies = [
        kind(kept, "The copies are")
        for kind, kept in zip(kinds, row(*[anything] * 3)(copies, "The weights are"), strict=True)
    ]
    own, after = truth.one_device(weights, parts, rate, 2)
    right = [sum(each) for each in own]
    got = [float(sum(each.sum() for each in step)) for step in losses]

    def near(one: Any, other: Any) -> bool:
        return bool(np.allclose(one, other, rtol=1e-3, atol=1e-3))

    def alike(copies: Any, wanted: Any) -> bool:
        return all(near(kept[0], each) for kept, each in zip(copies, wanted, strict=True))

    apart = max(float(np.ptp(np.stack(kept), axis=0).max()) for kept in copies)
    if apart > 1e-3:
        raise Misconception(
            "no_exchange", f"{call}: the copies of a weight differ; expected all to take the same step."
        )
    assert not alike(copies, weights), f"{call} leaves the weights as they are; expected a step."
    for name, words in {
        "sum": "the loss is a sum; expected a mean over all examples.",
        "replica_means": "it adds means of the shares; expected to divide by all examples.",
        "mean_of_means": "each replica counts the same, however few examples it has.",
    }.items():
        moved = truth.one_device(weights, parts, rate, 2, name)[1]
        if alike(copies, moved) and not all(near(one, other) for one, other in zip(moved, after, strict=True)):
            raise Misconception(name, f"{call}: {words}")
    for name, factor, words in (
        ("uphill", -1.0, "the step goes uphill: subtract."),
        ("mean_of_gradients", 1 / len(shares), "the gradients' parts are averaged over replicas; expected their sum."),
        ("without_rate", 1 / rate, "the whole gradient was subtracted; expected `rate` times it."),
    ):
        moved = truth.one_device(weights, parts, rate * factor, 2)[1]
        if factor != 1.0 and alike(copies, moved):
            raise Misconception(name, f"{call}: {words}")
    for i, (kept, before) in enumerate(zip(copies, weights, strict=True)):
        if near(kept[0], before) and not near(after[i], before):
            raise Misconception("layer_left_out", f"{call}: `w[{i}]` stays as it is; expected a step of all of `w`.")
    for name in ("first_layer_first", "last_layer_first"):
        if alike(copies, truth.one_device(weights, parts, rate, 2, name)[1]) and not alike(copies, after):
            says = "takes the gradient of a layer after another layer has moved; expected all gradients first, then one step."
            raise Misconception("layer_by_layer", f"{call} {says}")
    assert alike(copies, after), f"{call}: the weights are not those that one device has after two steps."
    if len(shares) > 1 and near(got, [len(shares) * each for each in right]):
        raise Misconception("whole_loss", f"{call}: each replica returns the whole loss; expected its own part.")
    says = f"{call}: the parts of the loss add up to {got[0]:.4g}"
    assert near(got, right), f"{says}; expected the mean over all {batch} examples."
    for k, (part, wanted) in enumerate(zip(losses[0], own[0], strict=True)):
        if not near(part.sum(), wanted):
            says = f"replica {k} returned {part.sum():.4g}; its own examples' part of the loss is {wanted:.4g}."
            raise Misconception("an_equal_part", f"{call}: {says}")


@exercise("replica_step")
def test_one_replica_descends(student, rng):
    check_step(student, rng, [int(rng.integers(5, 9))])


@exercise("replica_step", 2.0)
def test_many_replicas_do_what_one_device_does(student, rng):
    check_step(student, rng, [int(rng.integers(6, 9)), int(rng.integers(1, 3))])
    check_step(student, rng, [int(each) for each in rng.permutation([2, 3, 7])])


# calibrate

PAIR = row(number, number).named("two numbers: fixed, example")


def check_lines(student: Any, cases: list[tuple[list[float], list[float]]]) -> None:
    """The line of each case."""
    asked = list(student.call("calibrate", cases, returns=PAIR))

    def near(got: Any, wanted: Any) -> bool:
        return bool(np.allclose(got, wanted, rtol=2e-3, atol=1e-9))

    right = [truth.line(*case) for case, _ in asked]
    for (case, got), wanted in zip(asked, right, strict=True):
        if near(got, wanted):
            continue
        says = f"`calibrate` of {len(case[0])} runs returned fixed {got[0]:.4g}, example {got[1]:.4g}"
        name = truth.known(
            WRONG_LINES, lambda name: all(near(g, truth.other_lines(*c).get(name, (math.nan,) * 2)) for c, g in asked)
        )
        if name:
            raise Misconception(name, f"{says}: {WRONG_LINES[name]}")
        raise AssertionError(f"{says}; another line has a smaller sum of squared distances.")


WRONG_LINES = {
    "swapped": "these are swapped; expected fixed, then example.",
    "through_zero": "that line is forced through zero; a step has a fixed cost.",
    "mean_rate": "that is the mean of seconds over examples; a step has a fixed cost.",
    "smallest_and_largest": "that line goes through two of the runs; all of them count.",
    "means_of_batches": "each batch counts once there, however often it was run; expected each run to count.",
    "medians_of_batches": "that is a line through medians; expected each run to count.",
    "other_way_round": "that line makes the distances in examples small; expected those in seconds.",
    "sorted_apart": "batches and seconds were sorted apart; a run's seconds belong to its batch.",
    "outliers_dropped": "runs far from the others were dropped; all of them count.",
    "outliers_of_all_dropped": "runs far from the others were dropped; all of them count.",
}


def drawn_runs(rng: np.random.Generator, noise: float) -> tuple[list[float], list[float]]:
    """Batches, some several times, in any order, and seconds near a line; with noise, one of two runs of 128 is far off."""
    batches = [float(each) for each in rng.permutation([64, 64, 64, 128, 128, 256, 256, 512, 512, 512, 1024])]
    fixed, example = rng.uniform(0.05, 0.2), rng.uniform(1e-4, 4e-4)
    seconds = [float(fixed + example * b + noise * rng.normal()) for b in batches]
    seconds[batches.index(128.0)] += 100 * noise
    return batches, seconds


@exercise("calibrate")
def test_runs_on_a_line(student, rng):
    check_lines(student, [drawn_runs(rng, 0.0) for _ in range(3)])


@exercise("calibrate", 2.0)
def test_runs_beside_a_line(student, rng):
    batches, seconds = drawn_runs(rng, 0.02)  # one run twice, and a line that is below zero at no examples
    below = [*batches, batches[0]], [each - 3.0 for each in (*seconds, seconds[0])]
    check_lines(student, [*(drawn_runs(rng, 0.02) for _ in range(3)), below])


# speedup


def drawn_machine(rng: np.random.Generator, cores: int, **changes: float) -> truth.Machine:
    drawn = {
        "cores": cores,
        "size": float(rng.integers(10, 90)) * 1e6,
        "gradients": int(rng.integers(3, 9)),
        "latency": float(rng.integers(1, 5)) / 100,
        "fixed": float(rng.integers(3, 9)) / 1000,
        "example": float(rng.integers(1, 5)) / 10_000,
    }
    return {**drawn, **changes}


def run_of(rng: np.random.Generator, way: str, replicas: int, batch: int, **changes: Any) -> truth.Run:
    """A run at a rate of its own: what crosses takes about as long as the work."""
    drawn = {"way": way, "replicas": replicas, "batch": batch, "packs": 1, "table": 0, "slow": 0.0}
    return {**drawn, "rate": float(rng.integers(2, 9)) * 1e8, **changes}


def check_speedups(student: Any, cases: list[tuple[truth.Run, truth.Run, truth.Machine]]) -> None:
    asked = list(student.call("speedup", cases, returns=number, before=said_of))

    def fits(wrong: str) -> bool:
        return all(math.isclose(got, truth.predicted(*case, wrong=wrong), rel_tol=1e-5) for case, got in asked)

    if fits(""):
        return
    name = truth.known(truth.MISREAD, fits)
    for case, got in asked:
        wanted = truth.predicted(*case)
        if not math.isclose(got, wanted, rel_tol=1e-5):
            says = f"{said_of(case)} {got:.4g}"
            if name:
                raise Misconception(name, f"{says}: {truth.MISREAD[name]}")
            raise AssertionError(f"{says}; the model says {wanted:.4g}.")


def odd(rng: np.random.Generator) -> int:
    """A batch whose shares for 2, 4 or 8 replicas are no whole numbers."""
    return 2 * int(rng.integers(20, 250)) + 1


def said_of(case: Any) -> str:
    run, base, machine = case
    return f"`speedup({run}, {base}, {{'cores': {machine['cores']}, ...}})` returned"


WAYS = ("all-reduce", "servers", "gpus")


@exercise("speedup", 2.0)
def test_work_is_shared_where_nothing_crosses(student, rng):
    nothing = {"size": 0.0, "latency": 0.0}
    counts = [(way, n) for way in WAYS for n in (1, 2, 4)] + [("all-reduce", 3), ("servers", 5), ("all-reduce", 8)]
    check_speedups(
        student,
        [
            (
                run_of(rng, way, n, odd(rng)),
                run_of(rng, "all-reduce", 1, odd(rng)),
                drawn_machine(rng, cores, **nothing),
            )
            for cores in (2, 8)
            for way, n in counts
        ],
    )


def crowded(run: truth.Run) -> bool:
    """Whether a run is asked on two cores, whatever is drawn: of each way one is."""
    return run["replicas"] in (3, 5) or (run["way"] == "gpus" and run["replicas"] == 4)


@exercise("speedup", 3.0)
def test_each_way_sends_what_it_sends(student, rng):
    slow, rows = float(rng.integers(2, 9)) / 10, int(rng.integers(1, 9)) * 10_000
    drawn = [
        *[("all-reduce", n, changes) for n, changes in ((2, {}), (5, {"slow": slow}), (4, {"table": rows}), (8, {}))],
        *[(way, 1, {"slow": slow}) for way in ("all-reduce", "servers")],
        *[("gpus", n, {"packs": packs}) for n in (1, 2, 4) for packs in (0, 1)],
        *[("servers", n, changes) for n, changes in ((1, {}), (2, {}), (3, {"slow": slow}), (4, {"table": rows}))],
    ]
    pairs = [
        (run_of(rng, way, n, odd(rng), **changes), run_of(rng, "all-reduce", 1, odd(rng))) for way, n, changes in drawn
    ]
    pairs += [(base, run) for run, base in pairs[:2]]
    cases = [(run, base, drawn_machine(rng, 2 if crowded(run) else int(rng.choice([2, 8])))) for run, base in pairs]
    rows_alone = run_of(rng, "servers", 2, odd(rng), table=rows), run_of(rng, "all-reduce", 1, odd(rng))
    check_speedups(student, [*cases, (*rows_alone, drawn_machine(rng, 8, size=0.0))])


# chance


def check_chances(student: Any, cases: list[list[float]]) -> None:
    asked = list(student.call("chance", [[case] for case in cases], returns=between(-1e9, 1e9)))

    def fits(wrong: str) -> bool:
        return all(math.isclose(got, truth.unevenly(case, wrong), abs_tol=1e-6) for (case,), got in asked)

    if fits(""):
        return
    name = truth.known(truth.MISCOUNTED, fits)
    for (case,), got in asked:
        wanted = truth.unevenly(case)
        if not math.isclose(got, wanted, abs_tol=1e-6):
            says = f"`chance({case})` returned {got:.4g}"
            if name:
                raise Misconception(name, f"{says}: {truth.MISCOUNTED[name]}")
            count = sum(ratio != 1 for ratio in case)
            raise AssertionError(
                f"{says}; of the {2**count} ways of {count} coins, {wanted * 2**count:g} are as uneven."
            )


def drawn_ratios(rng: np.random.Generator, above: int, below: int, ties: int = 0) -> list[float]:
    """Ratios; of each side two that are close to 1, and equal; ratios of exactly 1 if wanted."""
    found = [*_side(rng, above, 1.06, 2.0, 1.02), *_side(rng, below, 0.5, 0.94, 0.98), *[1.0] * ties]
    return [float(each) for each in rng.permutation(found)]


def _side(rng: np.random.Generator, count: int, low: float, high: float, close: float) -> list[float]:
    return [close, close, *(round(float(each), 2) for each in rng.uniform(low, high, size=count))][:count]


@exercise("chance")
def test_all_on_one_side(student, rng):
    counts = [int(each) for each in rng.choice(range(3, 10), size=2, replace=False)]
    check_chances(student, [drawn_ratios(rng, counts[0], 0), drawn_ratios(rng, 0, counts[1]), drawn_ratios(rng, 1, 0)])


@exercise("chance", 2.0)
def test_some_on_each_side(student, rng):
    cases = [(6, 1, 0), (2, 7, 0), (3, 3, 0), (5, 2, 2), (1, 4, 1), (0, 0, 2), (0, 0, 0)]
    check_chances(student, [drawn_ratios(rng, *case) for case in cases])


# plan, follow_up: what was handed in, by the rules of the notebook's own check


def decided(fault: planned.Fault | None, answer: str) -> None:
    """Raise what is wrong."""
    if fault is not None:
        raise Misconception(fault.name, f"`{answer}`: {fault.says}.")


def handed(student: Any, name: str, kind: Expected) -> Any:
    """The value of that name, as the notebook's check reads it."""
    return kind(student.ask(truth.handed_in, name=name), f"`{name}` is")


PLANNED = (planned.within_budget, planned.controlled, planned.contrasted)


@exercise("plan", 3.0)
def test_the_plan_can_answer_its_question(student):
    plan = handed(student, "plan", planned.PLAN)
    decided(next(filter(None, (rule(plan) for rule in PLANNED)), None), "plan")


@exercise("plan")
def test_the_plan_has_repeats_enough_within_its_budget(student):
    decided(planned.within_budget(handed(student, "plan", planned.PLAN)), "plan")


@exercise("plan")
def test_the_plan_has_a_control(student):
    decided(planned.controlled(handed(student, "plan", planned.PLAN)), "plan")


@exercise("plan")
def test_two_configurations_of_the_plan_answer_its_question(student):
    decided(planned.contrasted(handed(student, "plan", planned.PLAN)), "plan")


@exercise("follow_up")
def test_the_follow_up_changes_one_thing_and_can_refute(student):
    plan, then = handed(student, "plan", planned.PLAN), handed(student, "follow_up", planned.FOLLOW_UP)
    decided(planned.one_thing(plan, then) or planned.tells(plan, then), "follow_up")


def parts(student: Any) -> tuple[Any, Any, Any]:
    """The plan, its follow-up, and the record of both, which the student's own process wrote."""
    record = planned.recorded(handed(student, "record", text))
    return handed(student, "plan", planned.PLAN), handed(student, "follow_up", planned.FOLLOWED), record


@exercise("record", weak=True)
def test_by_the_record_each_was_stated_before_it_was_measured(student):
    plan, then, record = parts(student)
    decided(planned.stated_first(record, plan) or planned.followed(record, plan, then), "record")
    decided(planned.side_by_side(record) or planned.ran(record, plan, then, truth.first_loss), "record")


@exercise("record")
def test_the_runs_of_the_record_saw_their_own_data(student):
    plan, then, record = parts(student)
    decided(planned.stated_first(record, plan) or planned.followed(record, plan, then), "record")
    decided(planned.ran(record, plan, then, truth.first_loss), "record")
