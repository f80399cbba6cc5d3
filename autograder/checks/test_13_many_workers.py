"""Trusted checks of chapter 13: texts, rules and datasets are values; what is to go on is ended, and begun again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from across.expecting import anything, dict_of, list_of, number, one_of, row, shown, text, truth, whole
from across.workers import fault_of
from autograder.checks import many_workers_truth as many
from autograder.checks import roles_truth as roles
from autograder.probe.asking import Misconception, exercise, recorded

# tf_config


def read_config(says: str, got: str) -> tuple[Any, Any, Any]:
    """The cluster, the job and the index that a text tells. AssertionError unless it is one."""
    try:
        config = json.loads(got) if len(got) < 100_000 else None
    except (ValueError, RecursionError):
        config = None
    assert isinstance(config, dict), f"{says} {shown(got)}; expected JSON, an object with `cluster` and `task`."
    task, cluster = config.get("task"), config.get("cluster")
    assert isinstance(task, dict), f"{says} no task in it; expected one with `type` and `index`."
    assert isinstance(cluster, dict), f"{says} no cluster in it; expected its jobs, each with a list."
    return cluster, task.get("type"), task.get("index")


def check_config(says: str, got: str, jobs: roles.Jobs, job: str, index: int) -> None:
    """Compare a text with what it should tell."""
    cluster, its_job, its_index = read_config(says, got)
    if type(its_index) is str and its_index == str(index):
        raise Misconception("index_as_text", f"{says} the index {its_index!r}, a text; expected an integer.")
    assert (its_job, its_index) == (job, index) and type(its_index) is int, (
        f"{says} the task {shown(its_job)}, {shown(its_index)}; expected {job!r}, {index}."
    )
    if "evaluator" in cluster:
        raise Misconception("evaluator_inside", f"{says} an evaluator in the cluster; expected it beside the cluster.")
    if job not in cluster and job != "evaluator":
        raise Misconception("without_itself", f"{says} a cluster without {job!r}; expected the same cluster for all.")
    assert set(cluster) == set(jobs), f"{says} the jobs {shown(sorted(cluster))}; expected {sorted(jobs)}."
    for name, addresses in jobs.items():
        assert cluster[name] == addresses, f"{says} {shown(cluster[name])} for {name!r}; expected all, in their order."


def unsorted(addresses: list[str]) -> list[str]:
    """The same, the greatest first: so their order tells."""
    return sorted(addresses, key=lambda address: address != max(addresses))


@exercise("tf_config")
def test_each_task_of_a_cluster_has_its_text(student, rng):
    jobs = roles.cluster(rng, chief=True, ps=int(rng.integers(1, 3)), workers=int(rng.integers(2, 5)))
    jobs["worker"] = unsorted(jobs["worker"])
    cases = [[jobs, job, index] for job in jobs for index in range(len(jobs[job]))]
    for (_, job, index), got in student.call("tf_config", cases, returns=text):
        check_config(f"`tf_config({shown(jobs)}, {job!r}, {index})` has", got, jobs, job, index)


@exercise("tf_config")
def test_an_evaluator_is_beside_the_cluster(student, rng):
    inside = roles.cluster(rng, chief=bool(rng.integers(2)), ps=0, workers=int(rng.integers(2, 4)))
    inside["worker"] = unsorted(inside["worker"])
    jobs = {"evaluator": ["tests:1"], **inside}
    cases = [[jobs, "evaluator", 0], [jobs, "worker", 1], [inside, "worker", 0]]
    for (given, job, index), got in student.call("tf_config", cases, returns=text):
        check_config(f"`tf_config({shown(given)}, {job!r}, {index})` has", got, inside, job, index)


# faults

WORDS = list_of(one_of(roles.RULES)).named(f"a list of words, each one of {', '.join(roles.RULES)}")


def check_faults(student: Any, cases: list[roles.Case]) -> None:
    told = list(student.call("faults", [[each] for each, _ in cases], returns=WORDS))
    if not any(set(got) - {"json", "no cluster"} for _, got in told):
        words = f"`faults` found none of the six faults in {len(told)} texts."
        raise Misconception("nothing_wrong", words)
    for (_, wanted), (arguments, got) in zip(cases, told, strict=True):
        found = set(got)
        if found != wanted:
            words = roles.why(wanted, found)
            raise AssertionError(f"`faults({shown(arguments[0], 200)})` returned {shown(got)}; {words}")


@exercise("faults", 2.0)
def test_each_fault_is_found_and_no_other(student, rng):
    check_faults(student, roles.single(rng))


@exercise("faults")
def test_all_faults_of_a_text_are_found(student, rng):
    check_faults(student, roles.several(rng))


# pipeline

ROWS = list_of(row(list_of(number), list_of(whole)))
EPOCHS = 6  # that tell whether a dataset ends


def check_pipeline(student: Any, workers: int, replicas: int, count: int, batch: int) -> None:
    """Compare each step's digits, over all workers, with the next ones of the data."""
    own, size, steps = replicas // workers, batch // replicas, EPOCHS * count // batch + 1
    answer = student.ask(many.piped, workers=workers, replicas=replicas, count=count, batch=batch, steps=steps)
    found = list_of(ROWS, workers).named("(images, labels) in each batch")(answer, "Your dataset has")
    says = f"`pipeline` of digits 0 to {count - 1}, batch {batch}, {workers} workers, {replicas} replicas:"
    for worker, batches in enumerate(found):
        for images, labels in batches:
            assert [int(each) + 1000 for each in images] == labels, f"{says} some labels are of other images."
        sizes = [len(images) for images, _ in batches[:own]]
        if sizes != [size] * len(sizes):
            raise Misconception("global_batch", f"{says} batches of {sizes[0]}; expected {size} for one replica.")
        if len(batches) < steps * own:
            raise Misconception(
                "ends", f"{says} worker {worker} has {len(batches)} batches; expected it to be endless."
            )
    first = [images for images, _ in found[0]]
    if workers > 1 and all([images for images, _ in each] == first for each in found):
        raise Misconception("everyone_all", f"{says} each worker gets the same digits; expected each digit once.")
    for step in range(steps):
        got = [int(each) for rows in found for images, _ in rows[step * own : (step + 1) * own] for each in images]
        wanted = [each % count for each in range(step * batch, (step + 1) * batch)]
        if sorted(got) != sorted(wanted):
            raise AssertionError(f"{says} step {step} has {shown(got)}; expected the next {batch}, {shown(wanted)}.")


