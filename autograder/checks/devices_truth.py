"""What checks on devices are made of: a split process that a peer looks at, and a graph of a model and its calls, run here.

The CPU of a process is split where TensorFlow in it says so to somebody else: the process serves, as a task, and a peer asks
that task for its devices. Where weights live and products run says the graph in which `forward_on` built and called its model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from across import placement
from across.expecting import anything, list_of, row, text
from autograder.checks.placing import imported, ran, session
from autograder.checks.students_graphs import PRODUCTS
from autograder.probe.asking import Misconception, kept, probe

# split_cpu: the process that was split serves, and a peer asks TensorFlow there for its devices


@probe
def watching(peer):
    """Wait, in a thread, for a task that is served; return its address, and that of who waits for being looked at."""
    import socket
    import threading

    kept["devices"] = []
    with socket.socket() as free:
        free.bind(("localhost", 0))
        served = f"localhost:{free.getsockname()[1]}"
    listener = socket.create_server(("localhost", 0))
    listener.settimeout(45)

    def look():
        config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=20_000)
        with (
            listener,
            listener.accept()[0],
            tf.compat.v1.Session(f"grpc://{served}", graph=tf.Graph(), config=config) as session,
        ):
            kept["devices"] = [each.name for each in session.list_devices()]

    kept["look"] = threading.Thread(target=look, daemon=True)
    kept["look"].start()
    return served, listener.getsockname()[1]


@probe
def split(student, n, served, watched):
    from across import fresh

    work = student.split_cpu

    def run():
        import socket

        from tensorflow.core.protobuf.tensorflow_server_pb2 import ServerDef
        from tensorflow.python.eager import context

        names = work(n)
        task = ServerDef(job_name="notebook", task_index=0, protocol="grpc")
        task.cluster.job.add(name="notebook").tasks[0] = served
        task.default_session_config.CopyFrom(context.context().config)
        context.context().set_server_def(task)
        with socket.create_connection(("localhost", watched), timeout=30) as peer:
            peer.recv(1)  # nothing comes: until it has looked
        return names

    return fresh.run(run)


@probe
def devices_seen(peer):
    kept["look"].join(10)
    return kept["devices"]


# forward_on: model and call are built as a graph there, and run here on fresh weights


@probe(graphs=1)
def built(student, there, units):
    """The graph of two calls of what `forward_on` returns; its outputs, and the names of the first model's weights in it."""
    from tensorflow.python.framework import ops

    from across import tracing

    class ArrayError(BaseException):
        pass

    def as_array(tensor, *_args, **_kwargs):
        raise ArrayError(tensor)

    models, outputs = [], []

    def build():
        dense = [tf.keras.layers.Dense(each) for each in units]
        models.append(tf.keras.Sequential([tf.keras.Input((3,)), *dense]))
        return models[-1]

    symbolic = ops.SymbolicTensor
    own = {name: symbolic.__dict__.get(name) for name in ("numpy", "__array__")}
    symbolic.numpy, symbolic.__array__ = lambda tensor: tensor, as_array  # whoever wants numbers of it gave it back
    try:
        with tf.Graph().as_default() as graph:
            batch = tf.compat.v1.placeholder(tf.float32, [2, 3], name="batch")
            forward = student.forward_on(there, build)
            for _ in range(2):
                try:
                    output = forward(batch)
                except ArrayError as error:
                    output = error.args[0]
                outputs.append(tf.convert_to_tensor(output).name)
    finally:
        for name, value in own.items():
            if value is None:
                delattr(symbolic, name)
            else:
                setattr(symbolic, name, value)
    weights = [each.value.handle.op.name for each in models[0].weights] if models else []
    return tracing.quiet(graph, outputs), outputs, weights


class Forward:
    """What the student's `forward_on` led to, run here on fresh weights: products and copies, once its numbers are right."""

    def __init__(self, student: Any, rng: np.random.Generator, layers: int) -> None:
        there = f"/CPU:{rng.choice([1, 3])}"
        units = [int(each) for each in rng.choice(np.arange(2, 7), size=layers, replace=False)]
        self.call = f"`fresh.run(seen, forward_on, {there!r}, cpus=4)`"
        kind = row(anything, list_of(text, 2), list_of(text)).named("a graph that can be run")
        graph_def, outputs, weights = kind(student.ask(built, there=there, units=units), "Your code led to")
        assert len(weights) == 2 * layers, f"{self.call}: `forward_on` and what it returns did not call `build`."
        assert type(graph_def).__name__ == "GraphDef", "Your code did not lead to a graph that can be run."
        for node in graph_def.node:  # what is in no block is where the batch is
            if not node.device and node.op in ("VarHandleOp", "Placeholder", "Identity", *PRODUCTS):
                node.device = "/device:CPU:0"
        graph = imported(graph_def)
        batch, first, wanted = rng.integers(-3, 4, size=(2, 3)).astype(np.float32), [], None
        try:
            given, (out, again) = graph.get_tensor_by_name("batch:0"), map(graph.get_tensor_by_name, outputs)
            handles = [graph.get_operation_by_name(name) for name in weights]
            wanted = batch
            for number, (handle, size) in enumerate(zip(handles, np.repeat(units, 2), strict=True)):
                value = rng.integers(-3, 4, size=(wanted.shape[1], size) if number % 2 == 0 else size)
                value = value.astype(np.float32)
                wanted = wanted @ value if number % 2 == 0 else wanted + value
                with graph.as_default(), tf.device(handle.device):
                    first.append(tf.raw_ops.AssignVariableOp(resource=handle.outputs[0], value=value))
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        says = f"`forward_on({there!r}, build)`"
        read = {op.name for op in needed(again) if op.type == "VarHandleOp"}
        assert read <= set(weights), f"{says}: a second call gives other numbers; expected one model, built once."
        with session(graph) as running:
            ran(running, first)
            _, (got,) = ran(running, [out], {given: batch})
            found = placement.trace_graph(graph, out, {given: batch}, session=running)
        assert got.shape == wanted.shape, (
            f"Of a model with layers of {units} units the output has shape {list(got.shape)}; expected {list(wanted.shape)}."
        )
        assert np.allclose(got, wanted, atol=1e-3), f"{says}: the function returns something else than `model(batch)`."
        products = [op.device for op in found.everything if op.type in PRODUCTS]
        assert products, f"{self.call}: no product was seen in the call; expected the model to be called there."
        elsewhere = [each for each in products if each != there.strip("/")]
        stray = [each for each in elsewhere if each != "CPU:0"]
        assert not stray, f"{self.call}: a product ran on /{(stray or ['?'])[0]}, for which nobody asked."
        if elsewhere:
            told = f"{self.call}: a product ran on /{elsewhere[0]}. The call needs a `tf.device` block, too."
            raise Misconception("call_outside", told)
        above: dict[str, set[str]] = {}
        for op in found.everything:
            above[op.name] = {op.type}.union(*(above.get(name, set()) for name in op.inputs))
        self.copies = [
            (name, "VarHandleOp" in above[name] and "Input" not in above[name]) for name, _ in found.copies()
        ]


def needed(out: Any) -> list[Any]:
    """The ops of which the tensor `out` is computed."""
    known, todo = {}, [out.op]
    while todo:
        op = todo.pop()
        if op.name not in known:
            known[op.name] = op
            todo += [each.op for each in op.inputs]
    return list(known.values())
