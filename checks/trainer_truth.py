"""What the check of `trainer` is made of: what a rehearsal says of itself, and what the other tasks of a real cluster saw.

A rehearsal runs in the student's own processes: it can fail an answer, and say why, but pays nothing alone. Then the program
runs as one task of a cluster of which a peer is all the others. What counts is what these have: that the task served them, and
what became of their variables, which a peer draws and NumPy trains on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import anything, list_of, maybe, number, row, shown, text, truth, whole
from autograder.probe.asking import Misconception, kept, probe
from missing_task import PATIENCE, Missing

MADE = list_of(row(truth, text, whole)).named("the servers that it made")
DID = {
    "made": MADE,
    "unsplit": truth,
    "joined": truth,
    "led": truth,
    "masters": list_of(text),
    "before": maybe(whole),
    "step": maybe(whole),
    "returned": maybe(number),
}
TRIED = row(*DID.values(), anything).named("what the program did")


# what a peer saw


@probe
def logdir(peer):
    """A new folder of the peer's, whose path is the `logdir` of all tasks: what is on a ps is saved by the ps, on its disk."""
    import tempfile

    return tempfile.mkdtemp()


@probe
def begun(student, hosts, job, index, last, logs):
    """Begin `trainer` as that task in a process of its own; a worker's stays when it returns, so that it serves."""
    import os
    import signal
    import time
    import types

    from across import fresh
    from across._process import supervision

    if "group" in kept:
        kept.pop("group").close()
    trainer, place = student.trainer, os.path.join(logs, "returned")
    os.makedirs(logs, exist_ok=True)

    def program():
        tf.compat.v1.disable_eager_execution()
        flags = {**hosts, "job_name": job, "task_index": index, "logdir": logs, "last_step": last}
        value = trainer(types.SimpleNamespace(**flags))
        with open(f"{place}~", "w") as file:
            file.write(repr(float(value)) if isinstance(value, (int, float, np.generic)) else "")
        os.rename(f"{place}~", place)
        if job == "worker":
            signal.pause()

    server = fresh.server_path(time.monotonic() + 120, cold=False)
    group = kept["group"] = supervision.Group(server and os.path.dirname(server))
    pickled = fresh.pickled_call("trainer", (program, (), {}))
    kept["call"], kept["place"] = fresh.Call(group, server, "trainer", "trainer", pickled, None, None), place


@probe
def ended(student, waits):
    """Whether the program has returned, and what, if a number; it is waited for if asked. Raises what it raised."""
    import os
    import time

    while not os.path.exists(kept["place"]):
        kept["group"].look()
        if kept["call"].member.code is not None and not os.path.exists(kept["place"]):
            kept["call"].outcome().result()
        if not waits:
            return [False, None]
        time.sleep(0.02)
    with open(kept["place"]) as file:
        value = file.read()
    return [True, float(value) if value else None]


ENDED = row(truth, maybe(number)).named("whether the program has returned, and what")


class Real(Missing):
    """The program as one task of a cluster of two ps and some workers, all others of which are a peer's."""

    def __init__(self, student: Any, peer: Any, job: str, index: int, last: int) -> None:
        jobs = {"ps": 2, "worker": index + 1 if job == "worker" else 1}
        super().__init__(peer, jobs, (job, index), f"as {job}:{index} of a cluster of processes, `trainer`")
        self.student, self.last, self.logs = student, last, peer.ask(logdir)

    def begin(self) -> None:
        """Start it, and wait until somebody listens at its address."""
        job, index = self.task
        hosts = {f"{each}_hosts": ",".join(addresses) for each, addresses in self.spec.items()}
        self.student.ask(begun, hosts=hosts, job=job, index=index, last=self.last, logs=self.logs)
        self.wait()


def check_ps_serves(student: Any, peer: Any, rng: np.random.Generator) -> None:
    """As a ps it serves a variable that another task puts there, and goes on serving."""
    real = Real(student, peer, "ps", 1, 5)
    real.begin()
    for _ in range(2):
        real.check_serves(rng, ("worker", 0))
        gone, _ = ENDED(student.ask(ended, waits=False), "Your notebook answered with")
        assert not gone, f"{real.says} returned; a ps only serves."


Weights = tuple[np.ndarray, np.ndarray]  # w, and Adagrad's sums


