"""What checks on sharded variables are made of: a student's graph, built there, run here over servers of the checker's own.

`OnWorker` is a Keras model's forward pass, `Rows` a look-up in a table of parts, `Step` a step of gradient descent. Each gives
the variables fresh values, says where ops ran, and counts what was sent (`across.traffic`, which a test holds against real
clusters).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from across import placement, traffic
from across.expecting import anything, list_of, row, text
from autograder.probe.asking import probe
from cluster_truth import Master, Servers
from placing import imported

v1 = tf.compat.v1
WRITES = ("AssignVariableOp", "AssignSubVariableOp", "AssignAddVariableOp", "ResourceApplyGradientDescent")
SCALARS = 64  # bytes that a step may send to and fro besides weights and gradients: a rate, a loss
FAR = 100.0  # how far targets are from what a model says: so far that who clips gradients clips these
HANDLES = list_of(text)
TRACED = row(anything, list_of(text), list_of(text), HANDLES).named("a graph that can be run")


@cache
def servers() -> Servers:
    """Three parameter servers and three workers, started once."""
    return Servers(ps=3, worker=3)


def full(job: str, index: int) -> str:
    """The full name of a task's only device."""
    return f"/job:{job}/replica:0/task:{index}/device:CPU:0"


def task_of(device: str) -> str:
    """ "ps:1" of "ps:1 CPU:0"."""
    return device.rpartition(" ")[0]


class Graph:
    """A student's graph, ready to run on `master`: its inputs, its output and the variables that the check gave it."""

    def __init__(self, answer: Any, values: Mapping[str, np.ndarray], homes: Mapping[str, str] | None = None) -> None:
        """`values` of the variables by name; where their `homes` are given, each is to be there (nobody may move it)."""
        graph_def, inputs, outputs, self.handles = TRACED(answer, "Your code led to")
        self.graph = imported(graph_def)
        assert len(outputs) == 1, "Your code returned no single tensor; expected one."
        for op in self.graph.get_operations():  # the notebook is in no cluster of ours
            assert "job:localhost" not in op.device, (
                f"Your code pinned {op.type} to {op.device}, in the notebook; expected a task of the cluster."
            )
        try:
            self.out: Any = self.graph.get_tensor_by_name(outputs[0])
            self.inputs: list[Any] = [self.graph.get_tensor_by_name(name) for name in inputs]
            self.own = {name: self.graph.get_operation_by_name(name) for name in self.handles}
            fits = set(self.handles) == set(values) and all(op.type == "VarHandleOp" for op in self.own.values())
            for name, home in (homes or {}).items():
                fits = fits and tf.DeviceSpec.from_string(self.own[name].device) == tf.DeviceSpec.from_string(home)
            if not fits:
                raise KeyError
            self.writes = [op for op in self.graph.get_operations() if op.type in WRITES]
            with self.graph.as_default():
                self.first = [self._write(name, value) for name, value in values.items()]
                self.last = {name: self._read(name, value.dtype) for name, value in values.items()}
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None

    def _write(self, name: str, value: np.ndarray) -> Any:
        with tf.device(self.own[name].device):
            return tf.raw_ops.AssignVariableOp(resource=self.own[name].outputs[0], value=value)

    def _read(self, name: str, dtype: Any) -> Any:
        with tf.device(self.own[name].device):
            return tf.raw_ops.ReadVariableOp(resource=self.own[name].outputs[0], dtype=tf.as_dtype(dtype))

    def run(self, master: Master, feed: Sequence[np.ndarray], also: Sequence[Any] = ()) -> None:
        """Run the output and the ops `also`: `value`, `after` (the variables then), `seen` (what ran where), `sent`."""
        fed = dict(zip(self.inputs, feed, strict=True))
        fetches = [self.out, *also]
        try:
            with servers().session(self.graph, master) as running:
                running.run(self.first)
                self.value = np.asarray(running.run(fetches, fed)[0])
                self.after = running.run(self.last)
                self.seen = placement.trace_graph(self.graph, fetches, fed, session=running)
                self.sent = traffic.count(running, [self.out.op, *also], fed)
        except tf.errors.OpError as error:
            lines = error.message.splitlines()
            said = next((line for line in lines if "evice" in line or "indices" in line), "it does not run")
            raise AssertionError(f"TensorFlow refuses what your code built: {said[:200]}") from None
        except Exception:  # whatever a session raises at what a student's graph holds
            raise AssertionError("The graph that your code built cannot be run.") from None


