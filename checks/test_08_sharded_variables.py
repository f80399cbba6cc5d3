"""Trusted checks of chapter 08: bytes and balance are computed from what was built, graphs are run on servers of our own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import between, list_of, shown, whole
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded
from sharded_truth import SCALARS, OnWorker, Rows, Sharded, Step

Measure = Callable[[list[int], str], float]  # of a variable, by its shape and dtype
BYTES = {"float16": 2, "float32": 4, "float64": 8, "int64": 8, "uint8": 1}


def bytes_of(shape: list[int], dtype: str) -> float:
    return math.prod(shape) * BYTES[dtype]


# on_worker


def check_homes(forward: OnWorker) -> None:
    """Each variable is on the ps whose turn it is."""
    turns = [f"ps:{place % forward.ps}" for place in range(len(forward.homes))]
    if forward.homes == turns:
        return
    says = f"{forward.says} put the variables on {', '.join(forward.homes)}; expected turns over the {forward.ps} ps"
    for ps in (1, 2):
        if ps < forward.ps and forward.homes == [f"ps:{place % ps}" for place in range(len(turns))]:
            raise Misconception(f"{ps}_servers", f"{says}: {ps} of them took turns.")
    if set(forward.homes) == {f"ps:{forward.index}"}:
        raise Misconception("task_for_all", f"{says}; all have the task of the worker, in the job of the ps.")
    if not any(home.startswith("ps:") for home in forward.homes):
        raise Misconception("not_on_a_ps", f"{says}; none is on a ps.")
    raise AssertionError(f"{says}.")


@exercise("on_worker")
def test_variables_take_turns_over_two_servers(student, rng):
    forward = OnWorker(student, rng, ps=2, index=1)
    check_homes(forward)
    assert forward.right, f"{forward.says} did not return the output of the model."


@exercise("on_worker")
def test_as_many_servers_as_the_cluster_has_and_one_worker_computes(student, rng):
    for index in rng.permutation([1, 2]):
        forward = OnWorker(student, rng, ps=3, index=int(index))
        check_homes(forward)
        for kind, ran in forward.elsewhere:
            if kind in forward.left_open and ran == forward.master:
                says = f"{forward.says} left {kind} to the session's master, {ran}; expected worker:{index}."
                raise Misconception("the_masters_worker", says)
            assert ran == f"worker:{index}", f"{forward.says} had {kind} run on {ran}; expected worker:{index}."


# guesses

test_both_times_are_recorded = recorded("guesses", dict.fromkeys((2, 3), between(0, 1000).named("a number of seconds")))


# sends

Variable = tuple[str, list[int], str]  # device, shape, dtype


@probe
def sent(student, variables, ps, workers):
    with tf.Graph().as_default():
        made = []
        for number, (device, shape, dtype) in enumerate(variables):
            with tf.device(device):
                made.append(tf.compat.v1.get_variable(f"w{number}", shape, tf.as_dtype(dtype), use_resource=True))
        return student.sends(made, ps, workers)


SPELLINGS = (
    "/job:ps/task:{}",
    "/job:ps/replica:0/task:{}/device:CPU:0",
    "/job:ps/replica:0/task:{}",
    "/job:ps/task:{}/cpu:0",
)


def _on(device: str) -> tuple[str, int]:
    return device.removeprefix("/job:").split("/")[0], int(device.split("/task:")[1].split("/")[0])


def summed(variables: Sequence[Variable], ps: int, size: Measure, jobs: Sequence[str] = ("ps",)) -> list[float]:
    """The sum of `size` of the variables on each server."""
    total = [0.0] * ps
    for device, shape, dtype in variables:
        job, task = _on(device)
        if job in jobs and task < ps:
            total[task] += size(shape, dtype)
    return total


def check_sends(student: Any, variables: list[Variable], ps: int, workers: int) -> None:
    """Compare the bytes with those of the variables, once for each worker."""
    says = f"`sends(variables, {ps}, {workers})`"
    answer = student.ask(sent, variables=variables, ps=ps, workers=workers)
    got = list_of(whole, ps)(answer, f"{says} returned")
    right = summed(variables, ps, bytes_of)
    if got == [workers * size for size in right]:
        return
    both = ("ps", "worker")
    wrong = {
        "one_worker": (right, "each of the workers pulls each variable"),
        "gradients_too": ([2 * workers * size for size in right], "gradients are sent by the workers"),
        "worker_counted": (
            [workers * size for size in summed(variables, ps, bytes_of, both)],
            "variables on a worker do not count",
        ),
        "elements": (
            [workers * size for size in summed(variables, ps, lambda shape, _: math.prod(shape))],
            "these are numbers, not bytes",
        ),
        "always_4": (
            [workers * size for size in summed(variables, ps, lambda shape, _: 4 * math.prod(shape))],
            "not every dtype has 4 bytes",
        ),
        "variables": (
            [workers * size for size in summed(variables, ps, lambda *_: 1)],
            "these are variables, not bytes",
        ),
    }
    place = next(i for i, size in enumerate(right) if got[i] != workers * size)
    there = [f"{dtype} of shape {shape}" for device, shape, dtype in variables if _on(device) == ("ps", place)]
    says += f" returned {got[place]} for ps:{place}, which has {', '.join(there) or 'no variable'}"
    for name, (known, why) in wrong.items():
        if got == known:
            raise Misconception(name, f"{says}; {why}.")
    raise AssertionError(f"{says}; expected another number of bytes.")


def drawn_variables(rng: np.random.Generator, ps: int, dtypes: Sequence[str], count: int) -> list[Variable]:
    """Variables on all servers but the last, and on workers; named in every way, of them a scalar and a matrix."""
    busy = [int(task) for task in rng.permutation(ps - 1)]
    tasks = [*busy, *reversed(busy), *busy][:count]  # of few servers each is named in more than one way
    first = int(rng.integers(len(SPELLINGS)))
    found: list[Variable] = []
    for number, task in enumerate(tasks):
        axes = {0: 2, 1: 0}.get(number, int(rng.integers(1, 4)))
        shape = [int(length) for length in rng.integers(2, 7, size=axes)]
        name = SPELLINGS[(first + number) % len(SPELLINGS)].format(task)
        found.append((name, shape, str(dtypes[number % len(dtypes)])))
    found += [
        ("/job:worker/task:0", [int(rng.integers(2, 9))], "float32"),
        (f"/job:worker/task:{busy[0]}", [3], "float64"),
    ]
    return [found[i] for i in rng.permutation(len(found))]


@exercise("sends")
def test_each_worker_pulls_every_variable_of_a_server(student, rng):
    workers = int(rng.integers(2, 4))  # with 4 the numbers that all send would be the bytes that one sends
    check_sends(student, drawn_variables(rng, 3, ["float32"], 5), 3, workers)


@exercise("sends")
def test_any_dtype_and_servers_of_two_digits(student, rng):
    ps = int(rng.integers(12, 15))  # of these the last has no variable, so that ps:10 has one
    check_sends(
        student,
        drawn_variables(rng, ps, ["float32", "float64", "float16", "uint8"], ps + 3),
        ps,
        int(rng.integers(2, 5)),
    )


# balancing

Sized = tuple[list[int], str]  # shape, dtype


@probe
def balanced(student, models, together):
    strategies = [student.balancing(ps) for ps, _ in models]
    found = [[] for _ in models]
    steps = [(i, n) for i, (_, variables) in enumerate(models) for n in range(len(variables))]
    if together:
        steps.sort(key=lambda step: step[1])
    with tf.Graph().as_default():
        for i, n in steps:
            shape, dtype = models[i][1][n]
            setter = tf.compat.v1.train.replica_device_setter(ps_tasks=models[i][0], ps_strategy=strategies[i])
            with tf.compat.v1.device(setter):
                op = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=f"v{i}_{n}").op
            found[i].append(tf.DeviceSpec.from_string(op.device).task)
    return found


MEASURES: dict[str, tuple[Measure, str]] = {
    "counts_variables": (lambda *_: 1, "you count variables"),
    "counts_elements": (lambda shape, _: math.prod(shape), "you count numbers, and not all have the same bytes"),
    "counts_rows": (lambda shape, _: shape[0] if shape else 1, "you count the first axis only"),
    "counts_lengths": (lambda shape, _: sum(shape), "you add the lengths of the axes"),
}


def greedy_until(went: Sequence[int], variables: Sequence[Sized], ps: int, measure: Measure) -> int:
    """How many of the variables went to a server that had the least by `measure` then."""
    had = [0.0] * ps
    for place, (task, (shape, dtype)) in enumerate(zip(went, variables, strict=True)):
        if had[task] > min(had):
            return place
        had[task] += measure(shape, dtype)
    return len(variables)


def greedy(variables: Sequence[Sized], ps: int, measure: Measure, last: bool, adds: bool = True) -> list[int]:
    """Where the variables go by that measure, of equal servers to the first or the `last`; who never `adds` forgets."""
    had, went = [0.0] * ps, []
    for shape, dtype in variables:
        ties = [task for task in range(ps) if had[task] == min(had)]
        went.append(ties[-1 if last else 0])
        had[went[-1]] = measure(shape, dtype) + adds * had[went[-1]]
    return went


def telling(rng: np.random.Generator, ps: int, dtypes: Sequence[str]) -> list[Sized]:
    """Variables for which each of the wrong measures soon leads to a server that has not the fewest bytes."""
    while True:
        shapes = [[int(size) for size in rng.integers(1, 12, size=rng.integers(1, 4))] for _ in range(4 * ps + 3)]
        found: list[Sized] = [(shape, str(rng.choice(dtypes))) for shape in [[], *shapes]]
        measures = [measure for name, (measure, _) in MEASURES.items() if len(dtypes) > 1 or name != "counts_elements"]
        wrong = [greedy(found, ps, measure, last) for measure in measures for last in (False, True)]
        wrong += [greedy(found, ps, bytes_of, last, adds=False) for last in (False, True)]
        wrong += [[(place + first) % ps for place in range(len(found))] for first in range(ps)]
        if all(greedy_until(each, found, ps, bytes_of) < len(found) // 2 for each in wrong):
            return found


def share_their_state(led: Sequence[tuple[tuple[int, list[Sized]], list[int]]], together: bool) -> bool:
    """Whether every variable went where the fewest bytes of *all* models were."""
    steps = [(i, n) for i, (_, went) in enumerate(led) for n in range(len(went))]
    had = [0.0] * max(ps for (ps, _), _ in led)
    for i, n in sorted(steps, key=lambda step: step[1]) if together else steps:
        (ps, variables), went = led[i]
        if had[went[n]] > min(had[:ps]):
            return False
        had[went[n]] += bytes_of(*variables[n])
    return True


def check_balancing(student: Any, models: list[tuple[int, list[Sized]]], together: bool) -> None:
    """Follow each model's variables: does every one go to a server that has the fewest bytes?"""
    answers = student.ask(balanced, models=models, together=together)
    led = list(each_answer(answers, models, list_of(whole), "`balancing` led to the servers"))
    for (ps, variables), went in led:
        assert len(went) == len(variables) and all(0 <= task < ps for task in went), (
            f"The function of `balancing({ps})` led to the servers {shown(went)}; expected numbers from 0 to {ps - 1}."
        )
    for (ps, variables), went in led:
        stop = greedy_until(went, variables, ps, bytes_of)
        if stop == len(variables):
            continue
        had = [0] * ps
        for task, (shape, dtype) in zip(went[:stop], variables[:stop], strict=True):
            had[task] += int(bytes_of(shape, dtype))
        shape, dtype = variables[stop]
        says = f"`balancing({ps})`: variable {stop}, of shape {shape} and {dtype}, went to ps:{went[stop]}"
        says += f", when the servers had {had} bytes"
        for name, (measure, why) in MEASURES.items():
            if greedy_until(went, variables, ps, measure) == len(variables):
                raise Misconception(name, f"{says}; {why}.")
        if share_their_state(led, together):
            says += "; those of another function of `balancing` are counted, too"
        raise AssertionError(f"{says}.")


