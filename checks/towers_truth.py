"""What checks on towers are made of: a model that the checker trains itself, and a student's tower, traced there, run here.

Truth is computed on one device: the loss and gradients of a whole batch by a Keras model of this process, its weights drawn
afresh (`Alone`). Of a student's tower there is a graph, which runs here on four logical CPUs (`Traced`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across import tower_runs, traffic
from across.expecting import anything, list_of, row, text, whole
from autograder.probe.asking import probe
from placing import device_of, imported, ran, session

WIDTH, AWAY, SCALARS = 8, "CPU:4", 64  # of `Together`: numbers of an example, where batches are, bytes of a few numbers
SIZE = 4  # pixels of an image's side
HEAVY = ("Conv2D", "MatMul", "BiasAddGrad", "TanhGrad", "SparseSoftmax")  # parts of types that a tower's ops have
FORWARD = (
    "Conv2D",
    "BiasAdd",
    "Tanh",
    "SparseSoftmaxCrossEntropyWithLogits",
)  # and types that have no backward in them


def built(channels: int, hidden: int) -> Any:
    """A small model for images of SIZE x SIZE, with a convolution, a frozen layer and one that is called twice."""
    layers = tf.keras.layers
    image = tf.keras.Input((4, 4, 1))
    tied = layers.Dense(hidden, activation="tanh")
    found = layers.Flatten()(layers.Conv2D(channels, 3, padding="same", activation="tanh")(image))
    found = layers.Dense(hidden, activation="tanh", trainable=False)(found)
    return tf.keras.Model(image, layers.Dense(10)(tied(tied(found))))


@probe(graphs=1, uses=[built])
def traced_tower(student, channels, hidden, count, home, device):
    from across import tracing

    with tf.device(home):
        model = built(channels, hidden)
    weights = {f"weight_{number}": (each.value, home) for number, each in enumerate(model.weights)}
    returned = []

    def program(x, y):
        loss, gradients = student.tower(model, x, y, device)
        returned.extend([len(gradients), sum(each is not None for each in gradients)])
        return [tf.identity(loss), *(tf.convert_to_tensor(each) for each in gradients if each is not None)]

    given = [tf.TensorSpec([count, 4, 4, 1], tf.float32), tf.TensorSpec([count], tf.int64)]
    made = tracing.program(program, *given, weights=weights)
    return made.graph_def, made.inputs, made.outputs, returned[:2]


TRACED = row(anything, list_of(text), list_of(text), list_of(whole, 2)).named("a loss and a list of gradients")


class Alone:
    """One device with the whole batch: fresh weights, images and labels, and what comes of them."""

    def __init__(self, rng: np.random.Generator, count: int, last: float = 1.0) -> None:
        """The `last` layer's kernel is so many times as large: then gradients of the others are large, too."""
        self.channels, self.hidden = int(rng.integers(2, 4)), int(rng.integers(3, 6))
        self.model = built(self.channels, self.hidden)
        self.weights = [rng.normal(size=each.shape, scale=0.6).astype("float32") for each in self.model.weights]
        self.weights[-2] *= np.float32(last)
        self.model.set_weights(self.weights)
        self.images = rng.random((count, SIZE, SIZE, 1), dtype="float32")
        self.labels = rng.integers(0, 10, size=count)

    def losses(self) -> Any:
        """The cross-entropy of each example, at the weights as they are."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(self.labels, self.model(self.images))

    def gradients(self, sizes: Sequence[int] = ()) -> list[np.ndarray]:
        """Of the mean loss, for each trainable weight; with `sizes`, of the mean of the means over batches of such sizes."""
        with tf.GradientTape() as tape:
            losses = self.losses()
            batches = tf.split(losses, list(sizes)) if sizes else [losses]
            loss = tf.add_n([tf.reduce_mean(each) for each in batches]) / float(len(batches))
        return [each.numpy() for each in tape.gradient(loss, self.model.trainable_variables)]

    def steps(
        self, rate: float, momentum: float, count: int, size: float = 1.0, sizes: Sequence[int] = ()
    ) -> tuple[list[float], list[np.ndarray]]:
        """Train `count` steps, the `gradients` times `size`; the mean loss of each, and all weights in the end."""
        self.model.set_weights(self.weights)
        found, speeds = [], [np.float32(0)] * len(self.model.trainable_variables)
        for _ in range(count):
            found.append(float(tf.reduce_mean(self.losses())))
            pulls = [np.float32(rate * size) * each for each in self.gradients(sizes)]
            speeds = [np.float32(momentum) * v - pull for v, pull in zip(speeds, pulls, strict=True)]
            for variable, v in zip(self.model.trainable_variables, speeds, strict=True):
                variable.assign_add(v)
        return found, self.model.get_weights()


class Traced:
    """The student's `tower` on fresh weights and data: its loss, its gradients, and where its ops ran."""

    def __init__(self, student: Any, alone: Alone, home: str, device: str) -> None:
        self.says, self.device = f'`tower(model, images, labels, "{device}")`', device_of(device)
        count = len(alone.labels)
        asked = {"channels": alone.channels, "hidden": alone.hidden, "count": count, "home": home, "device": device}
        answer = student.ask(traced_tower, **asked)
        graph_def, inputs, outputs, (self.listed, self.computed) = TRACED(answer, "`tower` returned")
        graph = imported(graph_def)
        assert len(inputs) == 2, f"{self.says} does not use both images and labels."
        try:
            feed: dict[Any, Any] = {
                graph.get_tensor_by_name(name): value
                for name, value in zip(inputs, (alone.images, alone.labels), strict=True)
            }
            out = [graph.get_tensor_by_name(name) for name in outputs]
            handles = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
            first = [_assigned(op, alone.weights, home) for op in handles]
        except (ValueError, TypeError, KeyError, IndexError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        with session(graph) as running:
            if first:
                ran(running, first)
            places, (loss, *gradients) = ran(running, out, feed)
        self.loss, self.gradients = np.asarray(loss), [np.asarray(each) for each in gradients]
        types = {op.name: op.type for op in graph.get_operations()}
        made = out[0].op
        while made.type == "Identity":  # as a function puts around what it returns
            made = made.inputs[0].op
        heavy = {name: types[name] for name in places if any(part in types.get(name, "") for part in HEAVY)}
        if made.name in places:
            heavy[made.name] = made.type
        self.heavy = len(heavy)
        astray = [name for name in heavy if places[name] != self.device]
        self.astray = sorted({places[name] for name in astray})
        self.forward_astray = any(types[name] in FORWARD for name in astray)
        self.loss_astray = made.name in astray


def _assigned(handle: Any, weights: Sequence[np.ndarray], home: str) -> Any:
    """The op that gives a weight of the student's graph its value, once it is on its own device. Raises KeyError."""
    name = handle.get_attr("shared_name").decode()
    if not name.startswith("weight_") or device_of(handle.device) != device_of(home):
        raise KeyError(name)
    with handle.graph.as_default(), tf.device(handle.device):
        return tf.raw_ops.AssignVariableOp(resource=handle.outputs[0], value=weights[int(name[7:])])


@probe(graphs=1)
def traced_step(student, counts, width, devices, default, rate):
    """Trace `step` of a small model, in a block of `default`, as a GPU is the default where there is one."""
    from across import tracing

    model = tf.keras.Sequential([tf.keras.Input((width,)), tf.keras.layers.Dense(10)])
    optimizer = tf.keras.optimizers.SGD(rate)
    optimizer.build(model.trainable_variables)
    own = {f"optimizer_{number}": (each.value, "/CPU:0") for number, each in enumerate(optimizer.variables)}
    weights = {"kernel": (model.weights[0].value, "/CPU:0"), "bias": (model.weights[1].value, "/CPU:0"), **own}

    def program(*given):
        with tf.device(default):
            return student.step(model, optimizer, list(zip(given[::2], given[1::2])), list(devices))  # noqa: B905

    kinds = [(tf.TensorSpec([count, width], tf.float32), tf.TensorSpec([count], tf.int64)) for count in counts]
    made = tracing.program(program, *(each for pair in kinds for each in pair), weights=weights)
    return made.graph_def, made.inputs, made.outputs


class Together:
    """The student's `step`, traced there and run here: batches are on a CPU that no tower has, and go to their towers."""

    def __init__(self, student: Any, rng: np.random.Generator, devices: Sequence[str], default: str) -> None:
        """All `devices` are others than CPU:0, where the weights are. A batch is larger than what comes of it."""
        counts, rate = [int(each) for each in 28 + rng.permutation(9)[: len(devices)]], 0.25
        batches = [(rng.normal(size=(n, WIDTH)).astype("float32"), rng.integers(0, 10, size=n)) for n in counts]
        values = {
            "kernel": rng.normal(size=(WIDTH, 10)).astype("float32"),
            "bias": rng.normal(size=10).astype("float32"),
        }
        answer = student.ask(traced_step, counts=counts, width=WIDTH, devices=list(devices), default=default, rate=rate)
        graph_def, inputs, outputs = row(anything, list_of(text), list_of(text))(answer, "`step` led to")
        fed = dict(zip(inputs, (each for batch in batches for each in batch), strict=False))
        graph = imported(_given_away(graph_def, fed))
        assert len(outputs) == 1, "`step` returned no single tensor; expected one: the mean loss."
        try:
            held = {f"{op.name}:0" for op in graph.get_operations()}  # not what nobody reads
            feed = {graph.get_tensor_by_name(name): value for name, value in fed.items() if name in held}
            self.out: Any = graph.get_tensor_by_name(outputs[0])
            writes = [op for op in graph.get_operations() if op.type.startswith("Assign") and op.type.endswith("Op")]
            first = [_first(op, values, rate) for op in graph.get_operations() if op.type == "VarHandleOp"]
            read = {name: _read(graph, name) for name in values}
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        with session(graph, cpus=5) as running:
            ran(running, first)
            ran(running, [self.out.op, *writes], feed)
            _, after = ran(running, list(read.values()))
            ran(running, first)
            try:
                sent = traffic.count(running, [self.out.op, *writes], feed, devices=True)
            except (ValueError, TypeError, tf.errors.OpError):
                raise AssertionError("The graph that your code built cannot be run.") from None
        images, labels = (np.concatenate(each) for each in zip(*batches, strict=True))
        wanted = _descended(values, images, labels, rate)
        self.right = all(np.allclose(got, wanted[name], atol=1e-4) for name, got in zip(read, after, strict=True))
        places = [f"{device_of(each)}" for each in devices]
        sizes = {place: (x.nbytes, y.nbytes) for place, (x, y) in zip(places, batches, strict=True)}
        self.given = {to for (source, to), size in sent.items() if source == AWAY and size >= min(sizes.values())[0]}
        self.shared = all(x <= sent.get((AWAY, to), 0) <= x + y + SCALARS for to, (x, y) in sizes.items())
        back = {way: size for way, size in sent.items() if way[0] in places and size > SCALARS}
        self.averaged_on = {to for _, to in back} - {"CPU:0"}
        self.kept = all(to != "CPU:0" or size < sizes[source][0] for (source, to), size in back.items())


def _given_away(graph_def: Any, fed: dict[str, Any]) -> Any:
    """The graph, in which what is fed comes to CPU:0 and goes on from AWAY, where no tower is; `fed` with the new names."""
    for node in [each for each in getattr(graph_def, "node", ()) if f"{each.name}:0" in fed]:
        given = graph_def.node.add()
        given.CopyFrom(node)
        given.name = f"{node.name}_given"
        fed[f"{given.name}:0"] = fed.pop(f"{node.name}:0")
        node.op, node.device, kind = "Identity", f"/{AWAY}", node.attr["dtype"].type
        node.input[:] = [given.name]
        node.attr.clear()
        node.attr["T"].type = kind
    return graph_def


def _first(handle: Any, values: Mapping[str, np.ndarray], rate: float) -> Any:
    """The op that gives a variable of `traced_step` its value, once it is on CPU:0. Raises KeyError."""
    name = handle.get_attr("shared_name").decode()
    if device_of(handle.device) != "CPU:0":
        raise KeyError(name)
    if name.startswith("optimizer_"):
        kind = handle.get_attr("dtype")
        value = np.asarray(rate if kind.is_floating else 0, kind.as_numpy_dtype)
    else:
        value = values[name]
    with handle.graph.as_default(), tf.device(handle.device):
        return tf.raw_ops.AssignVariableOp(resource=handle.outputs[0], value=value)


def _read(graph: tf.Graph, name: str) -> Any:
    """The value of the variable `name`. Raises KeyError."""
    handles = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
    handle = {op.get_attr("shared_name").decode(): op for op in handles}[name]
    with graph.as_default(), tf.device("/CPU:0"):
        return tf.raw_ops.ReadVariableOp(resource=handle.outputs[0], dtype=tf.float32)


def _descended(
    weights: Mapping[str, np.ndarray], images: np.ndarray, labels: np.ndarray, rate: float
) -> dict[str, np.ndarray]:
    """One step of one device with all examples."""
    logits = images @ weights["kernel"] + weights["bias"]
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    error = chances / chances.sum(axis=1, keepdims=True) - np.eye(10)[labels]
    pulls = {"kernel": images.T @ error / len(labels), "bias": error.mean(axis=0)}
    return {name: value - rate * pulls[name] for name, value in weights.items()}


@probe(uses=[built])
def stepped(student, channels, hidden, weights, images, labels, sizes, devices, rate, momentum, count):
    with tf.device("/CPU:0"):
        model = built(channels, hidden)
    model.set_weights(weights)
    optimizer = tf.keras.optimizers.SGD(rate, momentum=momentum)
    optimizer.build(model.trainable_variables)
    spans = [(sum(sizes[:k]), sum(sizes[: k + 1])) for k in range(len(sizes))]
    given = [(tf.constant(images[i:j]), tf.constant(labels[i:j])) for i, j in spans]
    losses = [student.step(model, optimizer, list(given), list(devices)) for _ in range(count)]
    return [np.asarray(each) for each in losses], [np.asarray(each) for each in model.get_weights()]


@probe(graphs=1)
def traced_ring(student, counts, width, devices, default, rate):
    """Trace `ring_step` of a small model for each device, in a block of `default`."""
    from across import tracing

    models, optimizers, weights = [], [], {}
    for k, device in enumerate(devices):
        with tf.device(device):
            model = tf.keras.Sequential([tf.keras.Input((width,)), tf.keras.layers.Dense(10)])
            optimizer = tf.keras.optimizers.SGD(rate)
            optimizer.build(model.trainable_variables)
        models.append(model)
        optimizers.append(optimizer)
        own = {f"optimizer_{k}_{number}": (each.value, device) for number, each in enumerate(optimizer.variables)}
        weights |= {
            f"kernel_{k}": (model.weights[0].value, device),
            f"bias_{k}": (model.weights[1].value, device),
            **own,
        }

    def program(*given):
        pairs = list(zip(given[::2], given[1::2]))  # noqa: B905
        with tf.device(default):
            return tf.identity(student.ring_step(list(models), list(optimizers), pairs, list(devices)))

    kinds = [(tf.TensorSpec([count, width], tf.float32), tf.TensorSpec([count], tf.int64)) for count in counts]
    made = tracing.program(program, *(each for pair in kinds for each in pair), weights=weights)
    return made.graph_def, made.inputs, made.outputs


class Ringed:
    """The student's `ring_step`, traced there and run here: the weights of each device, and who sent what to whom."""

    def __init__(self, student: Any, rng: np.random.Generator, devices: Sequence[str], large: bool) -> None:
        """No device is CPU:0. A `large` model has gradients that are no few numbers."""
        width, rate = int(rng.choice([40, 43] if large else [3, 6])), 0.25
        self.counts = [int(each) for each in 5 + rng.permutation(9)[: len(devices)]]
        batches = [(rng.normal(size=(n, width)).astype("float32"), rng.integers(0, 10, size=n)) for n in self.counts]
        self.values = {
            "kernel": rng.normal(size=(width, 10)).astype("float32"),
            "bias": rng.normal(size=10).astype("float32"),
        }
        self.rate, self.batches, self.scalars = rate, batches, SCALARS
        self.places = [f"{device_of(each)}" for each in devices]
        n = len(devices)
        self.least = 2 * (n - 1) * 4 * -(-10 * (width + 1) // n)  # bytes of each link
        asked = {"counts": self.counts, "width": width, "devices": list(devices), "default": "/CPU:0", "rate": rate}
        answer = student.ask(traced_ring, **asked)
        graph_def, inputs, outputs = row(anything, list_of(text), list_of(text))(answer, "`ring_step` led to")
        fed = dict(zip(inputs, (each for batch in batches for each in batch), strict=False))
        graph = imported(_given_away(graph_def, fed))
        assert len(outputs) == 1, "`ring_step` returned no single tensor; expected one: the mean loss."
        try:
            held = {f"{op.name}:0" for op in graph.get_operations()}
            feed: Any = {graph.get_tensor_by_name(name): value for name, value in fed.items() if name in held}
            out: Any = graph.get_tensor_by_name(outputs[0])
            writes = [op for op in graph.get_operations() if op.type in WRITES]
            handles = {
                op.get_attr("shared_name").decode(): op for op in graph.get_operations() if op.type == "VarHandleOp"
            }
            first = [_own(op, name, self.values, rate, devices) for name, op in handles.items()]
            read: Any = [_read_there(handles.get(f"{name}_{k}")) for k in range(n) for name in self.values]
        except (ValueError, TypeError, KeyError, IndexError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        with session(graph, cpus=5) as running:
            ran(running, first)
            _, (self.loss, *_) = ran(running, [out, *writes], feed)
            there = [each for each in read if each is not None]
            _, after = ran(running, there) if there else ({}, [])
            ran(running, first)
            try:
                self.sent = traffic.count(running, [out.op, *writes], feed, devices=True)
            except (ValueError, TypeError, tf.errors.OpError):
                raise AssertionError("The graph that your code built cannot be run.") from None
        left = iter(after)
        first_values = [self.values[name] for _ in range(n) for name in self.values]
        self.after = [now if each is None else next(left) for each, now in zip(read, first_values, strict=True)]
        moved = [not np.allclose(now, was, atol=1e-7) for now, was in zip(self.after, first_values, strict=True)]
        self.updates = [any(moved[2 * k : 2 * k + 2]) for k in range(n)]
        loss = np.asarray(self.loss)
        self.loss = float(loss) if loss.shape == () and loss.dtype.kind in "fiu" else float("nan")
        self.wanted = self._mean([count / sum(self.counts) for count in self.counts])[0]
        self.right = self.is_by([count / sum(self.counts) for count in self.counts])

    def _mean(self, shares: Sequence[float]) -> tuple[float, dict[str, np.ndarray]]:
        """The loss and the weights after a step in which tower k's mean gradient weighs `shares[k]`."""
        loss, pulls = 0.0, {name: np.zeros_like(value) for name, value in self.values.items()}
        for (images, labels), share in zip(self.batches, shares, strict=True):
            logits = images @ self.values["kernel"] + self.values["bias"]
            chances = np.exp(logits - logits.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
            loss -= share * float(np.log(chances[range(len(labels)), labels]).mean())
            error = share * (chances - np.eye(10)[labels]) / len(labels)
            pulls["kernel"] += (images.T @ error).astype("float32")
            pulls["bias"] += error.sum(axis=0).astype("float32")
        return loss, {name: value - self.rate * pulls[name] for name, value in self.values.items()}

    def is_by(self, shares: Sequence[float]) -> bool:
        """Whether every device has the weights of towers that weigh so much."""
        wanted = self._mean(shares)[1]
        pairs = zip(self.after, [wanted[name] for _ in self.places for name in self.values], strict=True)
        return all(np.allclose(got, right, atol=1e-4) for got, right in pairs)

    def missed(self) -> tuple[str, str] | None:
        """The name of the mistake, and what is said of it."""
        n, says = len(self.places), f"`ring_step` with batches of {self.counts}"
        if not any(self.updates):
            return "not_applied", f"{says}: no weight has changed; expected an update by each device's optimizer."
        if not all(self.updates):
            idle = ", ".join(place for place, moved in zip(self.places, self.updates, strict=True) if not moved)
            return (
                "one_model_only",
                f"{says}: the weights on {idle} have not changed; expected an update on each device.",
            )
        if self.is_by([1.0] * n):
            return "summed", f"{says}: the weights are those of the sum of the towers' gradients; expected a mean."
        if self.is_by([1 / n] * n):
            return (
                "towers_alike",
                f"{says}: each tower counts as much as another; expected as many times as it has examples.",
            )
        shares = [count / sum(self.counts) for count in self.counts]
        if self.is_by([share / n for share in shares]):
            return "divided_twice", f"{says}: the sum of the shares is divided once more, by the devices."
        alone = [self._mean([float(k == j) for j in range(n)])[1] for k in range(n)]
        flat = [alone[k][name] for k in range(n) for name in self.values]
        if all(np.allclose(got, own, atol=1e-4) for got, own in zip(self.after, flat, strict=True)):
            return "own_gradients", f"{says}: each device has made its own tower's update; expected the same on all."
        return None


WRITES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceApplyGradientDescent")


def _own(handle: Any, name: str, values: Mapping[str, np.ndarray], rate: float, devices: Sequence[str]) -> Any:
    """The op that gives a variable of `traced_ring` its value, once it is on its device. Raises KeyError, IndexError."""
    kind, k, *_ = name.split("_")
    if device_of(handle.device) != device_of(devices[int(k)]):
        raise KeyError(name)
    dtype = handle.get_attr("dtype")
    value = np.asarray(rate if dtype.is_floating else 0, dtype.as_numpy_dtype) if kind == "optimizer" else values[kind]
    with handle.graph.as_default(), tf.device(handle.device):
        return tf.raw_ops.AssignVariableOp(resource=handle.outputs[0], value=value)


def _read_there(handle: Any) -> Any:
    """The value of a variable, on its device; None for one that no op touches."""
    if handle is None:
        return None
    with handle.graph.as_default(), tf.device(handle.device):
        return tf.raw_ops.ReadVariableOp(resource=handle.outputs[0], dtype=tf.float32)


@probe(graphs=1)
def built_source(student, counts, width, decay, devices):
    """The graph of `source_step`, and the names of what it returned."""
    from across import tracing

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        given = [
            (
                v1.placeholder(tf.float32, [n, width], name=f"images_{k}"),
                v1.placeholder(tf.int64, [n], name=f"labels_{k}"),
            )
            for k, n in enumerate(counts)
        ]
        train, loss, seen = student.source_step(given, decay, list(devices))
        names = [getattr(train, "op", train).name, loss.name, seen.name if hasattr(seen, "dtype") else str(seen)]
        if hasattr(seen, "handle"):
            names[2] = tf.identity(seen).name
        elif hasattr(seen, "read_value"):
            names[2] = seen.read_value().name
        weights = [each.handle.op.name for each in v1.trainable_variables()]
    return tracing.quiet(graph, [*names, *weights]), names, weights


class Source:
    """The student's `source_step`, built there and run here on drawn weights, images and labels: `found`."""

    def __init__(self, student: Any, rng: np.random.Generator, n: int, decay: float) -> None:
        width, counts = int(rng.integers(4, 8)), [int(each) for each in rng.integers(3, 9, size=n)]
        given = [(rng.normal(size=(k, width)).astype("float32"), rng.integers(0, 10, size=k)) for k in counts]
        devices = [f"/CPU:{i}" for i in rng.permutation(4)[:n]]
        answer = student.ask(built_source, counts=counts, width=width, decay=decay, devices=devices)
        graph_def, names, weights = row(anything, list_of(text, 3), list_of(text))(answer, "`source_step` led to")
        graph = imported(graph_def)
        try:
            feed: dict[Any, Any] = {}
            for k, (images, labels) in enumerate(given):
                x, y = (f"{kind}_{k}:0" for kind in ("images", "labels"))
                feed |= {x: images, y: labels}
            train, out = graph.get_operation_by_name(names[0]), [graph.get_tensor_by_name(each) for each in names[1:]]
            handles = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
            assert len(weights) == len(set(weights)) and len(weights) % 2 == 0 and 2 <= len(weights) <= 8, (
                f"`source_step` makes {len(weights)} trainable variables; expected a kernel and biases for each layer."
            )
            values = {name: _scaled(rng, graph.get_operation_by_name(name)) for name in weights}
            first = [_put(op, values.get(op.name)) for op in handles]
            read = [_read_there(graph.get_operation_by_name(name)) for name in weights]
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        with session(graph) as running:
            ran(running, first)
            _, (loss,) = ran(running, [out[0]], feed)
            ran(running, [train], feed)
            _, after = ran(running, read)
            for _ in range(tower_runs.STEPS - 1):
                ran(running, [train], feed)
            _, (seen,) = ran(running, [out[1]], feed)
        assert np.shape(loss) == (), f"`source_step` returned a loss of shape {np.shape(loss)}; expected one number."
        assert np.shape(seen) == (), f"`source_step` counts batches by a shape {np.shape(seen)}; expected one number."
        before = [values[name] for name in weights]
        try:
            self.found = tower_runs.Found(given, decay, before, after, float(loss), float(seen))
            tower_runs.losses(before, given)
        except (ValueError, TypeError, tf.errors.OpError):
            raise AssertionError("The layers of `source_step` are no chain from images to 10 outputs.") from None


def _scaled(rng: np.random.Generator, handle: Any) -> np.ndarray:
    """A drawn value for a weight. Small enough for a loss that one step does not send astray."""
    shape = [side or 0 for side in tf.TensorShape(handle.get_attr("shape"))]
    return rng.normal(size=shape, scale=0.5).astype("float32")


def _put(handle: Any, value: np.ndarray | None) -> Any:
    """The op that gives a variable its value; zeros to what is no weight."""
    dtype = handle.get_attr("dtype")
    zeros = np.zeros([side or 0 for side in tf.TensorShape(handle.get_attr("shape"))], dtype.as_numpy_dtype)
    with handle.graph.as_default(), tf.device(handle.device):
        return tf.raw_ops.AssignVariableOp(resource=handle.outputs[0], value=zeros if value is None else value)
