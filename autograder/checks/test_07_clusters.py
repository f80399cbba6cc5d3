"""Trusted checks of chapter 07: plans, names and doors are compared as values, the loss is run here, on servers of our own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import dict_of, list_of, maybe, number, one_of, row, shown, text, truth, whole
from autograder.checks.cluster_truth import Loss, Master, resolved, short, specs, why
from autograder.checks.missing_task import Missing
from autograder.checks.placing import WORDS
from autograder.checks.students_graphs import same
from autograder.probe.asking import Misconception, each_answer, exercise, kept, probe, recorded

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
    assert cluster.put([("a", at, np.float32(a))]), "The peer's own servers do not run."
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
    "guesses", dict.fromkeys(NAMES, one_of(THERE).named('a device of this cluster, as "ps:1 CPU:0"'))
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
    if uneven:  # only two tasks have one more CPU: of these the first by job is not the first by task
        more = {(first, 2), (mine, 0)}
        devices = [
            each
            for each in specs({first: 3, other: 2, mine: 4}, 3)
            if each.device_index < 2 or (each.job, each.task) in more
        ]
        names = ["/cpu:2", "/device:CPU:2", f"/job:{mine}/cpu:2"]
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
        says = f"{loss.says} computed the model's products on {there}; expected {loss.task}."
        raise Misconception("unpinned", says) if loss.elsewhere == {loss.master} else AssertionError(says)
    if not budget:
        return
    back = loss.sent.get((loss.task, loss.master), 0)
    if loss.last != loss.task:
        says = f"{loss.says} formed the loss on {loss.last}: {back} bytes came back from {loss.task}; expected 4, the loss."
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


# openings

RULE = row(text, text, whole).named("entries of three: from which machine, to which machine, to which port")


def check_openings(student: Any, tasks: list[Task]) -> None:
    """Compare the doors with those between every two servers on two machines."""
    got = student.call_once("openings", tasks, returns=list_of(RULE))
    says = f"`openings({tasks})`"
    places = {machine for _, _, machine, _ in tasks}
    wanted = {(source, target, port) for source in places for _, _, target, port in tasks if source != target}
    for source, target, port in got:
        assert {source, target} <= places, (
            f"{says} opens a door from {shown(source)} to {shown(target)}: no such machine."
        )
        if source == target:
            raise Misconception(
                "within_a_machine", f"{says} has {source, target, port}; no firewall stands within a machine."
            )
        if (source, target, port) not in wanted:
            theirs = [each for _, _, machine, each in tasks if machine == target]
            raise AssertionError(f"{says} opens port {port} of {target}, where servers listen at {theirs}.")
    missing = sorted(wanted - set(got))
    if missing:
        source, target, port = missing[0]
        raise AssertionError(
            f"{says} lets nobody on {source} reach port {port} of {target}; any server may call any other."
        )
    if len(got) != len(wanted):
        raise Misconception(
            "for_every_pair_of_tasks", f"{says} has {len(got)} entries for {len(wanted)} doors; each is needed once."
        )


def drawn_doors(rng: np.random.Generator, counts: dict[str, int], places: list[str]) -> list[Task]:
    """Tasks over all machines, one of which has a single job's that another has, too; some ports stand on several machines."""
    while True:
        tasks: list[Task] = []
        used: dict[str, int] = {}
        for job, count in counts.items():
            for index in range(count):
                machine = places[len(tasks)] if len(tasks) < len(places) else str(rng.choice(places))
                tasks.append((job, index, machine, 2222 + used.get(machine, 0)))
                used[machine] = used.get(machine, 0) + 1
        jobs = {machine: {task[0] for task in tasks if task[2] == machine} for machine in places}
        alone = any(len(jobs[a]) == 1 and jobs[a] & jobs[b] for a in places for b in places if a != b)
        if alone and max(used.values()) > min(used.values()) > 0:
            return [tasks[i] for i in rng.permutation(len(tasks))]


@exercise("openings")
def test_between_two_machines(student, rng):
    check_openings(student, drawn_doors(rng, {"ps": 2, "worker": 3}, machines(rng, 2)))


@exercise("openings")
def test_between_several_machines(student, rng):
    check_openings(
        student, drawn_doors(rng, {"ps": 2, "chief": 1, "worker": 3}, machines(rng, int(rng.integers(3, 5))))
    )