def trained(start: Weights, batches: Sequence[int], more: np.ndarray, at: int) -> Weights:
    """`start` after the chapter's `model` saw these batches; `w` gets `more` before that of index `at`, or at the end."""
    w, sums = (np.asarray(each, np.float64) for each in start)
    for index, batch in enumerate(batches):
        w = w + more * (index == at)
        x = np.asarray(tf.random.stateless_normal([20_000, 3], (batch, 0)), np.float64)
        gradient = 2 * x.T @ (x @ (w - [1.0, -2.0, 3.0])) / len(x)
        sums = sums + gradient**2
        w = w - 0.1 * gradient / np.sqrt(sums)
    return w + more * (at == len(batches)), sums


MODEL = (
    ("global_step", "/job:ps/task:0", "int64", []),
    ("w", "/job:ps/task:1", "float32", [3]),
    ("w/Adagrad", "/job:ps/task:1", "float32", [3]),
)
RATE = 8_000  # bytes a second that leave a ps on a connection: a step takes some hundredths of a second
TRIES = 3  # for a peer that gets no processor may look too late


@probe
def slowed(peer, rate):
    """Pace what this process's servers send from now on."""
    from across._process import network_card

    network_card.slow(rate)


@probe
def meddled(peer, absent, variables, first, last, more, seconds):
    """Be another worker: once the global step is from `first` to `last`, add `more` to the `variables`, the step and `w`.

    The global step before and after; None where it was never seen there.
    """
    import time

    v1, here, until = tf.compat.v1, kept["{}:{}".format(*absent)], time.monotonic() + seconds
    config = v1.ConfigProto(operation_timeout_in_ms=20_000, device_filters=here["filters"])
    with tf.Graph().as_default(), v1.Session(here["servers"][0].target, config=config) as session:
        adds, reads = [], []
        for (name, device, dtype, shape), value in zip(variables, more, strict=True):
            with tf.device(device):
                one = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=name)
                adds.append(tf.raw_ops.AssignAddVariableOp(resource=one, value=tf.constant(value, dtype)))
                reads.append(tf.raw_ops.ReadVariableOp(resource=one, dtype=dtype))
        while time.monotonic() < until:
            try:
                step = int(session.run(reads[0]))
                if step > last:
                    return None
                if step >= first:
                    session.run(adds)
                    return [step, int(session.run(reads[0]))]
            except tf.errors.OpError:  # the chief has not made them yet
                pass
            time.sleep(0.001)
    return None


MEDDLED = maybe(row(whole, whole))


@dataclass(frozen=True)
class Ran:
    """The program as a worker, to its end, and what was done to its variables meanwhile."""

    real: Real
    start: Weights
    by: int  # added to the global step; 0: nobody meddled, it comes too late
    more: np.ndarray  # added to `w`
    seen: list[int] | None  # the global step before and after that
    returned: Any

    @property
    def ways(self) -> list[tuple[int, int]]:
        """Where, among its steps, the peer's numbers may have come: the first whose batch, and whose gradient, knows them."""
        if self.seen is None:
            return [(0, 0)]
        places = range(self.seen[0], self.seen[1] - self.by + 3)  # within a step, too
        return [(batch, at) for batch in places for at in places]


def ran(student: Any, peer: Any, rng: np.random.Generator, index: int, last: int, before: int) -> Ran:
    """Run it once as worker `index`; where it does not come too late, the peer meddles in its middle."""
    by = int(rng.integers(20, 60)) if before < last else 0
    more = rng.uniform(0.5, 1.0, size=3) * rng.choice([-1, 1], size=3) * (by > 0)
    real = Real(student, peer, "worker", index, last + by)
    start = (np.zeros(3), np.full(3, 0.1))
    if index:
        start = rng.normal(size=3).astype(np.float32), rng.uniform(0.5, 1.5, size=3).astype(np.float32)
        values = (np.int64(before), *start)
        given = [(name, device, value) for (name, device, *_), value in zip(MODEL, values, strict=True)]
        real.begin_with(given)
    peer.ask(slowed, rate=RATE)
    real.begin()
    seen = None
    if by:
        within = {"first": before + 2, "last": last - 3, "more": [by, more.astype(np.float32)], "seconds": 40.0}
        told = peer.ask(meddled, deadline=PATIENCE, absent=real.task, variables=MODEL[:2], **within)
        seen = MEDDLED(told, "A peer saw")
    _, returned = ENDED(student.ask(ended, waits=True), "Your notebook answered with")
    return Ran(real, start, by, more, seen, returned)


