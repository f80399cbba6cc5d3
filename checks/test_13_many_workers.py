"""Trusted checks of chapter 13: texts, rules and datasets are values; what is to go on is ended, and begun again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import many_workers_truth as many
import roles_truth as roles
from across import hangs
from across.expecting import anything, between, dict_of, list_of, maybe, number, one_of, row, shown, text, whole
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
    assert its_job == job and type(its_index) in (int, str) and str(its_index) == str(index), (
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


def check_faults(student: Any, cases: list[roles.Case], words: set[str]) -> None:
    """Compare each text's faults, of `words` alone."""
    told = list(student.call("faults", [[each] for each, _ in cases], returns=WORDS))
    if not any(set(got) - {"json", "no cluster"} for _, got in told):
        raise Misconception("nothing_wrong", f"`faults` found none of the seven faults in {len(told)} texts.")
    for (_, wanted), (arguments, got) in zip(cases, told, strict=True):
        found, due = set(got) & words, wanted & words
        if found != due:
            why = roles.why(due, found)
            raise AssertionError(f"`faults({shown(arguments[0], 200)})` returned {shown(got)}; {why}")


def of_one_rule(word: str) -> Callable[[Any, np.random.Generator], None]:
    """The test of one of the seven rules: a fault by it is found where it is, and nowhere else."""

    @exercise("faults", 0.5)
    def test(student: Any, rng: np.random.Generator) -> None:
        check_faults(student, [*roles.single(rng), *roles.several(rng)], {word})

    test.__name__ = f"test_the_rule_of_{word}"
    return test


test_the_rule_of_job = of_one_rule("job")
test_the_rule_of_chief = of_one_rule("chief")
test_the_rule_of_evaluator = of_one_rule("evaluator")
test_the_rule_of_port = of_one_rule("port")
test_the_rule_of_twice = of_one_rule("twice")
test_the_rule_of_task = of_one_rule("task")
test_the_rule_of_index = of_one_rule("index")


@exercise("faults", 3.0)
def test_all_faults_of_a_text_are_found_and_no_other(student, rng):
    check_faults(student, [*roles.single(rng), *roles.several(rng)], set(roles.RULES))


# pipeline

ROWS = row(whole, list_of(row(list_of(number), list_of(whole))))
EPOCHS = 6  # of each dataset
LONG = 1_000_000  # batches: as good as endless; TensorFlow says less than 0 where it is endless, or cannot know


def check_pipeline(student: Any, workers: int, replicas: int, count: int, batch: int) -> None:
    """Compare each step's digits, over all workers, with the next ones of the data."""
    own, size, steps = replicas // workers, batch // replicas, EPOCHS * count // batch + 1
    answer = student.ask(many.piped, workers=workers, replicas=replicas, count=count, batch=batch, steps=steps)
    assert answer is not None, "`pipeline` returned no `tf.data.Dataset`."
    told = list_of(ROWS, workers).named("(images, labels) in each batch")(answer, "Your dataset has")
    found = [batches for _, batches in told]
    says = f"`pipeline` of digits 0 to {count - 1}, batch {batch}, {workers} workers, {replicas} replicas:"
    for worker, (has, batches) in enumerate(told):
        for images, labels in batches:
            assert [int(each) + 1000 for each in images] == labels, f"{says} some labels are of other images."
            turns = [(int(other) - int(one)) % count for one, other in itertools.pairwise(images)]
            assert sum(turns) < count, f"{says} a batch has {shown(images)}; expected the digits in their order."
        sizes = [len(images) for images, _ in batches[:own]]
        if sizes != [size] * len(sizes):
            raise Misconception("global_batch", f"{says} batches of {sizes[0]}; expected {size} for one replica.")
        if len(batches) < steps * own or 0 <= has < LONG:
            ends = f"{says} worker {worker} has {len(batches) if has < 0 else has} batches"
            raise Misconception("ends", f"{ends}; expected it to be endless.")
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


# culprit

OF_CONFIG = ("a copied TF_CONFIG", "a wrong port")
CAUSES = (*OF_CONFIG, "a full disk at a checkpoint", "NaN from one replica", "an uneven last batch")
WHO = row(text, text).named("a task and a cause")