@exercise("pipeline")
def test_the_workers_share_each_batch(student, rng):
    workers = int(rng.integers(2, 5))
    size = int(rng.integers(2, 4))
    count = workers * size * int(rng.integers(3, 5)) + 1  # the workers' shares of an epoch differ
    check_pipeline(student, workers, workers, count, workers * size)
    check_pipeline(student, 1, 1, 12, 4)


@exercise("pipeline")
def test_a_worker_may_have_several_replicas_and_an_epoch_end_within_a_step(student, rng):
    workers, own = int(rng.integers(2, 4)), int(rng.integers(2, 4))
    batch = workers * own * 2
    check_pipeline(student, workers, workers * own, 2 * batch + batch // 2 + 1, batch)


# packs

PACKS = list_of(list_of(whole)).named("a list of packs, each a list of bytes")


def check_packs(student: Any, cases: list[tuple[list[int], int]]) -> None:
    asked = list(student.call("packs", cases, returns=PACKS))
    missed = [each for each in many.MISPACKED if all(got == many.packed(*case, wrong=each) for case, got in asked)]
    for case, got in asked:
        if got == many.packed(*case):
            continue
        says = f"`packs({case[0]}, {case[1]})` returned {shown(got, 120)}"
        if missed:
            raise Misconception(missed[0], f"{says}: {many.MISPACKED[missed[0]]}")
        flat = [size for pack in got for size in pack]
        assert sorted(flat) == sorted(case[0]), f"{says}; expected each gradient once, with its own bytes."
        assert flat == case[0][::-1], f"{says}; expected the gradients from the last to the first, in a pack, too."
        raise AssertionError(f"{says}; TensorFlow has other packs.")


@exercise("packs", 2.0)
def test_packs_are_tensorflow_s(student, rng):
    check_packs(student, many.cases_of_packs(rng))


@exercise("packs")
def test_without_a_limit_there_is_one_pack(student, rng):
    sizes = [4 * int(each) for each in rng.integers(1, 99, size=int(rng.integers(3, 6)))]
    check_packs(student, [(sizes, 0), ([*sizes, 4], 8)])


# epoch


def check_epoch(student: Any, losses: list[float]) -> None:
    answer = student.ask(many.handed_out, losses=losses)
    got, events = row(anything, list_of(row(text, truth, truth)))(answer, "Your notebook answered with")
    name, fault = fault_of(events, len(losses))
    if name:
        raise Misconception(name, f"{fault}.")
    assert not fault, f"{fault}."
    says = f"The losses were {shown(losses, 120)}; `epoch` returned"
    got = number(got, says)
    if np.isclose(got, sum(losses)):
        raise Misconception("sum", f"{says} {got:g}, their sum; expected their mean.")
    assert np.isclose(got, np.mean(losses), rtol=1e-4), f"{says} {got:g}; expected their mean."


@exercise("epoch")
def test_all_steps_are_handed_out_first(student, rng):
    check_epoch(student, [float(each) for each in rng.integers(1, 50, size=int(rng.integers(6, 10)))])


@exercise("epoch")
def test_it_returns_the_mean_of_many(student, rng):
    check_epoch(student, [float(each) / 4 for each in rng.integers(1, 50, size=int(rng.integers(15, 25)))])


# guesses

DEATHS = (
    "in step, worker:1 dies; worker:0",
    "in step, worker:0 dies; worker:1",
    "coordinator, worker:1 dies; the chief",
    "coordinator, ps:1 dies; the chief",
    "coordinator, the chief dies; ps:1",
)
test_every_death_has_a_recorded_guess = recorded("guesses", dict.fromkeys(DEATHS, one_of(["goes on", "ends"])))

# resume

EVERY = 5  # steps from one checkpoint to the next


def check_resume(student: Any, rng: np.random.Generator, last: int, lives: list[tuple[int, bool]]) -> None:
    """Let `resume` live, die, and live again, and compare its losses with a run that nothing interrupts."""
    batches = [(rng.normal(size=(4, 2)).astype(np.float32), rng.normal(size=4).astype(np.float32)) for _ in range(7)]
    start, rate, momentum = rng.normal(size=2) * 3, 0.05, 0.9
    answer = student.ask(
        many.lived,
        lives=[list(each) for each in lives],
        batches=[list(each) for each in batches],
        start=start.tolist(),
        rate=rate,
        momentum=momentum,
        last=last,
    )
    seen = row(list_of(number), list_of(whole), list_of(whole), whole, whole).named("a list of losses")
    told = list_of(seen, len(lives)).named("a list of losses")(answer, "`resume` returned, in one of its lives, in")
    wanted, done, kept = many.losses_of(batches, start, rate, momentum, last), 0, 0
    for life, ((dies, chief), (got, begun, saved, times, beyond)) in enumerate(zip(lives, told, strict=True), start=1):
        says = f"`last` is {last}, life {life}{'' if chief else ', not the chief'}:"
        begins = begun[0] if begun else last
        if begins != kept:
            after = f" (the one before died in step {done})" if life > 1 else ""
            words = f"{says} it began with `train({begins})`{after}; expected {kept}."
            if begins == 0 and not chief:
                raise Misconception("only_the_chief_restores", f"{words} Here all restore, not only the chief.")
            raise Misconception("begins_anew", words) if begins == 0 else AssertionError(words)
        assert not beyond, f"{says} it did step {last}, and more; expected step {last - 1} to be the last."
        if dies < 0:
            check_losses(says, got, wanted[kept:], kept)
        ends = dies if dies >= 0 else last
        odd = [step for step in saved if step % EVERY and step != last]
        if saved and not chief:
            raise Misconception("everyone_saves", f"{says} it changed the folder; expected only the chief to save.")
        if odd:
            raise Misconception("saves_too_often", f"{says} it saved after {odd[0]} steps; expected every {EVERY}.")
        due = [step for step in range(kept + EVERY, ends + 1, EVERY) if step <= last]
        missing = [step for step in due if chief and step not in saved]
        assert not missing, f"{says} after {missing[0]} steps there is no new checkpoint; expected every {EVERY}."
        most = (ends - kept) // EVERY + (ends == last and last % EVERY > 0) if chief else 0
        assert times <= most, f"{says} it saved {times} checkpoints in {ends - kept} steps; expected {most} at most."
        kept, done = (due[-1] if due and chief else kept), ends


def check_losses(says: str, got: list[float], wanted: np.ndarray, begins: int) -> None:
    assert len(got) == len(wanted), f"{says} it returned {len(got)} losses; expected {len(wanted)}, those of this life."
    alike = np.isclose(got, wanted, rtol=1e-3, atol=1e-4)
    if alike.all():
        return
    off = int(np.argmin(alike))
    if begins and off == 0:
        raise Misconception("model_not_saved", f"{says} step {begins} has another loss; is the model restored?")
    if begins and off <= 2:
        words = f"{says} step {begins} has the right loss, step {begins + off} another one; what else must be restored?"
        raise Misconception("optimizer_not_saved", words)
    raise AssertionError(f"{says} step {begins + off} has the loss {got[off]:.4g}; expected {wanted[off]:.4g}.")


@exercise("resume", 2.0)
def test_after_a_death_it_goes_on_as_if_nothing_had_been(student, rng):
    dies = int(rng.integers(11, 15))
    check_resume(student, rng, 20, [(dies, True), (-1, True)])
    check_resume(student, rng, 20, [(dies, True), (-1, False)])


@exercise("resume")
def test_it_may_die_again_and_be_started_when_all_is_done(student, rng):
    first, second = int(rng.integers(6, 10)), int(rng.integers(16, 20))
    check_resume(student, rng, 22, [(int(rng.integers(1, 5)), True), (first, True), (second, True), (-1, True)])
    check_resume(student, rng, 10, [(-1, True), (-1, True)])


@exercise("resume")
def test_others_restore_and_do_not_save(student, rng):
    check_resume(student, rng, 15, [(int(rng.integers(11, 15)), True), (-1, False)])
    check_resume(student, rng, 10, [(-1, True), (-1, False)])


# from_pod, from_slurm

RESOLVED = row(text, dict_of(), anything, anything).named("what a resolver tells")


def check_members(student: Any, function: str, cases: list[list[Any]], wanted: list[tuple[list[str], int]]) -> None:
    """Compare each case's resolver with the addresses of all workers and the own index."""
    answers = list_of(RESOLVED, len(cases))(
        student.ask(many.resolving, function=function, cases=cases), "Your notebook answered with"
    )
    for case, (kind, cluster, job, its_index), (addresses, index) in zip(cases, answers, wanted, strict=True):
        says = f"`{function}({', '.join(map(repr, case))})`"
        assert not kind, f"{says} returned {shown(kind)}; expected a ClusterResolver."
        if type(its_index) is str and its_index == str(index):
            raise Misconception("index_as_text", f"{says} has the index {its_index!r}, a text; expected an integer.")
        assert type(job) is str and job == "worker", f"{says} has the job {shown(job)}; expected 'worker'."
        its_index = whole(its_index, f"{says} has the index")
        assert its_index == index, f"{says} has the index {its_index}; expected {index}."
        assert set(cluster) == {"worker"}, f"{says} has the jobs {shown(sorted(cluster))}; expected only workers."
        listed = list_of(text)(cluster["worker"], f"{says} has the workers")
        assert len(listed) == len(addresses), f"{says} has {len(listed)} workers; expected {len(addresses)}."
        wrong = next((i for i, address in enumerate(addresses) if listed[i] != address), None)
        assert wrong is None, f"{says} has worker {wrong} at {shown(listed[wrong])}; expected {addresses[wrong]}."


@exercise("from_pod")
def test_a_pod_knows_all(student, rng):
    cases = []
    for name in rng.choice(["trainer", "digits-v2", "a-1-b", "x-10"], size=3, replace=False).tolist():
        count = int(rng.integers(11, 14))
        cases.append([f"{name}-{int(rng.integers(10, count))}", f"svc{int(rng.integers(9))}", count, 2000])
        cases.append([f"{name}-{int(rng.integers(1, 9))}", "all", count, int(rng.integers(1000, 9000))])
    wanted = []
    for hostname, service, count, port in cases:
        name, _, index = hostname.rpartition("-")
        wanted.append(([f"{name}-{i}.{service}:{port}" for i in range(count)], int(index)))
    check_members(student, "from_pod", cases, wanted)


@exercise("from_slurm")
def test_a_rank_is_on_the_node_on_which_slurm_starts_it(student, rng):
    cases = []
    for _ in range(3):
        numbers = [*rng.choice(range(2, 10), size=2, replace=False), rng.integers(10, 20), rng.integers(100, 200)]
        nodes = [f"n{each}" for each in sorted(map(int, numbers))]
        by_number, by_name = list(nodes), sorted(nodes)
        while nodes in (by_number, by_name):
            nodes = rng.permutation(by_number).tolist()
        counts = [1, 2, 2, 3]
        while 4 * counts[0] <= sum(counts):  # the first node has more than the mean
            counts = rng.permutation([1, 2, 3, int(rng.integers(2, 5))]).tolist()
        cases.append([nodes, counts, int(rng.integers(1, sum(counts))), int(rng.integers(2000, 9000))])
    wanted = [
        ([f"{node}:{port + i}" for node, count in zip(nodes, counts, strict=True) for i in range(count)], rank)
        for nodes, counts, rank, port in cases
    ]
    check_members(student, "from_slurm", cases, wanted)


# epoch_steps


@exercise("epoch_steps")
def test_an_epoch_of_both(student, rng):
    cases = [[60, 5, 4]]  # nothing is left
    for even in (
        False,
        False,
        False,
        True,
        True,
    ):  # whether the batches are enough for all replicas, the last one smaller
        batch, replicas = int(rng.integers(4, 12)), int(rng.integers(2, 6))
        batches = replicas * int(rng.integers(3, 9)) - (0 if even else int(rng.integers(1, replicas)))
        cases.append([batch * (batches - 1) + int(rng.integers(1, (batch + 1) // 2)), batch, replicas])
    asked = list(student.call("epoch_steps", cases, returns=row(whole, whole, whole)))
    missed = [
        each for each in many.MISCOUNTED if all(got == many.steps_in_epoch(*case, wrong=each) for case, got in asked)
    ]
    for case, got in asked:
        wanted = many.steps_in_epoch(*case)
        if got == wanted:
            continue
        says = f"`epoch_steps({', '.join(map(str, case))})` returned {got}"
        if missed:
            raise Misconception(missed[0], f"{says}: {many.MISCOUNTED[missed[0]]}")
        which = ("the Estimator's steps", "Keras's steps", "Keras's batch")
        place = next(i for i in range(3) if got[i] != wanted[i])
        raise AssertionError(f"{says}: {which[place]} are off." if place < 2 else f"{says}: {which[place]} is off.")