@exercise("balancing")
def test_each_variable_goes_where_the_fewest_bytes_are(student, rng):
    check_balancing(student, [(ps, telling(rng, ps, ["float32"])) for ps in (2, 4)], together=False)


@exercise("balancing", weight=2)
def test_bytes_of_any_dtype_count(student, rng):
    ps = int(rng.integers(2, 5))
    check_balancing(student, [(ps, telling(rng, ps, ["float32", "float64", "uint8", "float16"]))], together=False)


@exercise("balancing")
def test_two_functions_know_nothing_of_each_other(student, rng):
    check_balancing(student, [(ps, telling(rng, ps, ["float32"])) for ps in (3, 2)], together=True)


# lookup


def check_rows(student: Any, rng: np.random.Generator, lengths: list[int], ids: list[int]) -> None:
    """The right rows, and from each server no more bytes than those that were asked of it."""
    found, parts = Rows(student, rng, lengths, ids), len(lengths)
    starts = np.cumsum([0, *lengths])
    by_turns = [int(min(starts[i % parts] + i // parts, starts[-1] - 1)) for i in ids]
    if not found.gives(ids):
        if found.gives(by_turns):
            raise Misconception("mod", f"{found.says} gave other rows: it looked for row i in part i mod {parts}.")
        wanted = (len(ids), found.table.shape[1])
        assert found.value.shape == wanted, (
            f"{found.says} gave numbers of shape {found.value.shape}; expected {wanted}."
        )
        raise AssertionError(f"{found.says} gave other rows than those of the table.")
    for server, count in found.asked.items():
        sent = found.total.get(server, 0)
        assert sent <= count * found.row_bytes, (
            f"{found.says} had {server} send {sent} bytes; the {count} rows asked of it have {count * found.row_bytes}."
        )


@exercise("lookup")
def test_rows_come_from_their_own_part(student, rng):
    length = int(rng.integers(4, 7))
    lengths = [length + 1, length, length]  # nobody finds these by the length of the first part, or of the last
    order = [1, length, length + 1, 2 * length, 2 * length + 2, 3 * length, 1]
    check_rows(student, rng, lengths, [order[i] for i in rng.permutation(len(order))])


@exercise("lookup")
def test_a_server_sends_only_the_rows_asked_of_it(student, rng):
    length = int(rng.integers(4, 7))
    check_rows(
        student, rng, [length + 1, length, length], [2 * length + 2, 0, length, 2 * length + 2]
    )  # none of the second
    lengths = [length + 1, length + 1, length]
    order = [
        0,
        1,
        length,
        length + 1,
        2 * length + 1,
        3,
        3,
    ]  # first and last rows of parts, one twice; none of the third
    check_rows(student, rng, lengths, [order[i] for i in rng.permutation(len(order))])


# train_step


def check_step(step: Step) -> None:
    """The loss, and what the weights lost; what is wrong is told by what it is."""
    if not step.right_loss:
        known = {"sum": np.sum(step.error**2), "root": np.sqrt(np.mean(step.error**2))}
        for name, value in known.items():
            if step.value.shape == () and np.isclose(step.value, value, rtol=1e-4):
                raise Misconception(
                    f"{name}_of_squares", f"{step.says} returned the {name} of the squares; expected their mean."
                )
        got = shown(step.value.tolist())
        raise AssertionError(f"{step.says} returned {got}; the mean squared error before the step was {step.loss:.6g}.")
    if step.moved(1.0):
        return
    still = step.still()
    assert len(still) < len(step.weights), f"{step.says} changed no weight."
    moved, still = sorted(set(step.frozen) - set(still)), [name for name in still if name not in step.frozen]
    if moved:
        says = f"{step.says} changed {', '.join(moved)} of a layer that is not trainable; expected it left as it is."
        raise Misconception("frozen_too", says)
    assert not still, f"{step.says} did not change {', '.join(still)}; expected a step for each variable."
    if step.moved(-1.0):
        raise Misconception("uphill", f"{step.says} added the gradients: a step uphill.")
    if step.moved(1.0, rate=1.0):
        raise Misconception("without_rate", f"{step.says} subtracted the gradients, without the rate {step.rate}.")
    says = f"{step.says} did not subtract {step.rate} times the gradient of the loss from each weight"
    if step.falls_short():
        raise AssertionError(f"{says}: they went the right way, but not as far.")
    raise AssertionError(f"{says}.")


@exercise("train_step")
def test_each_weight_takes_a_step_down(student, rng):
    check_step(Step(student, rng, [int(rng.integers(3))] * 2))
    check_step(Step(student, rng, [int(rng.integers(3))] * 3, frozen=[int(rng.integers(2))]))


@exercise("train_step")
def test_the_worker_computes_and_weights_and_gradients_travel_once(student, rng):
    step = Step(student, rng, [int(place) for place in rng.permutation(3)])
    check_step(step)
    if step.readers != {step.task}:
        there = ", ".join(sorted(step.readers))
        says = f"{step.says} multiplied matrices on {there}; expected {step.task}"
        if step.task not in step.readers:
            raise AssertionError(f"{says}.")
        raise Misconception("gradients_elsewhere", f"{says} alone, for the gradients, too.")
    for server, size in step.bytes_of.items():
        down, up = step.sent.get((server, step.task), 0), step.sent.get((step.task, server), 0)
        assert size <= down <= size + SCALARS, (
            f"{step.says} had {server} send {down} bytes to {step.task}; its weights have {size}."
        )
        by_master = step.sent.get((step.master, server), 0)
        if by_master > SCALARS:
            says = f"{step.says} sent {by_master} bytes of updates to {server} from {step.master}, where nobody should compute."
            raise Misconception("updates_elsewhere", says)
        assert size <= up <= size + SCALARS, (
            f"{step.says} had {step.task} send {up} bytes to {server}; its gradients have {size}."
        )
    for (source, target), size in step.sent.items():
        on_its_way = step.task in (source, target) and target != step.master
        assert on_its_way or size <= SCALARS, (
            f"{step.says} sent {size} bytes from {source} to {target}, where nobody should compute."
        )


# sharded_step


def sharded(student: Any, rng: np.random.Generator) -> Sharded:
    """The student's step on some rows of a table in three parts: one row twice, and of one part none."""
    rows = int(rng.integers(60, 90))
    lengths = [rows // 3 + (part < rows % 3) for part in range(3)]  # as a scope cuts: the first ones a row longer
    first, last = lengths[0], lengths[0] + lengths[1]
    ids = [int(each) for each in (*rng.choice(first, 2, replace=False), last + rng.integers(lengths[2]))]
    return Sharded(student, rng, lengths, [*ids, ids[0]])


@exercise("sharded_step")
def test_the_rows_asked_for_take_a_step_down(student, rng):
    step = sharded(student, rng)
    if np.array_equal(step.new, step.table):
        raise Misconception("part_not_changed", f"{step.says}: no row has changed.")
    if step.moved(step.last):
        raise Misconception("twice_is_once", f"{step.says}: the row that is asked for twice has moved once.")
    if step.moved(step.pull, -1.0):
        raise Misconception("uphill", f"{step.says}: the rows went up their gradients.")
    if step.moved(step.pull, 1.0 / step.rate):
        raise Misconception("no_rate", f"{step.says}: the rows lost their gradients; expected the rate times those.")
    assert step.moved(step.pull), f"{step.says}: the rows have not lost the rate times their gradients."
    assert step.value.shape == () and np.isclose(step.value, step.loss, rtol=1e-4), (
        f"{step.says} returned the loss {shown(step.value.tolist())}; before the step it is {step.loss:.5g}."
    )


@exercise("sharded_step")
def test_only_rows_and_their_gradients_travel(student, rng):
    step = sharded(student, rng)
    assert not np.array_equal(step.new, step.table), f"{step.says}: no row has changed."
    for (source, target), size in step.sent.items():
        if size <= SCALARS or not any(end.startswith("ps:") for end in (source, target)):
            continue
        ends = f"{step.says}: {source} sent {size} bytes to {target}"
        if step.worker not in (source, target):
            raise Misconception("elsewhere", f"{ends}; expected {step.worker} to compute.")
        server = target if source == step.worker else source
        rows = step.asked.get(server, 0)
        if size > rows * (step.row_bytes + 24) + SCALARS:
            name = "dense_gradient" if source == step.worker else "whole_table"
            text = "gradients to send" if source == step.worker else "rows to send"
            raise Misconception(name, f"{ends}; {rows} {text} have {rows * step.row_bytes}.")
