"""What checks on placement are made of: running a student's graph, programs with known placements, schedules of tasks.

Truth is never written down here: TensorFlow's own placer says where an op went (`ran`, `Program`), and the whitepaper's
greedy rule is computed afresh (`greedy`). See Abadi et al., "TensorFlow: Large-Scale Machine Learning on Heterogeneous
Distributed Systems" (2015), section 3.2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from across import expecting
from autograder.probe import graphs

v1 = tf.compat.v1
TIMEOUT = 120_000  # milliseconds for one run of a student's graph: the question's limit comes first
WORDS = "amber birch cedar delta ember fjord grove heath inlet jetty knoll lagoon maple north oasis prism".split()


def device_of(name: object) -> str | None:
    """ "/CPU:2", "/device:CPU:2" and "cpu:2" are "CPU:2"; anything else is None."""
    return expecting.device.read(name) if expecting.device.fits(name) else None


def session(graph: tf.Graph, cpus: int = 4) -> Any:
    """A session on so many logical CPUs that rewrites nothing: what runs is what the graph says."""
    as_written = v1.GraphOptions(
        rewrite_options=RewriterConfig(disable_meta_optimizer=True),
        optimizer_options=v1.OptimizerOptions(opt_level=v1.OptimizerOptions.L0),
    )
    threads = {"inter_op_parallelism_threads": 2, "intra_op_parallelism_threads": 1}
    config = v1.ConfigProto(device_count={"CPU": cpus, "GPU": 0}, graph_options=as_written, **threads)
    return v1.Session(graph=graph, config=config)


def ran(running: Any, fetches: list[Any], feed: dict[Any, Any] | None = None) -> tuple[dict[str, str], list[Any]]:
    """Run `fetches`: the device on which each op really ran, by name, and the values. AssertionError if it cannot."""
    seen = v1.RunMetadata()
    options = v1.RunOptions(output_partition_graphs=True, timeout_in_ms=TIMEOUT)
    try:
        values = running.run(fetches, feed, options=options, run_metadata=seen)
    except tf.errors.OpError as error:
        said = next((line for line in error.message.splitlines() if "evice" in line), "it does not run")
        raise AssertionError(f"TensorFlow refuses your placement: {said[:200]}") from None
    except Exception:  # ValueError, TypeError, and whatever else a session raises at what a student's graph holds
        raise AssertionError("The graph that your code built cannot be run on inputs of the right shape.") from None
    nodes = [node for part in seen.partition_graphs for node in part.node]
    return {node.name: node.device.split("device:")[-1] for node in nodes}, values


def imported(graph_def: Any) -> tf.Graph:
    """The student's graph, ready to run. AssertionError if it is none, does not hold together, or would cost too much."""
    assert type(graph_def).__name__ == "GraphDef", "Your code did not lead to a graph that can be run."
    try:
        return graphs.imported(graph_def)
    except graphs.GraphError as error:
        raise AssertionError(str(error)) from None


def names(rng: np.random.Generator, count: int) -> list[str]:
    """Fresh names for ops."""
    return [f"{word}_{rng.integers(10, 99)}" for word in rng.permutation(WORDS)[:count]]


def some_devices(rng: np.random.Generator, count: int) -> list[str]:
    """`count` of the four devices, in any order."""
    return [f"/cpu:{i}" for i in rng.permutation(4)[:count]]


Wish = tuple[str, str | None, str | None]  # name, pin, variable


class Program:
    """Ops that can be wished for, one after the other, and run: TensorFlow itself says where they went."""

    def __init__(self, default: str) -> None:
        self.default = default
        self.graph = tf.Graph()
        self.session = session(self.graph)
        self.handles: dict[str, Any] = {}
        with self.graph.as_default(), tf.device(default):
            self.one = v1.placeholder(tf.float32, [], name="one")

    def add(self, wishes: Sequence[Wish], variables: set[str]) -> None:
        """Create the ops; those named in `variables` are variables."""
        with self.graph.as_default():
            for name, pin, variable in wishes:
                with tf.device(pin or self.default):
                    if name in variables:
                        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name=name, name=name)
                        self.handles[name] = handle
                        tf.raw_ops.AssignVariableOp(resource=handle, value=self.one, name=f"{name}_first")
                    elif variable is None:
                        tf.raw_ops.AddV2(x=self.one, y=self.one, name=name)
                    elif len(name) % 2:  # the wishes do not tell reading from writing, nor do the rules
                        tf.raw_ops.ReadVariableOp(resource=self.handles[variable], dtype=tf.float32, name=name)
                    else:
                        tf.raw_ops.AssignAddVariableOp(resource=self.handles[variable], value=self.one, name=name)

    def run(self) -> dict[str, str]:
        """Run every op and return where each ran."""
        first = [op for op in self.graph.get_operations() if op.type == "AssignVariableOp"]
        rest = [op for op in self.graph.get_operations() if op.type not in ("AssignVariableOp", "Placeholder")]
        began, _ = ran(self.session, first, {self.one: 1.0}) if first else ({}, [])
        return {**began, **ran(self.session, rest, {self.one: 1.0})[0]}


def elsewhere(rng: np.random.Generator, *taken: str) -> str:
    """A device that is none of `taken`."""
    return str(rng.choice([name for name in (f"/cpu:{i}" for i in range(4)) if name not in taken]))