@probe(graphs=1)
def built_on_worker(student, spec, index, sizes, rows):
    """Call `on_worker` with a model that has no variables yet, in a graph; its weights' names in the order they were made."""
    from across import tracing

    layers = [tf.keras.layers.Dense(size, activation="relu") for size in sizes[1:]]
    model = tf.keras.Sequential(layers)
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [rows, sizes[0]], name="the_batch")
        out = student.on_worker(model, x, spec, index)
        if not tf.is_tensor(out) or out.graph is not graph:
            raise TypeError("on_worker(model, x, spec, index) did not return the model's output")
        weights = [each.value for layer in layers for each in (layer.kernel, layer.bias)]
        if any(each.graph is not graph for each in weights):
            raise TypeError("the model's variables are in another graph than x")
        return tracing.quiet(graph, [out.name]), [x.name], [out.name], [each.handle.op.name for each in weights]


class OnWorker(Graph):
    """The student's `on_worker`, for a cluster of `ps` servers, run with a master that is not worker `index`."""

    def __init__(self, student: Any, rng: np.random.Generator, ps: int, index: int) -> None:
        ports = iter(2222 + rng.permutation(99))
        spec = {job: [f"machine-{job}-{i}:{next(ports)}" for i in range(n)] for job, n in (("ps", ps), ("worker", 3))}
        self.index, self.ps = index, ps
        master = int(rng.choice([each for each in range(3) if each != index]))
        sizes, rows = [int(size) for size in rng.integers(3, 7, size=4)], int(rng.integers(2, 5))
        self.says = f"`on_worker(model, x, spec, {index})`, with {ps} ps in `spec`,"
        answer = student.ask(built_on_worker, spec=spec, index=index, sizes=sizes, rows=rows)
        self.handles = HANDLES(TRACED(answer, "Your code led to")[3], "The variables are")
        assert len(set(self.handles)) == 2 * (len(sizes) - 1), f"{self.says} did not make the model's variables."
        x = np.abs(rng.normal(size=(rows, sizes[0]))).astype(np.float32)
        values, wanted = {}, x
        for place, (before, after) in enumerate(itertools.pairwise(sizes)):
            kernel, bias = (np.abs(rng.normal(size=shape)).astype(np.float32) for shape in ([before, after], [after]))
            values |= {self.handles[2 * place]: kernel, self.handles[2 * place + 1]: bias}
            wanted = np.maximum(wanted @ kernel + bias, 0.0)
        super().__init__(answer, values)
        self.run(("worker", master), [x])
        self.right = self.value.shape == wanted.shape and np.allclose(self.value, wanted, rtol=1e-4)
        self.master = f"worker:{master}"
        there = {op.name: task_of(op.device) for op in self.seen.everything}
        self.homes = [there.get(name, "nowhere") for name in self.handles]
        of_variables = ("VarHandleOp", "ReadVariableOp")
        tasks = {op.type: tf.DeviceSpec.from_string(op.device).task for op in self.graph.get_operations()}
        self.left_open = {kind for kind, task in tasks.items() if task is None}
        self.elsewhere = [(op.type, task_of(op.device)) for op in self.seen if op.type not in of_variables]


@probe(graphs=1)
def built_rows(student, lengths, width, homes, worker, count):
    """Build `lookup` in a graph whose parts are on `homes`."""
    from across import tracing

    with tf.Graph().as_default() as graph:
        parts = []
        for i, (length, home) in enumerate(zip(lengths, homes, strict=True)):
            with tf.device(home):
                parts.append(tf.compat.v1.get_variable(f"part_{i}", [length, width], use_resource=True))
        with tf.device(worker):
            ids = tf.compat.v1.placeholder(tf.int64, [count], name="the_ids")
            out = student.lookup(list(parts), ids)
        if not tf.is_tensor(out) or out.graph is not graph:
            raise TypeError("lookup(parts, ids) did not return a tensor of this graph")
        return tracing.quiet(graph, [out.name]), [ids.name], [out.name], [part.handle.op.name for part in parts]