def drawn_jobs(rng: np.random.Generator, cause: str, count: int) -> list[hangs.Drawn]:
    """Jobs of that cause; in half of them, at least, the guilty task is neither the first nor the last."""
    found: list[hangs.Drawn] = []
    while len(found) < count:
        job = hangs.drawn(rng, cause)
        if len(found) >= count // 2 or job.guilty in list(job.evidence)[1:-1]:
            found.append(job)
    return found


def check_culprits(student: Any, rng: np.random.Generator, causes: tuple[str, ...], each: int) -> None:
    """Logs of `each` drawn jobs of every cause, in any order."""
    drawn = [job for cause in causes for job in drawn_jobs(rng, cause, each)]
    jobs = [drawn[number] for number in rng.permutation(len(drawn))]
    cases = [[job.evidence] for job in jobs]
    asked = student.call(
        "culprit", cases, returns=WHO, before=lambda case: f"Of {len(case[0])} logs, `culprit` returned"
    )
    for job, (_, (who, why)) in zip(jobs, asked, strict=True):
        says = f"Of the logs of {len(job.evidence)} tasks, `culprit` returned {shown((who, why))}"
        assert who != job.guilty or why == job.cause, f"{says}: that task is guilty; the cause is another."
        assert who == job.guilty or why != job.cause, f"{says}: that is the cause; another task is guilty."
        assert (who, why) == (job.guilty, job.cause), f"{says}: another task is guilty, of something else."


@exercise("culprit", 0.8)
def test_who_was_told_wrongly_is_found(student, rng):
    check_culprits(student, rng, OF_CONFIG, 4)


@exercise("culprit", 1.2)
def test_the_guilty_task_is_found_whoever_complains(student, rng):
    check_culprits(student, rng, CAUSES, 4)


# epoch


RAN = row(list_of(number), whole, whole, list_of(list_of(whole), 2), whole)


def check_epoch(student: Any, peer: Any, rng: np.random.Generator, steps: int, held: int) -> None:
    """Have an epoch run by a cluster of the peer's, whose `held`th step ends after all others."""
    numbers = [int(each) for each in rng.integers(1 << 40, size=steps)]
    spec = peer.ask(many.gathered, steps=steps, held=held)
    got = student.ask(many.coordinated, spec=spec, steps=steps, numbers=numbers)
    losses, ended, stalled, taken, crowded = RAN(peer.ask(many.ran), "The peer saw")
    if ended < len(losses) or not losses:
        words = f"`epoch` of {steps} steps waited for nothing: the steps may still run."
        raise Misconception("no_wait", words)
    if 0 < stalled < len(losses):
        words = f"`epoch` of {steps} steps waited when {stalled} of them were handed out; expected all before."
        raise Misconception("one_by_one", words)
    if len(losses) != steps:
        words = f"`epoch` of {steps} steps handed out {len(losses)}."
        raise Misconception("too_few", words) if len(losses) < steps else AssertionError(words)
    its_own = any(each != numbers[: len(each)] for each in taken)
    assert not its_own, f"`epoch` of {steps} steps: they took no data of `batches`, or not one after the other."
    assert crowded == 1, (
        f"`epoch` of {steps} steps: a worker had {crowded} of them at once, which `schedule` never gives it."
    )
    assert all(taken), f"`epoch` of {steps} steps: only one of two workers had any."
    says = f"The losses were {shown(losses, 120)}; `epoch` returned"
    got = number(got, says)
    if np.isclose(got, sum(losses)):
        raise Misconception("sum", f"{says} {got:g}, their sum; expected their mean.")
    assert np.isclose(got, np.mean(losses), rtol=1e-4), f"{says} {got:g}; expected their mean."


@exercise("epoch")
def test_all_steps_are_handed_out_before_it_waits_and_their_mean_is_returned(student, peer, rng):
    check_epoch(student, peer, rng, steps=int(rng.integers(6, 20)), held=1)


@exercise("epoch")
def test_it_waits_for_no_later_step_either(student, peer, rng):
    steps = int(rng.integers(8, 20))
    check_epoch(student, peer, rng, steps, held=int(rng.integers(3, steps - 2)))


