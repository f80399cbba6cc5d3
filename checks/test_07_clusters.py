"""Trusted checks of chapter 07: plans and names are compared as values; the loss, servers and doors are real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import dict_of, list_of, maybe, number, row, shown, task_in, text, truth, whole
from autograder.probe.asking import Misconception, each_answer, exercise, kept, probe, recorded
from cluster_names import resolved, short, specs, why
from cluster_truth import Loss, Master
from missing_task import Missing
from placing import WORDS
from students_graphs import same

Task = tuple[str, int, str, int]  # job, number, machine, port


def machines(rng: np.random.Generator, count: int) -> list[str]:
    """Fresh names of machines."""
    return [f"{word}-{rng.integers(10, 99)}" for word in rng.permutation(WORDS)[:count]]


# cluster_of


@probe
def planned(student, tasks):
    plan = tf.train.ClusterSpec(student.cluster_of([tuple(task) for task in tasks]))
    return [[job, index, plan.task_address(job, index)] for job in plan.jobs for index in plan.task_indices(job)]


def check_plan(student: Any, tasks: list[Task]) -> None:
    """Compare the plan that the student makes of `tasks` with them, task by task."""
    found = list_of(row(text, whole, text))(student.ask(planned, tasks=tasks), "`cluster_of` gave the tasks")
    plan = {(job, index): address for job, index, address in found}
    says = f"`cluster_of({tasks})`"
    right = {(job, index): f"{machine}:{port}" for job, index, machine, port in tasks}
    for job, index in right:
        assert (job, index) in plan, f"{says} has no /job:{job}/task:{index}; expected it, with that number."
    as_listed = {
        (job, place): address
        for job in {job for job, _ in right}
        for place, address in enumerate(address for (of_job, _), address in right.items() if of_job == job)
    }
    if as_listed.items() <= plan.items():
        raise Misconception("order_of_the_list", f"{says} numbers tasks in the list's order; each has its own number.")
    of_address = {address: task for task, address in right.items()}
    for (job, index), address in right.items():
        if plan[job, index] == address:
            continue
        other = of_address.get(plan[job, index])
        if other is None:
            got = shown(plan[job, index])
            raise AssertionError(f"{says} has /job:{job}/task:{index} at {got}; expected machine:port of its entry.")
        raise AssertionError(f"{says} has /job:{job}/task:{index} at the address of /job:{other[0]}/task:{other[1]}.")
    assert len(plan) == len(tasks), f"{says} has {len(plan)} tasks; expected {len(tasks)}."


def drawn_tasks(rng: np.random.Generator, counts: dict[str, int], places: list[str], missing: int = -1) -> list[Task]:
    """Tasks in no order of numbers or addresses, and these are not in one another's; no job has the number `missing`."""
    ports = [int(port) for port in 2222 + rng.permutation(300)]
    while True:
        tasks = [
            (job, index, str(rng.choice(places)), ports.pop() if len(ports) > 50 else 2222 + index)
            for job, count in counts.items()
            for index in range(count + (missing >= 0))
            if index != missing
        ]
        tasks = [tasks[i] for i in rng.permutation(len(tasks))]
        orders = ([*tasks], sorted(tasks, key=lambda task: (task[2], task[3])))
        for_each = [[index for job, index, _, _ in order if job == name] for order in orders for name in counts]
        unlike = for_each[: len(counts)] != for_each[len(counts) :]
        if unlike and all(numbers != sorted(numbers) for numbers in for_each):
            return tasks


@exercise("cluster_of")
def test_each_task_has_its_number_and_its_address(student, rng):
    check_plan(student, drawn_tasks(rng, {"worker": 3, "ps": 2}, machines(rng, 3)))


@exercise("cluster_of")
def test_numbers_of_two_digits_and_any_job(student, rng):
    check_plan(student, drawn_tasks(rng, {"evaluator": 2, "worker": int(rng.integers(11, 15))}, machines(rng, 4)))
    check_plan(student, drawn_tasks(rng, {"ps": 2, "worker": 4}, machines(rng, 3), missing=int(rng.integers(2))))


# serve: rehearsed in the student's kernel, for machines that are not there