class Rows(Graph):
    """The student's `lookup` of `ids` in a table of parts of `lengths` rows, each on a server of its own."""

    def __init__(self, student: Any, rng: np.random.Generator, lengths: list[int], ids: list[int]) -> None:
        places = [int(place) for place in rng.permutation(3)[: len(lengths)]]
        worker, master = (int(i) for i in rng.permutation(3)[:2])
        homes, width = [full("ps", place) for place in places], int(rng.integers(5, 9))
        answer = student.ask(
            built_rows, lengths=lengths, width=width, homes=homes, worker=full("worker", worker), count=len(ids)
        )
        self.table = rng.normal(size=(sum(lengths), width)).astype(np.float32)
        cuts = np.cumsum(lengths)[:-1]
        names = [f"part_{i}" for i in range(len(lengths))]
        values = dict(zip(names, np.split(self.table, cuts), strict=True))
        super().__init__(answer, values, dict(zip(names, homes, strict=True)))
        with self.graph.as_default(), tf.device(full("worker", worker)):
            self.out = tf.identity(self.out)  # the rows arrive, wherever they were put together
        self.run(("worker", master), [np.asarray(ids, np.int64)])
        self.says = f"`lookup(parts, ids)`, with parts of {lengths} rows and ids {ids},"
        parts_of = np.searchsorted(cuts, ids, side="right")
        self.asked = {f"ps:{place}": int(np.sum(parts_of == part)) for part, place in enumerate(places)}
        self.row_bytes = 4 * width
        self.total = traffic.sent_by(self.sent)

    def gives(self, ids: Sequence[int]) -> bool:
        """Whether the value is these rows of the table."""
        wanted = self.table[list(ids)]
        return self.value.shape == wanted.shape and np.allclose(self.value, wanted, atol=1e-5)


@probe(graphs=1)
def traced_step(student, homes, sizes, rows, rate, task, frozen):
    """Trace `train_step` of a model whose layers' weights are on `homes`, as their `.device` says there, too.

    The layers `frozen` are not to be trained.

    They are variables of a graph around it: in a process that is in no cluster only such a one can be on a ps.
    """
    from across import tracing

    activations = ["tanh"] * (len(homes) - 1) + [None]
    layers = [tf.keras.layers.Dense(size, activation=act) for size, act in zip(sizes[1:], activations, strict=True)]
    model = tf.keras.Sequential(layers)
    weights = {}
    with tf.Graph().as_default():
        for i, (layer, home) in enumerate(zip(layers, homes, strict=True)):
            with tf.device(home):
                layer.build([None, sizes[i]])
            weights |= {f"{kind}_{i}": (getattr(layer, kind).value, home) for kind in ("kernel", "bias")}
        for i in frozen:
            layers[i].trainable = False
        model.build([None, sizes[0]])
        given = [tf.TensorSpec([rows, sizes[0]], tf.float32), tf.TensorSpec([rows, sizes[-1]], tf.float32)]
        made = tracing.program(lambda x, y: student.train_step(model, x, y, rate, task), *given, weights=weights)
    return made.graph_def, made.inputs, made.outputs, made.weights


