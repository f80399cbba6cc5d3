"""What checks on clusters are made of: servers of this process, and a traced loss.

Truth is TensorFlow's: a student's graph is run here, on servers that only the checker knows (`Servers`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from across import clusters, placement, traffic
from across.expecting import anything, list_of, row, text
from autograder.probe.asking import probe
from placing import imported
from students_graphs import same

v1 = tf.compat.v1
TIMEOUT = 120_000  # milliseconds for one run of a student's graph: the question's limit comes first
Master = tuple[str, int]


class Servers:
    """TensorFlow's servers in this very process, each a task with its own devices: they end with it."""

    def __init__(self, cpus: int = 1, **jobs: int) -> None:
        os.environ["TF_GRPC_REUSE_PORT"] = "1"
        self.held: list[socket.socket] = []
        self.spec = {job: [clusters.free_address(self.held) for _ in range(count)] for job, count in jobs.items()}
        config = v1.ConfigProto(device_count={"CPU": cpus, "GPU": 0}, intra_op_parallelism_threads=1)
        config.inter_op_parallelism_threads = 4
        self.servers = {
            (job, index): tf.distribute.Server(self.spec, job, index, config=config)
            for job, count in jobs.items()
            for index in range(count)
        }

    def session(self, graph: tf.Graph, master: Master) -> Any:
        """A session on one task that rewrites nothing, and waits for nobody longer than TIMEOUT."""
        config = v1.ConfigProto(operation_timeout_in_ms=TIMEOUT)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        return v1.Session(self.servers[master].target, graph=graph, config=config)


@cache
def servers() -> Servers:
    """Two parameter servers and three workers, started once."""
    return Servers(ps=2, worker=3)


@probe(graphs=1)
def traced_loss(student, homes, sizes, rows, task):
    """Trace `loss_on` of a model whose layers' weights are on `homes`; in its graph each weight is a variable of its own."""
    from across import tracing

    activations = ["tanh"] * (len(homes) - 1) + [None]
    layers = [tf.keras.layers.Dense(size, activation=act) for size, act in zip(sizes[1:], activations, strict=True)]
    model = tf.keras.Sequential(layers)
    model.build([None, sizes[0]])
    here = tf.zeros([rows, sizes[0]]), tf.zeros([rows, sizes[-1]])
    try:
        at_once = student.loss_on(model, *here, "/job:localhost/replica:0/task:0/device:CPU:0")
    except tf.errors.InvalidArgumentError:  # pinned elsewhere: its graph tells where
        at_once = here[0]
    weights = {}
    for i, (layer, home) in enumerate(zip(model.layers, homes, strict=True)):
        weights |= {f"{kind}_{i}": (getattr(layer, kind).value, home) for kind in ("kernel", "bias")}
    given = [tf.TensorSpec([rows, sizes[0]], tf.float32), tf.TensorSpec([rows, sizes[-1]], tf.float32)]
    lazy = tf.is_tensor(at_once)
    made = tracing.program(lambda x, y: student.loss_on(model, x, y, task) if lazy else x, *given, weights=weights)
    return made.graph_def, made.inputs, made.outputs, "" if lazy else type(at_once).__name__


TRACED = row(anything, list_of(text), list_of(text), text).named("a graph that can be run")


class Loss:
    """The student's `loss_on`, traced there and run here: over tasks, on fresh weights and data."""

    def __init__(self, student: Any, rng: np.random.Generator, task: Master, master: Master, homes: list[str]) -> None:
        """The layers' weights are on `homes`, "/job:ps/task:1"; `task` is to compute, `master` has the session."""
        rows, sizes = int(rng.integers(3, 9)), [*map(int, rng.integers(3, 9, size=len(homes))), 2]
        self.name = "/job:{}/replica:0/task:{}/device:CPU:0".format(*task)
        self.says = f'`loss_on(model, x, y, "{self.name}")`'
        x, y = (rng.normal(size=(rows, size)).astype(np.float32) for size in (sizes[0], sizes[-1]))
        weights: dict[str, np.ndarray] = {}
        wanted = x
        for i, (before, after) in enumerate(itertools.pairwise(sizes)):
            weights[f"kernel_{i}"] = rng.normal(size=(before, after)).astype(np.float32)
            weights[f"bias_{i}"] = rng.normal(size=after).astype(np.float32)
            wanted = wanted @ weights[f"kernel_{i}"] + weights[f"bias_{i}"]
            wanted = np.tanh(wanted) if i < len(homes) - 1 else wanted
        self.error = wanted - y
        full = [f"{home}/replica:0/device:CPU:0" for home in homes]
        answer = student.ask(traced_loss, homes=full, sizes=sizes, rows=rows, task=self.name)
        graph_def, inputs, outputs, number = TRACED(answer, "Your code led to")
        assert not number, (
            f"{self.says} returned a value of type {number}, which comes back at once; expected a tensor."
        )
        graph = imported(graph_def)
        assert len(outputs) == 1, f"{self.says} returned no single tensor; expected one: the loss."
        assert len(inputs) == 2, f"{self.says} does not use both x and y."
        for op in graph.get_operations():  # the notebook is in no cluster of ours
            assert "job:localhost" not in op.device, (
                f"{self.says} pinned {op.type} to {op.device}, in the notebook; expected the task that it was given."
            )
        try:
            feed: dict[Any, Any] = {
                graph.get_tensor_by_name(name): value for name, value in zip(inputs, (x, y), strict=True)
            }
            out = graph.get_tensor_by_name(outputs[0])
            handles = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
            first = [_assigned(op, weights, full) for op in handles]
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        try:
            with servers().session(graph, master) as running:
                running.run(first)
                self.value = running.run(out, feed)
                self.seen = placement.trace_graph(graph, out, feed, session=running)
                self.sent = traffic.count(running, out, feed)
        except tf.errors.OpError as error:
            said = next((line for line in error.message.splitlines() if "evice" in line), "it does not run")
            raise AssertionError(f"TensorFlow refuses your placement: {said[:200]}") from None
        except Exception:  # whatever a session raises at what a student's graph holds
            raise AssertionError("The graph that your code built cannot be run.") from None
        self.task, self.master = f"{task[0]}:{task[1]}", f"{master[0]}:{master[1]}"
        last = out.op
        while last.type == "Identity":
            last = last.inputs[0].op
        self.last = next((op.device.split(" ")[0] for op in self.seen.everything if op.name == last.name), "")
        size = sum(each.nbytes for each in (x, y, *weights.values()))
        self.budget = size + 4  # the loss itself comes to who fetches it
        back = (self.task, self.master)  # there is the batch; with the weights, too, it would be computed there
        large = {way for way, size in self.sent.items() if way != back or size > y.nbytes}
        self.elsewhere = {to for _, to in large} - {self.task}

    def is_right(self) -> bool:
        """Whether the value is the mean squared error."""
        return same(self.value, np.asarray(np.mean(self.error**2), np.float32))


def _assigned(handle: Any, weights: dict[str, np.ndarray], homes: list[str]) -> Any:
    """The op that gives a weight of the student's graph its value, once it is on its own device. Raises KeyError."""
    name = handle.get_attr("shared_name").decode()
    home = homes[int(name.rpartition("_")[2])]
    with contextlib.suppress(ValueError):
        if tf.DeviceSpec.from_string(handle.device) == tf.DeviceSpec.from_string(home):
            with handle.graph.as_default(), tf.device(handle.device):
                return tf.raw_ops.AssignVariableOp(resource=handle.outputs[0], value=weights[name])
    raise KeyError(name)
