"""What checks on replicas are made of: workers' graphs run side by side on servers of this process, and schedules by rule.

Truth is TensorFlow's: each worker's graph gets a session on its own server, and it is decided here whose step comes when
(`Workers`), down to the middle of a step (`replicas.Halfway`). So what is shared, lost or stale is exact, and no clock matters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across import placement, replicas
from autograder.probe.asking import probe
from cluster_truth import servers
from placing import imported

v1 = tf.compat.v1
CANNOT = "The graph that your code built cannot be run."
APART = "The graph that your code built does not hold together."
VARIABLES = ("VarHandleOp", "VariableV2", "Variable")


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Whatever a session raises at a student's graph, as a sentence."""
    try:
        yield
    except tf.errors.OpError as error:
        said = next((line for line in error.message.splitlines() if "evice" in line), "")
        raise AssertionError(f"TensorFlow refuses your placement: {said[:200]}" if said else CANNOT) from None
    except AssertionError:
        raise
    except Exception:
        raise AssertionError(CANNOT) from None


class Worker:
    """One worker's graph, with a session on its own server."""

    def __init__(self, graph_def: Any, step: str, index: int, opened: contextlib.ExitStack) -> None:
        self.index = index
        self.graph = imported(graph_def)
        try:
            self.step: Any = self.graph.get_operation_by_name(step)
        except (KeyError, ValueError):
            raise AssertionError(APART) from None
        self.variables = [op for op in self.graph.get_operations() if op.type in VARIABLES]
        self.session = servers().session(self.graph, ("worker", index))
        opened.callback(self.session.close)

    def value(self, variable: Any) -> Any:
        """The tensor that reads a variable."""
        if variable.type != "VarHandleOp":
            return variable.outputs[0]
        with self.graph.as_default(), tf.device(variable.device):
            return tf.raw_ops.ReadVariableOp(resource=variable.outputs[0], dtype=variable.get_attr("dtype"))

    def given(self, variable: Any, value: Any) -> Any:
        """The op that gives a variable its value."""
        with self.graph.as_default(), tf.device(variable.device):
            dtype = variable.get_attr("dtype")
            if variable.type != "VarHandleOp":
                return tf.raw_ops.Assign(ref=variable.outputs[0], value=tf.constant(value, dtype))
            return tf.raw_ops.AssignVariableOp(resource=variable.outputs[0], value=tf.constant(value, dtype))

    def halfway(self) -> replicas.Halfway:
        """The step as something that can be stopped before it writes. AssertionError if it writes nothing."""
        try:
            return replicas.Halfway(self.step)
        except ValueError:
            raise AssertionError("Your code returned a step that changes no variable.") from None

    def traced(self) -> placement.Trace:
        """Run a step, and see where its ops ran."""
        with told():
            return placement.trace_graph(self.graph, self.step, session=self.session)

    def traced_abroad(self) -> placement.Trace:
        """The same by a session on another worker's server, to which what is left open goes."""
        with told(), servers().session(self.graph, ("worker", (self.index + 1) % 3)) as session:
            return placement.trace_graph(self.graph, self.step, session=session)


@contextlib.contextmanager
def workers(graphs: Sequence[tuple[Any, str]], indices: Sequence[int]) -> Iterator[list[Worker]]:
    """The workers of `indices`, each with its graph and the name of its step; nothing is left on the servers from before."""
    v1.Session.reset(servers().servers["ps", 0].target)
    with contextlib.ExitStack() as opened:
        yield [Worker(graph, step, index, opened) for (graph, step), index in zip(graphs, indices, strict=True)]


# worker_step


@probe(graphs=2)
def stepped(student, batches, rate):
    """Build `worker_step`'s graph for each worker: the graphs, and the name of what is a step, or what came in its place."""
    from across import tracing

    found = []

    def loss_of(w, number):
        x, y = batches[number]
        return tf.reduce_mean(tf.square(tf.linalg.matvec(tf.constant(x), w) - tf.constant(y)))

    for index in range(2):
        with tf.Graph().as_default() as graph:
            got = student.worker_step(index, loss_of, rate)
            step = getattr(got, "op", got)
            is_one = isinstance(step, tf.Operation) and step.graph is graph
            first = [each.initializer.name for each in tf.compat.v1.global_variables()]
            name = step.name if is_one else ""
            found.append([tracing.quiet(graph, [name, *first]), name, type(got).__name__, first])
    return found


# update


@probe(graphs=1)
def updated(student, size, rate):
    """Build `update` of a variable on the ps, with a gradient of a worker."""
    from across import tracing

    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            w = tf.compat.v1.get_variable("w", initializer=tf.zeros([size]))
        gradient = tf.compat.v1.placeholder(tf.float32, [size], name="gradient")
        got = student.update(w, gradient, rate)
        step = getattr(got, "op", got)
        is_one = isinstance(step, tf.Operation) and step.graph is graph
        name = step.name if is_one else ""
        return tracing.quiet(graph, [name]), name, type(got).__name__


# replay

Moment = tuple[str, int]
Writes = list[tuple[float, int]]


def replayed(schedule: Sequence[Moment], w: float, rate: float, *, wrong: str = "") -> Writes:
    """What `replay` should return; or what it returns by a misconception."""
    copies: dict[int, tuple[float, int, int]] = {}
    fresh: set[int] = set()  # who has read and not written since
    writes: Writes = []
    for moment, (what, worker) in enumerate(schedule):
        if what == "read":
            if wrong != "first_read" or worker not in fresh:
                copies[0 if wrong == "one_copy" else worker] = w, len(writes), moment
            fresh.add(worker)
            continue
        fresh.discard(worker)
        copy, seen, began = copies[0 if wrong == "one_copy" else worker]
        w = {"always_fresh": w - rate * w, "lost": copy - rate * copy}.get(wrong, w - rate * copy)
        stale = len(writes) - seen
        stale = {"reads_count": moment - began - 1, "this_write_counts": stale + 1, "all_writes": len(writes)}.get(
            wrong, stale
        )
        writes.append((w, stale))
    return writes