class Step(Graph):
    """The student's `train_step`, traced there and run here: over tasks, on fresh weights and data."""

    def __init__(self, student: Any, rng: np.random.Generator, places: list[int], frozen: Sequence[int] = ()) -> None:
        """The layers' weights are on the ps `places`; the layers `frozen` are not trainable."""
        rows, width = int(rng.integers(9, 14)), int(rng.integers(9, 14))  # what gradients are made of is larger
        sizes = [width, *map(int, rng.integers(9, 14, size=len(places) - 1)), 3]
        worker, master = (int(i) for i in rng.permutation(3)[:2])
        self.rate, self.task, self.master = float(rng.choice([0.25, 0.5, 2.0])), f"worker:{worker}", f"worker:{master}"
        homes = [full("ps", place) for place in places]
        x, y = (rng.normal(size=(rows, size)).astype(np.float32) for size in (sizes[0], sizes[-1]))
        weights, y = {}, FAR * y
        for i, (before, after) in enumerate(itertools.pairwise(sizes)):
            weights[f"kernel_{i}"] = rng.normal(scale=0.5, size=(before, after)).astype(np.float32)
            weights[f"bias_{i}"] = rng.normal(size=after).astype(np.float32)
        self.weights, self.gradients, self.error = weights, *gradients_of(weights, x, y)
        self.frozen = [name for name in weights if int(name.rpartition("_")[2]) in frozen]
        self.gradients |= {name: np.zeros_like(weights[name]) for name in self.frozen}
        self.says = f'`train_step(model, x, y, {self.rate}, "{full("worker", worker)}")`'
        answer = student.ask(
            traced_step,
            homes=homes,
            sizes=sizes,
            rows=rows,
            rate=self.rate,
            task=full("worker", worker),
            frozen=list(frozen),
        )
        pairs = list_of(row(text, text))
        *rest, found = row(anything, anything, anything, pairs).named("a graph that can be run")(
            answer, "Your code led to"
        )
        name_of = {name: node for name, node in found}
        assert len(rest[1]) == 2, f"{self.says} does not use both x and y."
        missing = sorted(set(weights) - set(name_of))
        assert not missing, f"{self.says} does not use {missing[0]}; expected every layer to be called."
        assert set(name_of) == set(weights) and len(found) == len(weights), (
            "The graph that your code built does not hold together."
        )
        home_of = {name_of[name]: homes[int(name.rpartition("_")[2])] for name in weights}
        super().__init__((*rest, list(home_of)), {name_of[name]: weights[name] for name in weights}, home_of)
        self.run(("worker", master), [x, y], self.writes)
        self.new = {name: np.asarray(self.after[name_of[name]]) for name in weights}
        self.loss = np.float32(np.mean(self.error**2))
        self.right_loss = self.value.shape == () and bool(np.isclose(self.value, self.loss, rtol=1e-4))
        ways = [way for way, size in self.sent.items() if size > SCALARS]  # who has no weights computes with none
        self.readers = {target for source, target in ways if source.startswith("ps:")}
        self.bytes_of = {f"ps:{place}": 0 for place in places}
        for name, value in weights.items():
            self.bytes_of[f"ps:{places[int(name.rpartition('_')[2])]}"] += value.nbytes

    def moved(self, factor: float, rate: float | None = None) -> bool:
        """Whether each weight has lost `factor` times `rate` (by default the one given) times its gradient."""
        rate = self.rate if rate is None else rate
        return all(
            np.allclose(self.new[name], value - factor * rate * self.gradients[name], rtol=1e-3, atol=1e-5 * FAR)
            for name, value in self.weights.items()
        )

    def falls_short(self) -> bool:
        """Whether each number went downhill, none of them farther than the rate times its gradient."""
        for name, value in self.weights.items():
            lost, wanted = value - self.new[name], self.rate * self.gradients[name]
            if np.any(lost * np.sign(wanted) < -1e-5 * FAR) or np.any(
                np.abs(lost) > 1.001 * np.abs(wanted) + 1e-5 * FAR
            ):
                return False
        return True

    def still(self) -> list[str]:
        """The weights that did not change, of all."""
        return [name for name, value in self.weights.items() if np.array_equal(self.new[name], value)]