@probe
def rehearsed(student, spec, tasks, gpus):
    from across import clusters

    found = clusters.rehearse(student.serve, spec, [tuple(task) for task in tasks], gpus=gpus)
    return [[[dict(one.spec), one.job, one.index, one.visible, one.joined] for one in asked] for asked in found]


SERVER = row(dict_of(list_of(text)), text, whole, maybe(text), truth).named("a server's cluster, job and number")


def check_serve(student: Any, rng: np.random.Generator, tasks: Sequence[Master], hides: bool) -> None:
    """Have `serve` rehearsed as each of `tasks`: which server it asks for, whether it waits and, if `hides`, sees GPUs."""
    one, two = machines(rng, 2)
    ports = [int(port) for port in 2222 + rng.permutation(99)[:7]]
    spec = {"ps": [f"{one}:{ports[0]}", f"{two}:{ports[1]}"], "worker": [f"{one}:{port}" for port in ports[2:5]]}
    spec["chief"] = [f"{two}:{ports[5]}"]
    gpus = ",".join(str(number) for number in sorted(rng.permutation(8)[:3]))  # what a program finds
    answers = student.ask(rehearsed, spec=spec, tasks=tasks, gpus=gpus)
    for (job, index), asked in each_answer(answers, tasks, list_of(SERVER), "`serve` asked for the servers"):
        says = f"`serve(spec, {job!r}, {index})`"
        assert asked, f"{says} made no server; expected one `tf.distribute.Server`."
        assert len(asked) == 1, f"{says} made {len(asked)} servers; expected one."
        ((plan, of_job, number, visible, joined),) = asked
        assert (of_job, number) == (job, index), f"{says} made the server of {shown(of_job)}, task {number}."
        assert plan == spec, f"{says} gave its server another cluster than `spec`: {shown(plan, 200)}."
        if not joined:
            raise Misconception("without_join", f"{says} did not wait in `server.join()`, which it never reached.")
        if hides and job == "ps" and visible != "":
            found = "still as before" if visible == gpus else shown(visible)
            says += f" made its server while CUDA_VISIBLE_DEVICES was {found}; expected '' for a ps by then."
            raise Misconception("minus_one" if visible == "-1" else "sees_gpus", says)
        if hides and job != "ps" and visible == "":
            raise Misconception("all_blind", f"{says} hid the GPUs from a {job}; only a ps should not see them.")
        if hides and job != "ps":
            changed = f"made {shown(visible)} of CUDA_VISIBLE_DEVICES, which was {gpus!r}"
            assert visible == gpus, f"{says} {changed}; expected it left as it is for a {job}."


@probe
def begun(student, spec, job, index):
    """Begin `serve` as that task, in a process of its own."""
    import os
    import time

    from across import fresh
    from across._process import supervision

    server = fresh.server_path(time.monotonic() + 120, cold=False)
    group = supervision.Group(server and os.path.dirname(server))
    kept.setdefault("groups", []).append(group)
    pickled = fresh.pickled_call("serve", (student.serve, (spec, job, index), {}))
    fresh.Call(group, server, "serve", "serve", pickled, None, None)


def check_is_there(student: Any, peer: Any, rng: np.random.Generator, task: Master, other: Master) -> None:
    """The rest of a cluster, a peer, finds the program at its address: as that task, of that cluster."""
    says = f"`serve(spec, {task[0]!r}, {task[1]})` in a cluster of processes"
    missing = Missing(peer, {"ps": 2, "worker": 2}, task, says)
    student.ask(begun, spec=missing.spec, job=task[0], index=task[1])
    missing.wait()
    missing.check_serves(rng, other)


@exercise("serve")
def test_each_program_makes_its_own_server_and_waits(student, peer, rng):
    check_serve(student, rng, [("worker", int(rng.integers(1, 3))), ("ps", 1)], hides=False)
    check_is_there(student, peer, rng, ("worker", 1), ("ps", int(rng.integers(2))))


@exercise("serve", weak=True)
def test_a_ps_sees_no_gpu_and_others_do(student, peer, rng):
    check_serve(
        student, rng, [("ps", int(rng.integers(2))), ("worker", int(rng.integers(1, 3))), ("chief", 0)], hides=True
    )
    check_is_there(student, peer, rng, ("ps", int(rng.integers(2))), ("worker", int(rng.integers(2))))