# guesses

DEATHS = (
    "in step, worker:1 dies; worker:0",
    "in step, worker:0 dies; worker:1",
    "coordinator, worker:1 dies; the chief",
    "coordinator, ps:1 dies; the chief",
    "coordinator, the chief dies; ps:1",
)
test_every_death_has_a_recorded_guess = recorded("guesses", dict.fromkeys(DEATHS, one_of(["goes on", "ends"])))

# worker

RETURNED = "`worker` returned"
EVERY = 5  # steps from one checkpoint to the next
NOTES = list_of(row(whole, number))
LOSSES = maybe(list_of(number)).named("a list of losses")
LIFE = row(list_of(maybe(whole), 2), *[row(anything, anything, list_of(anything))] * 2)


class Training:
    """A training by two workers, in some lives, of which each gets the chief's folder and batches that none before has seen.

    So the losses of a life can be told by who has the other worker's gradients, and the weights and momentum of its first
    step, and by nobody else: each process has its own part of the data alone.
    """

    def __init__(self, student: Any, peer: Any, rng: np.random.Generator, last: int) -> None:
        self.peer, self.rng, self.last = peer, rng, last
        self.answer, self.sources = student.ask(many.packed)
        self.batch, self.rate, self.momentum = 2 * int(rng.integers(3, 6)), 0.5, 0.9
        self.start = rng.normal(size=(3, 4))
        self.kept, self.files, self.past = 0, list[list[bytes]](), list[tuple[np.ndarray, np.ndarray]]()

    def _drawn(self) -> list[tuple[np.ndarray, np.ndarray]]:
        size = self.batch, 3
        return [
            (self.rng.normal(size=size).astype(np.float32), self.rng.integers(0, 4, size=self.batch))
            for _ in range(2 * self.last)
        ]

    def live(self, dies: int = -1) -> None:
        """One more life, in which `worker:1` dies in step `dies` if there is one. AssertionError for what is wrong with it."""
        drawn, half = self._drawn(), self.batch // 2
        parts = [
            [np.concatenate([each[i][k * half : (k + 1) * half] for each in drawn]) for i in (0, 1)] for k in (0, 1)
        ]
        codes, *both = LIFE(
            self.peer.ask(
                many.worked,
                answer=self.answer,
                sources=self.sources,
                files=self.files,
                parts=parts,
                start=self.start.tolist(),
                rate=self.rate,
                momentum=self.momentum,
                batch=self.batch,
                last=self.last,
                dies=dies,
            ),
            "The peer saw",
        )
        noted = [NOTES(many.lines_of(notes), f"worker:{index} noted") for index, (notes, _, _) in enumerate(both)]
        killed = codes[1] is not None and not both[1][1] and [step for step, _ in noted[1]][-1:] == [dies]
        order = sorted((0, 1), key=lambda index: codes[index] in (None, 0))  # who failed is heard first
        ends = {} if killed else {i: LOSSES(many.end_of(codes[i], both[i][1], f"worker:{i}"), RETURNED) for i in order}
        batches = [*self.past[: self.kept], *drawn[self.kept :]]
        wanted = many.losses_of(batches, self.start, self.rate, self.momentum)[: self.last]
        before = f", started again with a checkpoint of {self.kept} steps" if self.files else ""
        for index, notes in enumerate(noted):
            says = f"two workers, `last` is {self.last}{before}: worker:{index}"
            first = [(parts[index][0][:half], parts[index][1][:half])]
            part = many.losses_of(first, self.start, self.rate, self.momentum)[0] / 2
            check_life(says, notes, wanted, self.kept, dies, part)
            if not killed:
                returned, got = ends[index], [loss for _, loss in notes]
                right = returned is not None and len(returned) == len(got) and np.allclose(returned, got, atol=1e-3)
                says = f"worker:{index} returned {shown(returned)}; expected the {len(got)} losses of this life."
                if not right:
                    raise Misconception("losses_lost", says)
        (_, _, files), (_, _, others) = both
        before, own, other = ({bytes(name): its for name, its in each} for each in (self.files, files, others))
        if any(
            other.get(name) != before.get(name) for name in {*before, *own}
        ):  # what nobody else has is a scratch of its own
            raise Misconception("everyone_saves", "worker:1 changed the folder; expected only the chief to save.")
        reached = len(noted[0]) + self.kept
        due = reached // EVERY * EVERY if reached // EVERY * EVERY > self.kept else self.kept
        if due > self.kept and files == self.files:
            raise Misconception(
                "saves_nothing", f"after {reached} steps the folder has no new checkpoint of the chief's."
            )
        self.kept, self.files, self.past = due, files, batches


