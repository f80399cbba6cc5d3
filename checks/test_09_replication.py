"""Trusted checks of chapter 09: workers' graphs are run here, their steps interleaved on purpose; schedules are values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import replication_truth as replication
import trainer_truth
from across.expecting import anything, array, list_of, number, one_of, row, shown, text, whole
from autograder.probe.asking import Misconception, exercise, recorded
from replication_truth import told

BUILT = row(anything, text, text)


def an_op(name: str, kind: str, says: str) -> None:
    """AssertionError unless an answer was an op of the graph."""
    assert name, f"{says} returned {'None' if kind == 'NoneType' else f'a value of type {kind}'}; expected an op."


# worker_step


def check_steps(student: Any, rng: np.random.Generator, order: Sequence[int], places: bool) -> None:
    """Run both workers' graphs on servers of our own, one step after the other, and compare `w` after each."""
    rate, rows = float(rng.integers(4, 10)) / 32, int(rng.integers(3, 6))
    x = rng.integers(-2, 3, size=(2, rows, 3)).astype(np.float32)
    x += np.eye(rows, 3, dtype=np.float32) * 3
    y = rng.integers(2, 9, size=(2, rows)).astype(np.float32) * rng.choice([-1, 1], size=(2, 1)).astype(np.float32)
    answer = student.ask(replication.stepped, batches=[[x[i], y[i]] for i in (0, 1)], rate=rate)
    built = list_of(row(anything, text, text, list_of(text)), 2).named("a graph for each worker")(
        answer, "Your code led to"
    )
    for index, (_, name, kind, _) in enumerate(built):
        an_op(name, kind, f"`worker_step({index}, loss_of, {rate})`")
    with replication.workers([(graph, name) for graph, name, *_ in built], [0, 1]) as both:
        for worker in both:
            says = f"The graph of worker {worker.index}"
            count = len(worker.variables)
            assert count == 1, f"{says} has {count} variables; expected one, `w`."
        names = [worker.variables[0].name for worker in both]
        for worker in both:
            worker.halfway()
        with told():
            both[0].session.run(built[0][3])
        values = [worker.value(worker.variables[0]) for worker in both]
        before = wanted = np.zeros(3)
        for turn, index in enumerate([None, *order]):
            if index is not None:
                try:
                    both[index].session.run(both[index].step)
                except tf.errors.FailedPreconditionError:
                    raise shares_nothing(names) from None
                except tf.errors.OpError as error:
                    raise refused(error) from None
                before, wanted = wanted, wanted - rate * gradient(x[index], y[index], wanted)
            reader = both[1 - index] if index is not None else both[0]
            try:
                got = reader.session.run(values[reader.index])
            except tf.errors.FailedPreconditionError:
                raise shares_nothing(names) from None
            except tf.errors.OpError as error:
                raise refused(error) from None
            if index is None:
                assert np.array_equal(got, wanted), f"`w` is {shown(got.tolist())} at the start; expected three zeros."
                continue
            if np.allclose(got, wanted, rtol=1e-3, atol=1e-3):
                continue
            steps = f"{turn} step{'s' * (turn > 1)}, the last of worker {index}"
            says = f"Batches x, y of whole numbers, rate {rate}: after {steps},"
            says += f" the other client reads {shown([round(float(each), 3) for each in np.ravel(got)])}"
            raise what_is_wrong(says, got, before, [(x[i], y[i]) for i in (index, 1 - index)], rate, names)
        if places:
            for worker in both:
                check_places(worker)