def close(got: float, wanted: float) -> bool:
    """Whether a number is another one, as 32 bits tell numbers apart."""
    return bool(np.isclose(got, wanted, rtol=1e-5))


# remote: a peer's servers hold a variable; who does not ask them cannot know its value


@probe
def answered(student, target):
    return student.remote(target)


def check_remote(student: Any, peer: Any, rng: np.random.Generator, master: str) -> None:
    """Ask for (a + 2) * 3 of an `a` that another client has put on a server, and see that it is still there."""
    a, at = float(rng.integers(3, 9000)) / 4, "/job:ps/task:0"
    cluster = Missing(peer, {"ps": 1, "worker": 1})
    cluster.begin_with([("a", at, np.float32(a))])
    got = number(student.ask(answered, target=f"grpc://{cluster.spec[master][0]}"), "`remote` returned")
    (after,) = cluster.has(("a", at, "float32", []), through=("worker", 0))
    says = f"`a` is {a:g} on ps:0, and `remote` returned {shown(got)}"
    if after != a:
        raise Misconception("overwrites", f"`remote` made {after:g} of the {a:g} that another client had given to `a`.")
    if close(got, 3 * a):
        raise Misconception("as_in_the_book", f"{says}: three times `a`; the 2 is nowhere in it.")
    if close(got, a + 6):
        raise Misconception("product_first", f"{says}: that is a + 2 × 3; expected the sum first.")
    assert close(got, 3 * (a + 2)), f"{says}; expected (a + 2) × 3 of the `a` on that server."


@exercise("remote")
def test_the_value_comes_from_the_server(student, peer, rng):
    check_remote(student, peer, rng, "worker")


@exercise("remote")
def test_any_server_of_the_cluster_can_be_asked(student, peer, rng):
    check_remote(student, peer, rng, "ps")


# guesses

THERE = [short(each) for each in specs({"ps": 2, "worker": 3}, 2)]
NAMES = ("/job:ps", "/job:worker", "/cpu:1", "/job:ps/cpu:1", "/task:1")
test_every_name_has_a_recorded_guess = recorded(
    "guesses", dict.fromkeys(NAMES, task_in(THERE).named('a device of this cluster, as "ps:1 CPU:0"'))
)


# resolve: the rule of TensorFlow's placer, which a test holds against sessions


@probe
def named(student, names, devices, master):
    found = []
    for name in names:
        got = student.resolve(name, [tf.DeviceSpec.from_string(each) for each in devices], tuple(master))
        found.append({"device": got.to_string()} if isinstance(got, tf.DeviceSpec) else got)
    return found


def check_resolve(student: Any, rng: np.random.Generator, unfit: bool, uneven: bool = False) -> None:
    """Ask about every kind of gap, of a fresh cluster whose master is not the first task of its job."""
    first, other = sorted(str(word) for word in rng.permutation(WORDS)[:2])
    mine = f"{other}_{rng.integers(2, 9)}"  # a job whose name begins with another's
    cpus, own = 2, int(rng.integers(1, 3))
    devices, master = specs({first: 3, other: 2, mine: 4}, cpus), (mine, own)
    names = [
        *("", "/cpu:1", f"/job:{first}", f"/job:{mine}", f"/job:{other}", f"/job:{mine}/cpu:1", f"/job:{first}/cpu:1"),
        *(
            "/task:0",
            f"/task:{own}",
            f"/task:{3 - own}",
            f"/task:{own}/cpu:1",
            f"/job:{mine}/task:0",
            f"/job:{first}/task:2",
        ),
        *(f"/job:{other}/task:1/cpu:1", f"/job:{mine}/task:3/device:CPU:0", "/device:CPU:0", "/task:3"),
    ]
    if unfit:
        names += [f"/job:{other}/task:3", f"/cpu:{cpus}", "/task:9", f"/job:{mine}/gpu:0", "/job:nobody"]
    if uneven:  # only three tasks have one more CPU: of these the first by job is not the first by task
        more = {(first, 2), (first, 10), (mine, 0)}  # and by text task 10 comes before task 2
        devices = [
            each
            for each in specs({first: 11, other: 2, mine: 4}, 3)
            if each.device_index < 2 or (each.job, each.task) in more
        ]
        names = ["/cpu:2", "/device:CPU:2", f"/job:{mine}/cpu:2", f"/job:{first}/cpu:2", f"/job:{first}/task:1/cpu:2"]
    answers = student.ask(named, names=names, devices=[each.to_string() for each in devices], master=master)
    for name, got in each_answer(answers, names, maybe(dict_of(text)), "`resolve` returned"):
        right = resolved(name, devices, master)
        found = None
        if got is not None:
            assert "device" in got, f"`resolve({name!r}, ...)` returned {shown(got)}; expected one of `devices`."
            found = next((each for each in devices if each.to_string() == got["device"]), None)
            assert found is not None, f"`resolve({name!r}, ...)` returned {shown(got['device'])}: not one of `devices`."
        if found == right:
            continue
        says = f"With the master {master}, `resolve({name!r}, ...)` returned {short(found) if found else None}"
        raise AssertionError(f"{says}; {why(name, devices, master, found, right)}")