def gradients_of(
    weights: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The gradients of the mean squared error of dense layers, tanh between them, and its error; by hand, in float64."""
    count = len(weights) // 2
    outputs = [x.astype(np.float64)]
    for i in range(count):
        linear = outputs[-1] @ weights[f"kernel_{i}"] + weights[f"bias_{i}"]
        outputs.append(np.tanh(linear) if i < count - 1 else linear)
    error = outputs[-1] - y
    flowing, found = 2.0 * error / error.size, {}
    for i in reversed(range(count)):
        if i < count - 1:
            flowing = flowing * (1.0 - outputs[i + 1] ** 2)
        found[f"kernel_{i}"], found[f"bias_{i}"] = outputs[i].T @ flowing, flowing.sum(axis=0)
        flowing = flowing @ weights[f"kernel_{i}"].T
    return found, error


@probe(graphs=1)
def traced_sharded(student, lengths, width, homes, count, rate, worker):
    """Trace `sharded_step` of a ShardedVariable with parts on `homes`: variables of a graph around it, as in `traced_step`."""
    from tensorflow.python.distribute.sharded_variable import ShardedVariable

    from across import tracing

    with tf.Graph().as_default():
        parts = []
        for length, home in zip(lengths, homes):  # noqa: B905
            with tf.device(home):
                parts.append(tf.Variable(tf.zeros([length, width]), shape=[length, width]))
        table = ShardedVariable(parts)
        weights = {f"part_{i}": (part, home) for i, (part, home) in enumerate(zip(parts, homes))}  # noqa: B905
        given = [tf.TensorSpec([count], tf.int64), tf.TensorSpec([count, width], tf.float32)]
        made = tracing.program(
            lambda ids, y: student.sharded_step(table, ids, y, rate, worker), *given, weights=weights
        )
    return made.graph_def, made.inputs, made.outputs, made.weights


class Sharded(Graph):
    """The student's `sharded_step` on the rows `ids` of a table in parts of `lengths` rows, traced there and run here."""

    def __init__(self, student: Any, rng: np.random.Generator, lengths: list[int], ids: list[int]) -> None:
        places = [int(place) for place in rng.permutation(3)[: len(lengths)]]
        worker, master = (int(i) for i in rng.permutation(3)[:2])
        homes, width = [full("ps", place) for place in places], int(rng.integers(40, 50))
        self.rate, self.worker, self.row_bytes = float(rng.choice([2.0, 4.0, 8.0])), f"worker:{worker}", 4 * width
        self.says = f"`sharded_step` on rows {ids}, parts of {lengths} rows, rate {self.rate}"
        asked = {"lengths": lengths, "width": width, "homes": homes, "count": len(ids), "rate": self.rate}
        answer = student.ask(traced_sharded, **asked, worker=full("worker", worker))
        pairs = list_of(row(text, text))
        *rest, found = row(anything, anything, anything, pairs).named("a graph that can be run")(
            answer, "Your code led to"
        )
        node_of, names = dict(found), [f"part_{i}" for i in range(len(lengths))]
        assert len(rest[1]) == 2, f"{self.says} does not use both ids and y."
        missing = [name for name in names if name not in node_of]
        assert not missing, f"{self.says} does not use {missing[0]} of the table."
        self.table = rng.normal(size=(sum(lengths), width)).astype(np.float32)
        self.y = 10 * FAR * rng.normal(size=(len(ids), width)).astype(np.float32)  # these are means of more numbers
        cuts = np.cumsum(lengths)[:-1]
        values = {node_of[name]: part for name, part in zip(names, np.split(self.table, cuts), strict=True)}
        super().__init__((*rest, list(values)), values, {node_of[n]: h for n, h in zip(names, homes, strict=True)})
        kinds = ("Assign", "ResourceScatter", "ResourceApply", "ResourceSparseApply")
        writes = [op for op in self.graph.get_operations() if op.type.startswith(kinds)]
        self.writes = [
            op for op in writes if op not in {each.op if hasattr(each, "op") else each for each in self.first}
        ]
        self.run(("worker", master), [np.asarray(ids, np.int64), self.y], self.writes)
        self.new = np.concatenate([np.asarray(self.after[node_of[name]]) for name in names])
        error = self.table[ids] - self.y
        self.loss = float(np.mean(error**2))
        self.pull = np.zeros_like(self.table)
        self.last = np.zeros_like(self.table)
        for number, each in zip(ids, 2 * error / error.size, strict=True):
            self.pull[number] += each
            self.last[number] = each
        parts_of = np.searchsorted(cuts, ids, side="right")
        self.asked = {f"ps:{place}": int(np.sum(parts_of == part)) for part, place in enumerate(places)}

    def moved(self, pull: np.ndarray, factor: float = 1.0) -> bool:
        """Whether the table has lost `factor` times the rate times `pull`."""
        return np.allclose(self.new, self.table - factor * self.rate * pull, rtol=1e-3, atol=1e-5 * FAR)
