"""What checks on devices are made of: a witness of the devices that a process has, and a model that is built into a graph.

The witness is a peer: a process that the student's code starts becomes a server of TensorFlow, and the peer asks that server
for its devices, as any client of a cluster does. What an answer says of itself is not needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from across import placement
from across.expecting import anything, list_of, row, text
from autograder.probe.asking import kept, probe
from placing import imported

v1: Any = tf.compat.v1
MIB = 1 << 20
PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")


def _as_written() -> Any:
    """The configuration of a session that rewrites nothing, on this process's GPUs: what runs is what the graph says."""
    config: Any = v1.ConfigProto(inter_op_parallelism_threads=2, intra_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return config


@probe
def watching(peer):
    import os
    import socket
    import threading
    import time

    from across._process.addresses import free_address

    def later(stat):  # whether the process of that line of /proc, see proc_pid_stat(5), began after we were asked
        began = int(stat.rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return began > asked - 0.05

    left = []
    address = free_address(left)
    left.pop().close()  # nobody of another user gets it while it is held
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # /proc and it are Linux's
    asked = time.clock_gettime(clock) if clock is not None else 0.0
    bell = socket.create_server(("localhost", 0))
    kept["found"], rung, told = None, threading.Event(), threading.Event()
    kept["events"] = (rung, told)

    def watch():
        line, _ = bell.accept()
        rung.set()
        try:
            config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=20_000)
            with line, tf.Graph().as_default(), tf.device("/job:seen/task:0/device:CPU:0"):
                kinds = {"output_types": [tf.string], "output_shapes": [[]]}
                file = tf.raw_ops.TextLineDataset(filenames="/proc/self/stat", compression_type="", buffer_size=0)
                stat = tf.raw_ops.DatasetToSingleElement(dataset=file, **kinds)
                with tf.compat.v1.Session(f"grpc://{address}", config=config) as session:
                    listed = sorted(session.list_devices(), key=lambda each: each.name)
                    found = [[each.device_type, each.memory_limit_bytes] for each in listed]
                    kept["found"] = [found, clock is None or later(session.run(stat)[0])]
        finally:
            told.set()

    threading.Thread(target=watch, daemon=True).start()
    return address, bell.getsockname()[1]


@probe
def watched(peer):
    rung, told = kept["events"]
    told.wait(20.0 if rung.is_set() else 0.0)
    return kept["found"]


def serving(address, port, configured):
    """Serve this process's devices, as they are `configured` in it, or all there are, until the witness has seen them."""
    import socket

    from tensorflow.python.eager import context

    tf.config.list_logical_devices()
    current: Any = context.context()
    config = current.config if configured else None
    tf.distribute.Server({"seen": [address]}, job_name="seen", task_index=0, config=config)
    with socket.create_connection(("localhost", port), timeout=60) as line:
        line.recv(1)


class Witness:
    """A peer that sees the devices of the process that serves for it; for one process after the other."""

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        self.fresh = False  # whether the process that it saw began after `begins`

    def begins(self) -> dict[str, Any]:
        """Where the process is to serve: the address, and the port at which it says that it does."""
        address, port = self._peer.ask(watching)
        return {"address": address, "port": port}

    def saw(self, kind: str) -> list[int] | None:
        """The bytes of each device of a kind that it found, in order; None: nobody served."""
        found = self._peer.ask(watched)
        if found is None:
            return None
        listed, self.fresh = found
        return [size for each, size in listed if each == kind]


@probe(graphs=1)
def built(student, there, units, size):
    import contextlib

    from across import tracing

    class Layer:
        def __init__(self, number, rows, columns):
            zeros = (np.zeros([rows, columns], np.float32), np.zeros([columns], np.float32))
            names = (f"kernel_{number}", f"bias_{number}")
            pair = [
                tf.compat.v1.Variable(value, name=name, use_resource=True)
                for value, name in zip(zeros, names, strict=True)
            ]
            self.kernel, self.bias = pair

        def __call__(self, batch):
            return tf.matmul(batch, self.kernel) + self.bias

    class Model:
        def __init__(self):
            self.layers = [Layer(i, *pair) for i, pair in enumerate(zip([size, *units], units, strict=False))]

        def __call__(self, batch):
            for layer in self.layers:
                batch = layer(batch)
            return batch

    tensorflow: Any = tf
    block, entered = tensorflow.device, []

    class Block:
        """`tf.device` as it is outside of a graph: it may be entered again, and stays where nobody leaves it."""

        def __init__(self, name):
            self.name, self.inside = name, []

        def __enter__(self):
            self.inside.append(block(self.name))
            entered.append(self.inside[-1])
            return self.inside[-1].__enter__()

        def __exit__(self, *error):
            return self.inside.pop().__exit__(*error)

    graph, before = tf.Graph(), tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)  # a tf.function writes its ops into the graph itself
    with graph.as_default(), contextlib.ExitStack() as stack:
        stack.callback(tf.config.run_functions_eagerly, before)
        with tf.device("/CPU:0"):
            batches = [tf.compat.v1.placeholder(tf.float32, [2, size], name=f"batch_{i}") for i in range(2)]
        stack.callback(setattr, tensorflow, "device", block)
        tensorflow.device = Block
        forward = student.forward_on(there, Model)
        try:
            made = [forward(batch) for batch in batches]
        except (AttributeError, NotImplementedError, TypeError) as error:  # what a tensor without a value is asked
            if "ymbolic" not in str(error):
                raise
            raise RuntimeError(f"your function must also work inside a `tf.function`; there: {error}") from None
        for each in made:
            if not tf.is_tensor(each):
                raise TypeError(
                    f"your function returned {type(each).__name__} for a batch, not the tensor model(batch)"
                )
    return tracing.quiet(graph, [each.name for each in made]), [each.name for each in made]