@exercise("resolve")
def test_gaps_are_filled_as_tensorflow_fills_them(student, rng):
    check_resolve(student, rng, unfit=False)
    check_resolve(student, rng, unfit=False, uneven=True)


@exercise("resolve")
def test_what_fits_no_device_is_none(student, rng):
    check_resolve(student, rng, unfit=True)


# loss_on: the student's graph, run on servers of this process


def check_loss(student: Any, rng: np.random.Generator, homes: list[str], budget: bool) -> None:
    """Run the loss over tasks, its session on another than the one that is to compute: what, where and, if asked, bytes."""
    one, two = (int(i) for i in rng.permutation(3)[:2])
    loss = Loss(student, rng, ("worker", one), ("worker", two), homes)
    check_value(loss)
    if loss.elsewhere:
        there = ", ".join(sorted(loss.elsewhere))
        there = there.replace(loss.master, f"{loss.master}, which called it")
        says = f"{loss.says} computed the model's products on {there}; expected {loss.task}."
        raise Misconception("unpinned", says) if loss.elsewhere == {loss.master} else AssertionError(says)
    if not budget:
        return
    back = loss.sent.get((loss.task, loss.master), 0)
    if loss.last != loss.task:
        caller = loss.last.replace(loss.master, f"{loss.master}, which called it")
        says = f"{loss.says} formed the loss on {caller}: {back} bytes came back from {loss.task}; expected the loss alone."
        raise Misconception("mean_elsewhere", says)
    total = sum(loss.sent.values())
    ways = ", ".join(f"{size} from {source} to {target}" for (source, target), size in sorted(loss.sent.items()))
    assert total <= loss.budget, f"{loss.says} sent {total} bytes ({ways}); {loss.budget} are enough."


def check_value(loss: Loss) -> None:
    """The number itself; a wrong one is told by what it is."""
    error = loss.error
    known = {
        "sum": (np.sum(error**2), "the sum of the squares; expected their mean"),
        "absolute": (np.mean(np.abs(error)), "the mean of the absolute errors; expected that of their squares"),
        "not_squared": (np.mean(error), "the mean of the errors, not squared"),
        "root": (np.sqrt(np.mean(error**2)), "the root of the mean squared error"),
    }
    assert np.shape(loss.value) == (), (
        f"{loss.says} returned a tensor of shape {np.shape(loss.value)}; expected a scalar."
    )
    for name, (value, says) in known.items():
        if same(loss.value, np.asarray(value, np.float32)) and not loss.is_right():
            raise Misconception(name, f"{loss.says} returned {says}.")
    wanted = np.float32(np.mean(error**2))
    assert loss.is_right(), (
        f"{loss.says} returned {shown(np.asarray(loss.value).tolist())}; the mean squared error is {wanted:.6g}."
    )


@exercise("loss_on")
def test_the_task_computes_the_mean_squared_error(student, rng):
    check_loss(student, rng, ["/job:ps/task:0", "/job:ps/task:0"], budget=False)