def wishes(
    rng: np.random.Generator, default: str, plain: list[str], variables: list[str], touching: list[str]
) -> list[Wish]:
    """Fresh wishes on which every rule tells: variables first, then the rest in any order, pinned or not by turns."""
    homes = {name: elsewhere(rng, default) for name in variables}
    rest: list[Wish] = [(name, None if i % 3 == 0 else elsewhere(rng, default), None) for i, name in enumerate(plain)]
    for i, name in enumerate(touching):
        owner = variables[i // 2 % len(variables)]
        rest.append((name, None if i % 2 else elsewhere(rng, homes[owner]), owner))
    first: list[Wish] = [(name, homes[name], None) for name in variables]
    return first + [rest[i] for i in rng.permutation(len(rest))]


def by_rules(ops: Sequence[Wish], default: str, before: dict[str, str], without: str) -> dict[str, str | None]:
    """Where the four rules place `ops`, as somebody would who knows all but the one called `without`."""
    found: dict[str, str | None] = {} if without == "rule 1" else dict(before)
    for name, pin, variable in ops:
        if name not in found:
            home = found.get(variable, before.get(variable)) if variable and without != "rule 0" else None
            found[name] = (pin if without == "rule 0, which beats a pin" else None) or home
            found[name] = found[name] or (pin if without != "rule 2" else None) or default
    return found


MISSED = {
    "rule 1": "an earlier run placed it there: see rule 1",
    "rule 0, which beats a pin": "it touches a variable, and rule 0 beats its pin",
    "rule 0": "it touches a variable, and rule 0 beats rules 2 and 3",
    "rule 2": "it is pinned there: see rule 2",
}


Spans = dict[str, tuple[str, float, float]]  # name -> device, start, end


def spans(tasks: list[tuple[Any, ...]], placed: dict[str, str], copy: float) -> Spans:
    """When each task runs: a device does one at a time, in order, and a copy between devices takes `copy` seconds."""
    found: Spans = {}
    free: dict[str, float] = {}
    for name, seconds, inputs in tasks:
        device = placed[name]
        arrivals = [found[i][2] + copy * (found[i][0] != device) for i in inputs]
        start = max([free.get(device, 0.0), *arrivals])
        found[name] = (device, start, start + seconds)
        free[device] = start + seconds
    return found


def greedy(tasks: list[tuple[Any, ...]], devices: list[str], copy: float, *, by: str = "end") -> dict[str, str]:
    """Each task where it ends soonest; or, by a misconception, where a device is "free", or "all" tasks end, soonest."""
    chosen: dict[str, str] = {}
    for i, (name, _, _) in enumerate(tasks):
        free = {device: 0.0 for device in devices}
        for device, _, end in spans(tasks[:i], chosen, copy).values():
            free[device] = max(free[device], end)
        tried = {device: spans(tasks[: i + 1], {**chosen, name: device}, copy) for device in devices}
        cost = {
            "free": free,
            "end": {device: found[name][2] for device, found in tried.items()},
            "all": {device: max(end for _, _, end in found.values()) for device, found in tried.items()},
        }[by]
        chosen[name] = min(devices, key=cost.__getitem__)
    return chosen


def misplaced(
    tasks: list[tuple[Any, ...]], devices: list[str], copy: float, placed: dict[str, str], *, ties: bool
) -> tuple[int, str, dict[str, float]] | None:
    """The first task that would end sooner elsewhere, given where those before it are; with `ties`, as soon, but earlier.

    Its number, the device that it should be on, and when it would end on each; None if there is no such task.
    """
    for i, (name, _, _) in enumerate(tasks):
        ends = {device: spans(tasks[: i + 1], {**placed, name: device}, copy)[name][2] for device in devices}
        best = min(devices, key=ends.__getitem__)
        if ends[placed[name]] > ends[best] or (ties and placed[name] != best):
            return i, best, ends
    return None


def drawn(rng: np.random.Generator, count: int) -> list[tuple[Any, ...]]:
    """A fresh program of tasks; whole numbers of seconds, so that ties are exact."""
    fresh = names(rng, count)
    tasks = []
    for i, name in enumerate(fresh):
        inputs = rng.permutation(i)[: int(rng.integers(0, 3))] if i else []
        tasks.append((name, float(rng.integers(1, 6)), tuple(fresh[j] for j in sorted(inputs))))
    return tasks


def telling(rng: np.random.Generator, devices: list[str], copy: float, count: int) -> list[tuple[Any, ...]]:
    """A program on which the likely misconceptions give something else than the right placement, and than each other."""
    while True:
        tasks = drawn(rng, count)
        wanted = greedy(tasks, devices, copy)
        wrong = [
            greedy(tasks, devices, 0.0),
            greedy(tasks, devices, copy, by="free"),
            greedy(tasks, devices, copy, by="all"),
            greedy(tasks, devices[::-1], copy),
            greedy(tasks, devices[:2], copy),
        ]
        told_apart = {tuple(each.values()) for each in (wanted, *wrong)}
        late = [misplaced(tasks, devices, copy, each, ties=False) for each in (*wrong[:3], wrong[-1])]  # whatever a tie
        if len(told_apart) == 1 + len(wrong) and len(set(wanted.values())) > 1 and None not in late:
            return tasks