def products_of(batch: Any, graph: tf.Graph) -> list[tf.Operation]:
    """All products of a call, those too that its output does not need: ops that a batch leads to, and no other batch."""
    from_: dict[str, set[str]] = {}
    for op in graph.get_operations():  # what an op needs stands before it
        before = [each.op for each in op.inputs] + list(op.control_inputs)
        from_[op.name] = (
            {batch.op.name} if op is batch.op else set[str]().union(*(from_.get(b.name, ()) for b in before))
        )
        from_[op.name] |= {op.name} if op.type == "Placeholder" else set()
    return [op for op in graph.get_operations() if op.type in PRODUCTS and from_[op.name] == {batch.op.name}]


BUILT = row(anything, list_of(text, 2)).named("a graph of two calls")


class Built:
    """The student's `forward_on`, built into a graph there; here its weights are drawn, and it runs on two GPUs."""

    def __init__(self, student: Any, rng: np.random.Generator, there: str, units: list[int]) -> None:
        size = 3
        graph_def, outputs = BUILT(student.ask(built, there=there, units=units, size=size), "Your code led to")
        graph = imported(graph_def)
        batch = rng.integers(-3, 4, size=(2, size)).astype("float32")
        value, weights = batch, dict[str, np.ndarray]()
        for i, (before, after) in enumerate(zip([size, *units], units, strict=False)):
            weights[f"kernel_{i}"] = rng.integers(1, 5, size=(before, after)).astype("float32")
            weights[f"bias_{i}"] = rng.integers(1, 9, size=after).astype("float32")
            value = value @ weights[f"kernel_{i}"] + weights[f"bias_{i}"]
        variables = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
        handles = [
            (op.get_attr("shared_name").decode().rpartition("/")[2], op) for op in variables
        ]  # in whatever block
        self.models = sum(name.startswith("kernel_0") for name, _ in handles)
        try:
            given: Any = graph.get_tensor_by_name("batch_0:0")
            out: Any = graph.get_tensor_by_name(outputs[0])
            with graph.as_default():
                first = []
                for name, handle in handles:
                    first_of = weights["_".join(name.split("_")[:2])]
                    with tf.device(handle.device):
                        first.append(tf.raw_ops.AssignVariableOp(resource=handle.outputs[0], value=first_of))
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        with v1.Session(graph=graph, config=_as_written()) as running:
            try:
                running.run(first)
                total = running.run(out, {given: batch})
                ran = [out.op, *products_of(given, graph)]
                seen = placement.trace_graph(graph, ran, {given: batch}, session=running)
            except tf.errors.OpError as error:
                raise AssertionError(f"Your call does not run: {error.message.splitlines()[0][:200]}") from None
        self.shape = list(total.shape)
        self.right = self.shape == list(value.shape) and bool(np.allclose(total, value))
        of: dict[str, set[str]] = {}
        for op in seen.everything:
            of[op.name] = {op.type}.union(*(of.get(name, set()) for name in op.inputs))
        self.computed = [
            (op.type, op.device) for op in seen.ops if "Input" in of[op.name] and op.type not in ("Identity", "Input")
        ]
        self.copies = [(name, "VarHandleOp" in of[name] and "Input" not in of[name]) for name, _ in seen.copies()]