MISREAD = {
    "one_copy": "each worker keeps its own copy; somebody's later read does not change it.",
    "always_fresh": "the gradient is that of the `w` that the worker has read, not of the `w` of the write.",
    "lost": "you wrote what was read minus the step: what others wrote meanwhile is lost.",
    "reads_count": "only writes make a gradient stale, not reads.",
    "this_write_counts": "a write that nobody came before has staleness 0.",
    "all_writes": "only writes since the worker's own read count.",
    "first_read": "a worker that reads twice before it writes has the `w` of its last read.",
}


def schedule_of(rng: np.random.Generator, workers: Sequence[int], length: int) -> list[Moment]:
    """A schedule of `workers`, each of which reads before it writes, now and then twice. Every misreading tells on it."""
    while True:
        reading: set[int] = set()
        found: list[Moment] = []
        for worker in (int(each) for each in rng.choice(workers, size=length)):
            writes = worker in reading and rng.random() < 0.75
            found.append(("write" if writes else "read", worker))
            reading = reading - {worker} if writes else reading | {worker}
        right = replayed(found, 64.0, 0.5)
        others = [replayed(found, 64.0, 0.5, wrong=each) for each in MISREAD]
        if len(right) >= 3 and all(each != right for each in others):
            return found


# late_steps

Batches = list[tuple[np.ndarray, np.ndarray]]


def late(weights: list[np.ndarray], batches: Batches, rate: float, delay: int, wrong: str = "") -> Any:
    """Losses and weights of a model of two layers, the first with tanh, whose gradients come late; or by a misconception."""
    now = [each.astype(np.float64) for each in weights]
    under_way: list[list[np.ndarray]] = []
    losses = []

    def apply(gradients: list[np.ndarray]) -> None:
        now[:] = [each - rate * gradient for each, gradient in zip(now, gradients, strict=True)]

    for x, y in batches:
        inner = np.tanh(x @ now[0] + now[1])
        error = inner @ now[2] + now[3] - y
        count = 1 if wrong == "sum" else error.size
        losses.append(np.sum(error**2) / count)
        above = 2 * error / count
        below = above @ now[2].T * (1 - inner**2)
        under_way.append([x.T @ below, below.sum(axis=0), inner.T @ above, above.sum(axis=0)])
        keep = {"at_once": 0, "one_too_early": max(0, delay - 1), "one_too_late": delay + 1}.get(wrong, delay)
        if len(under_way) > keep:
            apply(under_way.pop() if wrong == "newest_first" else under_way.pop(0))
    if wrong == "all_arrive":
        for each in under_way:
            apply(each)
    return np.array(losses), *now


MISLED = {
    "at_once": "each gradient is applied at once; it stays under way for `delay` steps.",
    "one_too_early": "gradients are applied a step too early: first when *more* than `delay` are under way.",
    "one_too_late": "gradients are applied a step too late: as soon as more than `delay` are under way.",
    "newest_first": "the newest gradient is applied; expected the oldest.",
    "sum": "the loss is the sum of the squares; expected their mean.",
    "all_arrive": "what is under way at the end was applied, too; it stays there.",
}


@probe
def delayed(student, weights, batches, rate, delay):
    inner, outer = (len(bias) for bias in weights[1::2])
    layers = [tf.keras.layers.Dense(inner, "tanh"), tf.keras.layers.Dense(outer)]
    model = tf.keras.Sequential([tf.keras.layers.Input([len(weights[0])]), *layers])
    model.set_weights(weights)
    given = [(tf.constant(x), tf.constant(y)) for x, y in batches]
    losses = student.late_steps(model, given, rate, delay)
    return [losses, *model.get_weights()]


# trainer


@probe(graphs=2)
def rehearsed(student, jobs, tasks, last_steps):
    """Try `trainer` as each task; of a worker's graph, what it ran again and again."""
    import tempfile
    import types

    from across import trainers

    trainer, until = student.trainer, {tuple(task): last for task, last in zip(tasks, last_steps, strict=True)}
    found = []
    with tempfile.TemporaryDirectory() as logs:

        def program(spec, job, index):
            tf.compat.v1.disable_eager_execution()
            hosts = {f"{name}_hosts": ",".join(addresses) for name, addresses in spec.items()}
            last = until[job, index]
            return trainer(types.SimpleNamespace(**hosts, job_name=job, task_index=index, logdir=logs, last_step=last))

        for tried in trainers.rehearse(program, jobs, [tuple(task) for task in tasks]):
            graph, ops = None, [name.split(":")[0] for name in tried.fetched]
            if tried.graph and ops:
                graph = tf.compat.v1.GraphDef.FromString(tried.graph)
                graph = tf.compat.v1.graph_util.extract_sub_graph(graph, ops)
                graph.node.add(name="a_whole_step", op="NoOp", input=[f"^{name}" for name in ops])
            made = [list(each) for each in tried.made]
            returned = tried.returned if isinstance(tried.returned, (int, float, np.generic)) else None
            did = [made, tried.unsplit, tried.joined, tried.led, tried.masters]
            found.append([*did, tried.before, tried.step, returned, graph])
    return found