def check_life(says: str, notes: Any, wanted: list[float], kept: int, dies: int, part: float) -> None:
    """Compare the steps and losses that a worker noted with those of a run that nothing interrupts.

    `part` is what the worker's own replica has of the very first loss.
    """
    steps = [step for step, _ in notes]
    if not steps and kept < len(wanted):
        raise Misconception("not_noted", f"{says} called `workers.note` for no step.")
    if steps and steps[0] != kept:
        saved = f": the chief saves after every {EVERY} steps" if kept else ""
        words = f"{says} began with step {steps[0]}; expected {kept}{saved}."
        raise Misconception("begins_anew", words) if steps[0] == 0 else AssertionError(words)
    end = len(wanted) if dies < 0 else dies + 1
    if steps != list(range(kept, kept + len(steps))) or abs(len(steps) + kept - end) > (dies >= 0):
        raise AssertionError(f"{says} noted the steps {shown(steps)}; expected {kept} to {end - 1}.")
    for place, (step, loss) in enumerate(notes):
        if not np.isclose(loss, wanted[step], rtol=1e-3, atol=1e-3):
            told = f"{says} noted the loss {loss:.4g} of step {step}; expected {wanted[step]:.4g}"
            if place == 0 and step:
                raise Misconception("weights_not_restored", f"{told}: are model and data those of the checkpoint?")
            if place == 1 and step > 1:
                raise Misconception("optimizer_not_saved", f"{told}: the step before was right; what else is restored?")
            if place == 0:
                if np.isclose(loss, wanted[step] / 2, rtol=1e-3):
                    raise Misconception("mean_of_losses", f"{told}, twice that: add the parts of all replicas.")
                if np.isclose(loss, wanted[step] * 2, rtol=1e-3):
                    raise Misconception(
                        "each_replica_s_mean", f"{told}, half of it: divide by `batch`, not by a share."
                    )
                if np.isclose(loss, part, rtol=1e-3):
                    raise Misconception("no_sum", f"{told}: the loss of all replicas, not of this one.")
            raise AssertionError(f"{told}: which gradients were added, and which batch was it?")


@exercise("worker", 2.0)
def test_two_workers_train_as_one_device_does(student, peer, rng):
    Training(student, peer, rng, int(rng.integers(3, 5))).live()


@exercise("worker", 3.0)
def test_after_a_death_both_go_on_as_if_nothing_had_been(student, peer, rng):
    training = Training(student, peer, rng, 12)
    training.live(dies=int(rng.integers(6, 9)))
    training.live()


@exercise("worker")
def test_a_start_when_all_is_done_does_nothing(student, peer, rng):
    training = Training(student, peer, rng, 5)
    training.live()
    training.live()


# from_pod, from_slurm

RESOLVED = row(text, dict_of(), anything, anything).named("what a resolver tells")


def resolved(student: Any, function: str, cases: list[list[Any]]) -> Iterator[tuple[str, Any, str, Any]]:
    """What the resolver of each case tells: how a sentence on it begins, the cluster, the own job and index."""
    answers = list_of(RESOLVED, len(cases))(
        student.ask(many.resolving, function=function, cases=cases), "Your notebook answered with"
    )
    for case, (kind, cluster, job, its_index) in zip(cases, answers, strict=True):
        says = f"`{function}({', '.join(map(repr, case))})`"
        assert not kind, f"{says} returned {shown(kind)}; expected a ClusterResolver."
        yield says, cluster, job, its_index