@exercise("loss_on")
def test_weights_and_batch_travel_once_and_only_the_loss_comes_back(student, rng):
    check_loss(student, rng, ["/job:ps/task:1", "/job:ps/task:0", "/job:ps/task:1"], budget=True)


# silent: a peer is all tasks but those whose doors are closed

SOON, LATE = (
    2_000,
    8_000,
)  # milliseconds for a task; the second is for one that is there and did not answer in the first
NAMES_OF_TASKS = list_of(text).named("a list of the names of tasks")


@probe
def with_closed_doors(peer, jobs, closed):
    """Start the servers of a cluster but those of the tasks `closed`; the target of worker:0."""
    import os

    from across._process.addresses import free_address

    os.environ["TF_GRPC_REUSE_PORT"] = "1"
    held = []
    spec = {job: [free_address(held) for _ in range(count)] for job, count in jobs.items()}
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 1, "GPU": 0}, inter_op_parallelism_threads=4)
    ours = [(job, index) for job, count in jobs.items() for index in range(count) if [job, index] not in closed]
    servers = [tf.distribute.Server(spec, job, index, config=config) for job, index in ours]
    kept.setdefault("with_closed_doors", []).append((held, servers))
    return "grpc://" + spec["worker"][0]


def check_silent(student: Any, peer: Any, rng: np.random.Generator, counts: Sequence[int]) -> None:
    """Ask about three tasks of a cluster, of which so many are closed; others of its doors are closed, too."""
    jobs = {"ps": 3, "worker": 4}
    tasks = [(job, index) for job, count in jobs.items() for index in range(count) if (job, index) != ("worker", 0)]
    tasks = [tasks[i] for i in rng.permutation(len(tasks))]
    closed = [next(task for task in tasks if task[0] == job) for job in jobs]  # one of each job at least
    tasks = [task for task in tasks if task not in closed]
    closed, there = [*closed, tasks[0]], tasks[1:]
    target = peer.ask(with_closed_doors, deadline=80.0, jobs=jobs, closed=[list(task) for task in closed])
    first = 0
    for count in counts:  # each closed door is among the three but once, so that no constant is right twice
        three = [*closed[first : first + count], *there[: 3 - count]]
        first += count
        names = [f"/job:{job}/task:{index}" for job, index in (three[i] for i in rng.permutation(3))]
        shut = {f"/job:{job}/task:{index}" for job, index in closed} & set(names)
        got = student.call_once("silent", target, names, SOON, returns=NAMES_OF_TASKS)
        if set(got) & (set(names) - shut):
            # the machine may be slow; all that were named are asked about, each alone, so that nobody learns which answers
            for task in sorted(set(got) & set(names)):
                if task not in student.call_once("silent", target, [task], LATE, returns=NAMES_OF_TASKS):
                    got = [each for each in got if each != task]
                elif task not in shut:
                    break
        doors = f"of {names} {'nobody listens at ' + ' and '.join(sorted(shut)) if shut else 'all answer'}"
        says = f"`silent(target, others, {SOON})`: {doors}; it returned {shown(got, 200)}"
        left_out = sorted(shut - set(got))
        wrong = sorted(set(got) & (set(names) - shut))
        if set(names) == set(got):
            raise Misconception(
                "asks_every_task",
                f"{says}. {wrong[0]} answers; a session asks every task, but for a list `device_filters`.",
            )
        if wrong and left_out:
            raise Misconception("the_other_way_round", f"{says}. It names who answers, not who is silent.")
        if left_out and got:
            raise Misconception("the_first_only", f"{says}. {left_out[0]} is silent as well.")
        if len(left_out) > 1:
            raise Misconception("leaves_one_out", f"{says}. Both are silent: a session that asks one of them waits.")
        if left_out:
            raise Misconception("asks_nobody", f"{says}. {left_out[0]} is silent, and was not found.")
        assert not wrong, f"{says}. {wrong[0]} answers."
        assert set(got) == shut, f"{says}. Expected names out of the list."


@exercise("silent")
def test_the_closed_door_is_found(student, peer, rng):
    check_silent(student, peer, rng, (1, 1))


@exercise("silent")
def test_two_closed_doors_or_none(student, peer, rng):
    check_silent(student, peer, rng, (2, 0))