def check_worker_trains(student: Any, peer: Any, rng: np.random.Generator, index: int, last: int, before: int) -> None:
    """As a worker it trains what is on the ps: as the chief from the start, else what a peer put there at step `before`.

    The peer trains, too, in the middle: whoever trains elsewhere and writes the result over undoes that, or misses it.
    """
    once = ran(student, peer, rng, index, last, before)
    for _ in range(TRIES - 1):
        if once.seen is None and once.by:
            once = ran(student, peer, rng, index, last, before)
    real, by = once.real, once.by
    step, *weights = real.has(*MODEL)
    came = f" came at the global step {before}, with `last_step` {real.last}" if before else ""
    says, reached = f"{real.says}{came}: ", max(real.last, before)
    assert once.seen is not None or not by, (
        f"{says}another task never read a global step between {before} and {last} on the ps; expected each step to count there."
    )
    assert step in (reached, reached + 1), f"{says}it left the ps at the global step {step}; expected {reached}."
    count = int(step) - by - before
    right = any(
        np.allclose(weights, trained(once.start, batches, once.more, at - before), rtol=1e-3, atol=1e-3)
        for first, at in once.ways
        for batches in [[each + by * (each >= first) for each in range(before, before + count)]]
    )
    meanwhile = " Another worker trained, too, meanwhile." * (by > 0)
    assert right, f"{says}the weights on the ps are not those that {count} steps of `model` make of them.{meanwhile}"
    fits = once.returned in ((reached, reached + 1) if before > last else (reached,))
    assert fits, f"{says}it returned {shown(once.returned)}; expected {reached}, the global step."


# what a rehearsal says


def check_rehearsed(tasks: dict[tuple[str, int], int], answer: Any) -> list[tuple[int, Any]]:
    """Fail what a rehearsal of `tasks`, each until its global step, has found wrong; the workers' graphs."""
    found = list_of(TRIED, len(tasks)).named("a rehearsal of each task")(answer, "Your notebook answered with")
    for (task, last), (*did, _) in zip(tasks.items(), found, strict=True):
        name, fault = fault_of(task, last, **dict(zip(DID, did, strict=True)))
        if name:
            raise Misconception(name, f"{fault}.")
        assert not fault, f"{fault}."
    return [(index, each[-1]) for (job, index), each in zip(tasks, found, strict=True) if job == "worker"]


def fault_of(
    task: tuple[str, int],
    last: int,
    *,
    made: Sequence[tuple[bool, str, int]],
    unsplit: bool,
    joined: bool,
    led: bool,
    masters: Sequence[str],
    before: int | None,
    step: int | None,
    returned: object,
) -> tuple[str, str]:
    """What is wrong with what a trainer did as `task`, see `Tried`: what it is called, or "", and a sentence; ("", "").

    It was told to train until the global step is `last`, which may have been reached before it began. Whoever reads the
    global step in a step may get it from before or after its own addition: a last step may come too many.
    """
    job, index = task
    says = f"as {job}:{index}, `trainer`"
    if unsplit:
        return (
            "hosts_unsplit",
            f"{says} did not split all hosts: a server wants a list of them, and each is a text of its own",
        )
    if len(made) != 1:
        return "", f"{says} made {len(made)} servers; expected one"
    ((same, *server),) = made
    if tuple(server) != (job, index):
        return "", f"{says} made the server of {server[0]}:{server[1]}"
    if not same:
        return "", f"{says} gave its server another cluster than its flags name"
    if job == "ps":
        return ("", "") if joined else ("", f"{says} did not wait in `join`: a ps only serves")
    if joined:
        return "worker_waits", f"{says} waits in `join`: only a ps does; a worker trains"
    on = masters[-1] or "no server of the cluster" if masters else "no server"
    if on != f"worker:{index}":
        return "", f"{says} has its session on {on}; expected its own"
    if led != (index == 0):
        words = "prepared the variables as a chief does" if led else "waited for a chief"
        return "everyone_chief" if led else "last_is_chief", f"{says} {words}; the chief is task 0"
    late = before is not None and before > last
    reached = max(last, before or 0)
    if late:
        says = f"the global step was {before} and `last_step` {last}: {says}"
    if step not in (reached, reached + 1):
        words = f"{says} stopped when the global step was {step}"
        words += "; expected one step at most" if late else f"; `last_step` was {last}"
        return "", f"{words}, and the global step counts the steps of all"
    if returned not in ((reached, reached + 1) if late else (last,)):
        flag = late and returned == last
        words = f"{says} returned {shown(returned)}{', which is `last_step`' if flag else ''}"
        return "the_flag" if flag else "", f"{words}; expected {reached}, the global step"
    return "", ""