def check_members(student: Any, function: str, cases: list[list[Any]], wanted: list[list[str]]) -> None:
    """Compare each case's resolver with the addresses of all workers."""
    told = resolved(student, function, cases)
    for (says, cluster, *_), addresses in zip(told, wanted, strict=True):
        assert set(cluster) == {"worker"}, f"{says} has the jobs {shown(sorted(cluster))}; expected only workers."
        listed = list_of(text)(cluster["worker"], f"{says} has the workers")
        assert len(listed) == len(addresses), f"{says} has {len(listed)} workers; expected {len(addresses)}."
        wrong = next((i for i, address in enumerate(addresses) if listed[i] != address), None)
        assert wrong is None, f"{says} has worker {wrong} at {shown(listed[wrong])}; expected {addresses[wrong]}."


def check_own(student: Any, function: str, cases: list[list[Any]], wanted: list[int]) -> None:
    """Compare each case's resolver with the own job and index."""
    for (says, _, job, its_index), index in zip(resolved(student, function, cases), wanted, strict=True):
        if type(its_index) is str and its_index == str(index):
            raise Misconception("index_as_text", f"{says} has the index {its_index!r}, a text; expected an integer.")
        assert type(job) is str and job == "worker", f"{says} has the job {shown(job)}; expected 'worker'."
        its_index = whole(its_index, f"{says} has the index")
        assert its_index == index, f"{says} has the index {its_index}; expected {index}."


def pods(rng: np.random.Generator) -> list[list[Any]]:
    """Host name, service, count and port: pods with one digit and with two, of names with dashes and without."""
    cases = []
    for name in rng.choice(["trainer", "digits-v2", "a-1-b", "x-10"], size=3, replace=False).tolist():
        count = int(rng.integers(11, 14))
        cases.append([f"{name}-{int(rng.integers(10, count))}", f"svc{int(rng.integers(9))}", count, 2000])
        cases.append([f"{name}-{int(rng.integers(1, 9))}", "all", count, int(rng.integers(1000, 9000))])
    return cases


@exercise("from_pod")
def test_a_pod_knows_where_all_are(student, rng):
    cases, wanted = pods(rng), []
    for hostname, service, count, port in cases:
        name = hostname.rpartition("-")[0]
        wanted.append([f"{name}-{i}.{service}:{port}" for i in range(count)])
    check_members(student, "from_pod", cases, wanted)


@exercise("from_pod")
def test_a_pod_knows_which_it_is(student, rng):
    cases = pods(rng)
    check_own(student, "from_pod", cases, [int(hostname.rpartition("-")[2]) for hostname, *_ in cases])


def allocations(rng: np.random.Generator) -> list[list[Any]]:
    """Nodes, counts, rank and port: the nodes in no order that a sort gives, the first with more tasks than the mean."""
    cases = []
    for _ in range(3):
        numbers = [*rng.choice(range(2, 10), size=2, replace=False), rng.integers(10, 20), rng.integers(100, 200)]
        nodes = [f"n{each}" for each in sorted(map(int, numbers))]
        by_number, by_name = list(nodes), sorted(nodes)
        while nodes in (by_number, by_name):
            nodes = rng.permutation(by_number).tolist()
        counts = [1, 2, 2, 3]
        while 4 * counts[0] <= sum(counts):
            counts = rng.permutation([1, 2, 3, int(rng.integers(2, 5))]).tolist()
        cases.append([nodes, counts, int(rng.integers(1, sum(counts))), int(rng.integers(2000, 9000))])
    return cases


@exercise("from_slurm")
def test_a_rank_is_on_the_node_on_which_slurm_starts_it(student, rng):
    cases = allocations(rng)
    wanted = [
        [f"{node}:{port + i}" for node, count in zip(nodes, counts, strict=True) for i in range(count)]
        for nodes, counts, _, port in cases
    ]
    check_members(student, "from_slurm", cases, wanted)


@exercise("from_slurm")
def test_a_task_knows_its_rank(student, rng):
    cases = allocations(rng)
    check_own(student, "from_slurm", cases, [rank for _, _, rank, _ in cases])


# epoch_steps

PORTED = ("Estimator", "Keras", "batch for Keras")
test_every_number_of_a_port_is_recorded = recorded("epoch_steps", dict.fromkeys(PORTED, between(1, 1000, whole)))