def gradient(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    return 2 * x.T @ (x @ w - y) / len(y)


def shares_nothing(names: list[str]) -> Misconception:
    says = f"Worker 0's client gave its variable {shown(names[0])} a value; worker 1's {shown(names[1])} has none"
    return Misconception("each_its_own_variable", f"{says}: expected one variable on the ps for both.")


def refused(error: Any) -> AssertionError:
    said = next((line for line in error.message.splitlines() if "evice" in line), "it does not run")
    return AssertionError(f"TensorFlow refuses your placement: {said[:200]}")


def what_is_wrong(
    says: str, got: Any, before: np.ndarray, batches: list[Any], rate: float, names: list[str]
) -> AssertionError:
    """A wrong step, told by what it is."""
    own, others = (gradient(x, y, before) for x, y in batches)
    known = {
        "uphill": (before + rate * own, "the step goes uphill: the gradient is to be subtracted."),
        "without_rate": (before - own, "the whole gradient was subtracted; expected `rate` times it."),
        "the_notebooks_rate": (before - 0.5 * own, "that is a step of rate 0.5; expected the given one."),
        "other_batch": (before - rate * others, "that is a step on the other worker's batch."),
        "added_up": (before - rate * (own + others), "that is a step on both batches; expected the worker's own."),
        "in_one_graph": (before - rate * (own + others) / 2, "that is a step on both batches; expected its own."),
        "unchanged": (before, "nothing changed there. Is it the same variable, and a step that changes it?"),
    }
    for name, (value, words) in known.items():
        if np.shape(got) == (3,) and np.allclose(got, value, rtol=1e-3, atol=1e-3):
            return Misconception(name, f"{says}: {words}")
    return AssertionError(f"{says}; expected `w` minus rate times the gradient of that worker's loss.")


def check_places(worker: replication.Worker) -> None:
    """The variable is on the ps, and what is computed, on the worker."""
    seen = worker.traced_abroad()
    home = {op.device.split(" ")[0] for op in seen.everything if op.type in replication.VARIABLES}
    says = f"`worker_step({worker.index}, ...)`"
    if home != {"ps:0"}:
        raise Misconception("variable_on_a_worker", f"{says} has `w` on {', '.join(sorted(home))}; expected the ps.")
    places = {op.device.split(" ")[0] for op in seen.of_type("MatMul", "BatchMatMulV2", "Einsum")}
    assert places, f"{says} computed no loss in its step."
    if places != {f"worker:{worker.index}"}:
        there = ", ".join(sorted(places))
        own = {op.device.split(" ")[0] for op in worker.traced().of_type("MatMul", "BatchMatMulV2", "Einsum")}
        if own == {f"worker:{worker.index}"}:
            says += f" left its replica to the session's master, {there}; expected worker:{worker.index}."
            raise Misconception("the_masters_worker", says)
        name = "computed_on_the_ps" if places == {"ps:0"} else "computed_elsewhere"
        raise Misconception(name, f"{says} computed on {there}; expected worker:{worker.index}.")


@exercise("worker_step")
def test_two_clients_train_one_variable(student, rng):
    check_steps(student, rng, [0, 1, 1, 0], places=False)


@exercise("worker_step")
def test_the_variable_is_on_the_ps_and_each_replica_on_its_worker(student, rng):
    check_steps(student, rng, [1, 0, 1], places=True)


# update


def check_update(student: Any, rng: np.random.Generator, between: bool) -> None:
    """Have worker 0 write after worker 1 has written a whole step, or alone."""
    size, rate = int(rng.integers(2, 5)), float(rng.choice([0.25, 0.75, 1.25, 1.5]))  # not that of the notebook
    start, mine, theirs = (rng.integers(low, low + 9, size=size).astype(np.float32) * 4 for low in (20, 1, 11))
    answer = student.ask(replication.updated, size=size, rate=rate)
    graph, name, kind = BUILT.named("a graph that can be run")(answer, "Your code led to")
    an_op(name, kind, f"`update(w, gradient, {rate})`")
    with replication.workers([(graph, name)] * 2, [0, 1]) as (first, second):
        whole_steps, ours = [worker.halfway() for worker in (first, second)], {"gradient:0": mine}
        begin, value = first.given(first.variables[0], start), first.value(first.variables[0])
        with told():
            first.session.run(begin)
            if between:
                kept = whole_steps[0].stop(first.session, ours)
                second.session.run(second.step, {"gradient:0": theirs})
                whole_steps[0].go_on(first.session, kept, ours)
            else:
                first.session.run(first.step, ours)
            got = np.asarray(first.session.run(value))
    w, one, other = (float(each[0]) for each in (start, mine, theirs))
    says = f"`w` was {w:g}, the gradient {one:g}, the rate {rate}"
    if not between:
        if np.array_equal(got, start + rate * mine):
            raise Misconception("uphill", f"{says}: `w` became {got[0]:g}; expected the step to be subtracted.")
        assert np.array_equal(got, start - rate * mine), f"{says}: `w` became {got[0]:g}; expected {w - rate * one:g}."
        return
    says += f". Worker 1 took {rate * other:g} away while worker 0 computed, and after worker 0 `w` is {got[0]:g}"
    if np.array_equal(got, start - rate * mine):
        raise Misconception("lost_update", f"{says}: worker 1's update is lost.")
    assert np.array_equal(got, start - rate * (mine + theirs)), f"{says}; expected both to be taken away."


@exercise("update")
def test_what_others_write_meanwhile_stays(student, rng):
    check_update(student, rng, between=False)
    check_update(student, rng, between=True)


# replay

WRITTEN = list_of(row(number, whole)).named("a list of pairs: w after the write, its staleness")


def check_replay(student: Any, cases: list[tuple[list[replication.Moment], float, float]]) -> None:
    """Compare each write of each schedule with what the rule says."""
    asked = list(student.call("replay", cases, returns=WRITTEN))

    def alike(got: Any, wanted: Any) -> bool:
        return len(got) == len(wanted) and all(np.allclose(a, b) for a, b in zip(got, wanted, strict=True))

    missed = next(
        (
            each
            for each in replication.MISREAD
            if all(alike(got, replication.replayed(*case, wrong=each)) for case, got in asked)
        ),
        "",
    )
    for (schedule, w, rate), got in asked:
        wanted = replication.replayed(schedule, w, rate)
        says = f"`replay({schedule}, {w}, {rate})`"
        if alike(got, wanted):
            continue
        if missed:
            raise Misconception(missed, f"{says} is wrong: {replication.MISREAD[missed]}")
        assert len(got) == len(wanted), f"{says} has {len(got)} entries; expected one for each of {len(wanted)} writes."
        place = next(i for i, (a, b) in enumerate(zip(got, wanted, strict=True)) if not np.allclose(a, b))
        which = "`w` after" if not np.isclose(got[place][0], wanted[place][0]) else "the staleness of"
        value = got[place][0] if which.startswith("`w`") else got[place][1]
        raise AssertionError(f"{says}: {which} write {place + 1} is not {shown(value)}.")


def drawn_case(
    rng: np.random.Generator, workers: Sequence[int], length: int
) -> tuple[list[replication.Moment], float, float]:
    """A schedule, a `w`, and a rate of which 1 - rate is another one."""
    return replication.schedule_of(rng, workers, length), float(rng.integers(16, 99)), float(rng.choice([0.25, 0.625]))


@exercise("replay")
def test_two_workers(student, rng):
    pairs = ([0, 1], [int(rng.integers(2)), int(rng.integers(2, 5))])
    slow, fast = pairs[1]
    long_step = [("read", slow), *[("read", fast), ("write", fast)] * 3, ("write", slow)]
    cases = [drawn_case(rng, pair, 8) for pair in (*pairs, pairs[1])]
    check_replay(student, [*cases, (long_step, 64.0, 0.25)])


@exercise("replay")
def test_many_workers(student, rng):
    check_replay(student, [drawn_case(rng, range(int(rng.integers(3, 6))), 16) for _ in range(3)])


# late_steps


def check_late(student: Any, rng: np.random.Generator, delay: int) -> None:
    """Train a model of two layers there, and compare its losses, and what its weights become, with NumPy's."""
    inputs, outputs, rows, steps = 2, int(rng.integers(2, 4)), 4, delay + int(rng.integers(4, 7))
    shapes = [inputs, 4], [4], [4, outputs], [outputs]
    weights = [rng.uniform(-1, 1, size=each).astype(np.float32) for each in shapes]
    batches = [
        (rng.normal(size=(rows, inputs)).astype(np.float32), rng.normal(size=(rows, outputs)).astype(np.float32) * 3)
        for _ in range(steps)
    ]
    rate = float(rng.choice([0.0625, 0.125]))
    answer = student.ask(
        replication.delayed, weights=weights, batches=[list(each) for each in batches], rate=rate, delay=delay
    )
    losses, *after = row(anything, *map(array, shapes))(answer, "Your notebook answered with")
    says = f"`late_steps(model, batches, {rate}, {delay})` on {steps} batches"
    losses = np.array(list_of(number)(losses, f"{says} returned"))
    assert len(losses) == steps, f"{says} returned {len(losses)} losses; expected one for each batch."

    def alike(wrong: str) -> bool:
        wanted = replication.late(weights, batches, rate, delay, wrong)
        return all(np.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip((losses, *after), wanted, strict=True))

    if alike(""):
        return
    for each, words in replication.MISLED.items():
        if alike(each):
            raise Misconception(each, f"{says} is wrong: {words}")
    wanted = replication.late(weights, batches, rate, delay)[0]
    wrong = [i for i in range(steps) if not np.isclose(losses[i], wanted[i], rtol=1e-3, atol=1e-4)]
    assert not wrong, f"{says}: the first loss that is off is that of step {wrong[0] + 1}: {losses[wrong[0]]:.4g}."
    raise AssertionError(f"{says} returned the right losses, and left other weights than its last step makes.")


@exercise("late_steps")
def test_without_a_delay(student, rng):
    check_late(student, rng, 0)


@exercise("late_steps", 2.0)
def test_gradients_come_late(student, rng):
    check_late(student, rng, int(rng.integers(2, 5)))


# guesses

SEEN = {"worker:0": ["goes on", "waits"], "worker:1's gradients": ["fresh", "stale"]}
KINDS = {f"{mode}: {of}": one_of(words) for mode in ("in step", "out of step") for of, words in SEEN.items()}
test_every_name_has_a_recorded_guess = recorded("guesses", KINDS)


# trainer: rehearsed there; then it is a task of a cluster whose others are a peer; the workers' graphs are run here


def rehearse(student: Any, tasks: dict[tuple[str, int], int]) -> list[tuple[int, Any]]:
    """Try the program as `tasks`, each until its global step, the chief first among workers: the workers' graphs.

    The last of them finds that its global step was reached before it came.
    """
    answer = student.ask(
        replication.rehearsed, jobs={"ps": 2, "worker": 3}, tasks=list(tasks), last_steps=list(tasks.values())
    )
    return trainer_truth.check_rehearsed(tasks, answer)


def check_graphs(found: list[tuple[int, Any]]) -> None:
    """Two workers' graphs train the same variables, which are on both ps; each on its own worker."""
    with replication.workers([(graph, "a_whole_step") for _, graph in found], [index for index, _ in found]) as both:
        counters = []
        for worker in both:
            homes = {op.device.partition("/device")[0] for op in worker.variables}
            says = f"The graph of worker {worker.index}"
            assert homes == {"/job:ps/task:0", "/job:ps/task:1"}, f"{says} has variables on {sorted(homes)}."
            counts = [op for op in worker.variables if op.get_attr("dtype") == tf.int64]
            assert len(counts) == 1, f"{says} has {len(counts)} counters in a step; expected one, the global step."
            counters.append(worker.value(counts[0]))
        begin = [
            both[0].given(op, np.full(shape_of(op), 0 if op.get_attr("dtype") == tf.int64 else 0.5))
            for op in both[0].variables
        ]
        with told():
            both[0].session.run(begin)
            for worker in (both[0], both[1], both[0]):
                worker.session.run(worker.step)
            count = int(both[1].session.run(counters[1]))
        assert count == 3, f"Two workers did 3 steps, and the global step is {count}."
        for worker in both:
            batch = {
                op.device.split(" ")[0] for op in worker.traced().everything if op.type.startswith("StatelessRandom")
            }
            there = ", ".join(sorted(batch)) or "no worker"
            assert batch == {f"worker:{worker.index}"}, f"Worker {worker.index} makes its batch on {there}."


def shape_of(variable: Any) -> list[int]:
    return [each.size for each in variable.get_attr("shape").dim]


@exercise("trainer")
def test_a_ps_waits_and_the_chief_trains(student, peer, rng):
    last = int(rng.integers(4, 7))
    rehearse(student, {("ps", 1): last, ("worker", 0): last, ("worker", 1): last - 2})
    trainer_truth.check_ps_serves(student, peer, rng)
    trainer_truth.check_worker_trains(student, peer, rng, 0, last + 4, before=0)


@exercise("trainer")
def test_other_workers_join_and_share_the_variables(student, peer, rng):
    last, other = int(rng.integers(4, 7)), int(rng.integers(1, 3))
    tasks = {("worker", 0): last, ("worker", other): last + 4, ("worker", 3 - other): last + 1}
    check_graphs(rehearse(student, tasks)[:2])
    before = int(rng.integers(20, 90))
    trainer_truth.check_worker_trains(student, peer, rng, 1, before + last + 4, before)
    trainer_truth.check_worker_trains(student, peer, rng, 2, before - last, before)
