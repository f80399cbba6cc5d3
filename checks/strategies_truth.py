"""What checks on strategies are made of: questions to the student's kernel, and what one device or TensorFlow's plan says.

Weights after a step are computed here by NumPy (`one_device`); a student's step of training (`trained`) and
reduction (`Reduced`) are graphs that run here on fresh values, and a TPU's plan is TensorFlow's own, made in this process
(`planned`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import anything, array, list_of, number, row, text, truth, whole
from autograder.probe.asking import probe
from copies import Copies
from placing import imported, ran, session


@probe
def homes_of(student, cases):
    found = []
    for kind, devices, sizes, home in cases:
        if kind == "Mirrored":
            strategy = tf.distribute.MirroredStrategy(devices)
        elif kind == "CentralStorage":
            strategy = tf.distribute.experimental.CentralStorageStrategy(devices[:-1], parameter_device=devices[-1])
        else:
            strategy = tf.distribute.OneDeviceStrategy(devices[0])

        made_in, layers = [], tf.keras.layers
        with tf.device(home):  # made before, by no strategy: only who looks knows where
            before = layers.Dense(sizes[1])
            before.build((None, sizes[0]))

        def build(sizes=sizes, made_in=made_in, before=before, layers=layers):
            made_in.append(tf.distribute.get_strategy())
            dense = [layers.Dense(size) for size in sizes[2:]]
            return tf.keras.Sequential([tf.keras.Input((sizes[0],)), before, *dense, layers.BatchNormalization()])

        got = student.homes(strategy, build)
        found.append([got, len(made_in) == 1 and made_in[0] is strategy])
    return found


@probe
def compared(student, programs, replicas, device):
    ways = tf.distribute.ReductionToOneDevice()
    default = tf.distribute.get_strategy()  # it has no devices of its own; in a scope this would be another
    found = []
    for there, alone, atol in programs:
        strategy = tf.distribute.MirroredStrategy([f"/CPU:{i}" for i in range(replicas)], cross_device_ops=ways)
        ran_on = []

        def program(given, there=there, alone=alone, ran_on=ran_on):
            ran_on.append(["no device in particular"] if given is default else list(given.extended.worker_devices))
            weights, loss = alone if given.num_replicas_in_sync == 1 else there
            return [np.array(each) for each in weights], loss

        says = student.differs(program, strategy, device, atol)
        found.append([says, [each[0] for each in ran_on if len(each) == 1], len(ran_on)])
    return found


@probe
def batched(student, cases):
    found = []
    for count, size, replicas in cases:
        strategy = tf.distribute.MirroredStrategy([f"/CPU:{i}" for i in range(replicas)])
        numbers = tf.data.Dataset.range(count)
        data = tf.data.Dataset.zip((numbers, numbers.map(lambda i: 3 * i)))
        made = student.even(data, size, strategy)
        batches = [[np.asarray(x), np.asarray(y)] for x, y in made] if isinstance(made, tf.data.Dataset) else []
        found.append([isinstance(made, tf.data.Dataset), type(made).__name__, batches])
    return found


@probe(graphs=1)
def programmed(student, style, replicas, per_replica, rate, data, new, traced):
    """What `program` did, to its model and with its batches, and what it returned. `fit` and `evaluate` train and test.

    If `traced`, the step of training as a graph, in which copy k of variable i is the variable "i k".
    """
    import itertools

    from across import tracing

    width, epochs_of, losses, made = np.shape(data[0])[1], [], [], []
    batches_of = {"fit": ([], []), "evaluate": ([], [])}  # how many pairs each has; the first number of every x

    def dense(size):
        return tf.keras.layers.Dense(size, kernel_initializer="ones")

    class Classy(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.last = dense(1)

        def call(self, inputs, training=None, mask=None):
            return self.last(inputs)

    def functional():
        x = tf.keras.Input((width,))
        return tf.keras.Model(x, dense(1)(x))

    styles = {
        "sequential": lambda: tf.keras.Sequential([tf.keras.Input((width,)), dense(1)]),
        "functional": functional,
        "class": Classy,
    }
    devices = [f"/CPU:{i}" for i in range(replicas)]
    strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())

    def note(what, x, y, size):
        if isinstance(x, (tf.data.Dataset, tf.distribute.DistributedDataset)):
            pairs = itertools.islice(x, 99)  # one that repeats has no end
        else:
            pairs = [] if y is None else [[x[at : at + size]] for at in range(0, len(x), size)]
        for each, *_ in pairs:
            whole = np.concatenate(strategy.experimental_local_results(each))
            batches_of[what][0].append(len(whole))
            batches_of[what][1].extend(float(row[0]) for row in whole)

    def build():
        model = styles[style]()
        train, test = model.fit, model.evaluate

        def fit(x=None, y=None, batch_size=None, epochs=1, *rest, **how):
            note("fit", x, y, batch_size or 32)
            epochs_of.append(int(epochs))
            if model.distribute_strategy is not strategy:
                raise ValueError("the model was not built in the scope")
            history = train(x, y, batch_size, epochs, *rest, **how)
            losses.append(float(history.history["loss"][-1]))
            return history

        def evaluate(x=None, y=None, batch_size=None, *rest, **how):
            note("evaluate", x, y, batch_size or 32)
            return test(x, y, batch_size, *rest, **how)

        model.fit, model.evaluate = fit, evaluate
        made.append(model)
        return model

    datasets = [tf.data.Dataset.from_tensor_slices(tuple(each)) for each in (data, new)]
    weights, found = student.program(strategy, build, *datasets, per_replica, rate)
    if not made:
        raise ValueError("`program` did not call `build`")
    model = made[-1]
    if not getattr(model, "optimizer", None):
        raise ValueError("`program` did not compile the model")
    copies = [len(strategy.experimental_local_results(each.value)) for each in model.weights]
    counters = len(strategy.experimental_local_results(model.optimizer.iterations.value))
    scaled = float(tf.keras.ops.convert_to_numpy(model.optimizer.learning_rate))
    decay = float(model.optimizer.weight_decay or 0.0)
    scoped = model.distribute_strategy is strategy
    facts = [len(made), scoped, copies, counters, scaled, decay, max(epochs_of, default=0)]
    did = [*facts, *batches_of.values(), losses, model.get_weights()]
    if not traced or not scoped:
        return did, [weights, found], None, [], []

    def part(width):
        return strategy.experimental_distribute_values_from_function(lambda _: tf.ones([per_replica, width]))

    given = part(width), part(1)
    with strategy.scope():
        strategy.run(model.train_step, args=(given,))  # makes what there is not yet: weights of a class, metrics
        step = tf.function(lambda x, y: strategy.run(model.train_step, args=((x, y),)), autograph=False)
        variables = [*model.weights, *model.optimizer.variables, *model.metrics_variables]
        each = [strategy.experimental_local_results(variable.value) for variable in variables]
        known = {f"{i} {k}": (copy, copy.device) for i, copies in enumerate(each) for k, copy in enumerate(copies)}
        graph = tracing.written_out(tracing.concrete(step, *given), known)
    values = [[name, np.asarray(copy)] for name, (copy, _) in known.items()]
    return did, [weights, found], graph.graph_def, [graph.inputs, graph.outputs], values


BATCHES = row(list_of(whole), list_of(number))
RETURNED = row(list_of(array()), number).named("weights and a loss")


class Programmed:
    """The student's `program` on `n` replicas, with fresh pairs: what it did, and what it returned."""

    def __init__(
        self, student: Any, rng: np.random.Generator, style: str, n: int, per_replica: int, rest: int, traced: bool
    ) -> None:
        """`rest` pairs more than whole batches, of both datasets: for each replica one at least, and some to lose."""
        self.n, self.size, self.base = n, n * per_replica, float(rng.choice([0.01, 0.02, 0.05]))
        self.width = int(rng.integers(2, 5))
        self.data, self.new = (
            [rng.normal(size=(count, each)).astype(np.float32) for each in (self.width, 1)]
            for count in (2 * self.size + rest, self.size + rest)
        )
        asked = {"style": style, "replicas": n, "per_replica": per_replica, "rate": self.base, "traced": traced}
        answer = student.ask(programmed, **asked, data=self.data, new=self.new)
        facts = (whole, truth, list_of(whole), whole, number, number, whole, BATCHES, BATCHES, list_of(number))
        did = row(*facts, row(array([self.width, 1]), array([1])))
        seen = row(did, RETURNED, anything, anything, anything)(answer, "`program` led to")
        did, (self.weights, self.loss), *self.graph = seen
        self.models, self.scoped, self.copies, self.counters, self.rate, self.decay, self.epochs = did[:7]
        (self.trained_on, self.of_data), (self.tested_on, self.of_new), self.losses, self.after = did[7:]
        self.says = (
            f"`program(strategy, build, data, new, {per_replica}, {self.base:g})` of a {style} model, {n} replicas:"
        )


TRACED = row(list_of(list_of(text), 2), list_of(row(text, anything))).named("a step of training")


def trained(graph_def: Any, names: Any, x: np.ndarray, y: np.ndarray, n: int, steps: int) -> list[list[np.ndarray]]:
    """Kernel and bias of each of `n` replicas after `steps` of what `programmed` traced, on these examples.

    They begin with ones and zero. AssertionError where a replica has no copy of its own.
    """
    (inputs, outputs), values = TRACED(names, "Your model led to")
    own = [f"{i} {k}" for k in range(n) for i in range(2)]
    begin = {**dict(values), **dict(zip(own, [np.ones((x.shape[1], 1)), np.zeros(1)] * n, strict=True))}
    parts = [*np.split(x, n), *np.split(y, n)]
    _, found = Copies("your model's step", graph_def, inputs, outputs, parts, begin).run(ran, steps)
    missing = [name for name in own if name not in found]
    assert not missing, f"Replica {missing[0].split()[1]} trains no copy of its own; was the model built in the scope?"
    return [[found[f"{i} {k}"] for i in range(2)] for k in range(n)]


def one_device(batches: Sequence[Sequence[np.ndarray]], rate: float) -> list[np.ndarray]:
    """Kernel and bias of a dense layer, first ones and zero, after gradient descent on the mean squared error.

    A step for each of the `batches`, pairs (x, y).
    """
    kernel, bias = np.ones((batches[0][0].shape[1], 1)), np.zeros(1)
    for x, y in batches:
        error = x @ kernel + bias - y
        kernel, bias = kernel - rate * 2 * x.T @ error / len(x), bias - rate * 2 * error.mean(axis=0)
    return [kernel, bias]


@probe(graphs=1)
def reduced(student, shapes, replicas):
    from across import tracing

    devices = [f"/CPU:{i}" for i in range(replicas)]
    strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())
    fed, back = [], []

    def replica():
        number = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
        own = [
            tf.raw_ops.Placeholder(dtype=tf.float32, shape=shape, name=f"own_{number}_{i}")
            for i, shape in enumerate(shapes)
        ]
        fed.append([int(number), [each.name for each in own]])
        sums = student.packed(list(own))
        if not isinstance(sums, (list, tuple)) or not all(tf.is_tensor(each) for each in sums):
            raise TypeError(f"packed(gradients) returned {type(sums).__name__}, not a list of tensors")
        back.append([int(number), [tf.identity(each).name for each in sums]])
        return tf.constant(0.0)

    graph, odd = tf.Graph(), set()
    with graph.as_default():
        strategy.run(replica)
    for op in graph.get_operations():  # what no graph may hold that is graded; the visible check refuses the same
        if op.type in ("PyFunc", "EagerPyFunc", "Bitcast"):
            odd.add(op.type)
        odd.update(op.type for each in op.outputs if each.dtype.is_complex or each.dtype == tf.variant)
    if odd:
        names = ", ".join(sorted(odd))
        raise TypeError(f"packed(gradients) builds {names}; use only reshape, concat, split and slices around the sum")
    inputs, outputs = ([names for _, names in sorted(each)] for each in (fed, back))
    return tracing.quiet(graph, [name for names in outputs for name in names]), inputs, outputs


NAMES = list_of(list_of(text))
BUILT = row(anything, NAMES, NAMES).named("a graph that adds over replicas")


class Reduced:
    """The student's `packed` on `replicas` replicas, with fresh gradients of these shapes: sums, and how many AddN ran."""

    def __init__(self, student: Any, rng: np.random.Generator, shapes: list[list[int]], replicas: int) -> None:
        self.says = f"`packed` of {len(shapes)} gradients on {replicas} replicas"
        answer = student.ask(reduced, shapes=shapes, replicas=replicas)
        graph_def, inputs, outputs = BUILT(answer, "Your code led to")
        assert len(inputs) == len(outputs) == replicas, f"{self.says} was not called by each replica."
        for names in outputs:
            assert len(names) == len(shapes), f"{self.says} returned {len(names)} tensors; expected {len(shapes)}."
        self.own = [[rng.normal(size=shape).astype(np.float32) for shape in shapes] for _ in range(replicas)]
        graph = imported(graph_def)
        try:
            pairs = [pair for names, own in zip(inputs, self.own, strict=True) for pair in zip(names, own, strict=True)]
            feed: dict[Any, Any] = {graph.get_tensor_by_name(name): value for name, value in pairs}
            out = [graph.get_tensor_by_name(name) for names in outputs for name in names]
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        assert not any(op.type.startswith("Var") for op in graph.get_operations()), f"{self.says} makes variables."
        with session(graph) as running:
            places, values = ran(running, out, feed)
            joined = [op for op in joining(graph, inputs) if op.name in places]
            added = [op for op in joined if op.type in ("AddN", "AddV2", "Add")]
            sums = ran(running, [op.outputs[0] for op in added], feed)[1] if added else []
        self.adds, self.others = len(added), len(joined) - len(added)
        self.bytes, self.bytes_needed = (
            sum(np.asarray(each).nbytes for each in sums),
            sum(x.nbytes for x in self.own[0]),
        )
        each = len(shapes)
        self.sums = [[np.asarray(value) for value in values[at : at + each]] for at in range(0, len(values), each)]
        self.wanted = [np.sum([own[i] for own in self.own], axis=0) for i in range(each)]


def joining(graph: tf.Graph, inputs: Sequence[Sequence[str]]) -> list[tf.Operation]:
    """The ops of any kind that bring together what several replicas have: no input alone comes from all of them."""
    of: dict[str, frozenset[int]] = {name: frozenset([k]) for k, names in enumerate(inputs) for name in names}
    found: dict[str, tf.Operation] = {}
    before = -1
    while before < sum(map(len, of.values())):  # the order of ops need not be theirs in time
        before = sum(map(len, of.values()))
        for op in graph.get_operations():
            parts = [of.get(each.name, frozenset()) for each in op.inputs]
            union = frozenset().union(*parts)
            if not parts:
                continue
            of.update({each.name: union for each in op.outputs})
            found.pop(op.name, None)
            if union and union not in parts:
                found[op.name] = op
    return list(found.values())


@probe
def assigned_to(student, cases):
    found = []
    for mesh, places, cores in cases:
        try:
            found.append(student.assigned(list(mesh), [[list(place) for place in task] for task in places], cores))
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
            kind = "ValueError" if isinstance(error, ValueError) else type(error).__name__
            found.append(f"{kind}: {error}")
    return found


Places = list[list[list[int]]]  # of each task, of each of its devices: four numbers


def planned(mesh: Sequence[int], places: Places, cores: int) -> list[list[str]]:
    """The devices of each replica, by TensorFlow's own plan."""
    topology = tf.tpu.experimental.Topology(mesh_shape=list(mesh), device_coordinates=places)
    count = math.prod(mesh) // cores
    plan = tf.tpu.experimental.DeviceAssignment.build(topology, computation_shape=[1, 1, 1, cores], num_replicas=count)
    return [[plan.tpu_device(replica, core) for core in range(cores)] for replica in range(count)]


def seats(rng: np.random.Generator, mesh: Sequence[int], tasks: int) -> Places:
    """The places of a mesh, dealt out to tasks: a block of neighbours for each, its devices in any order."""
    every = [[x, y, 0, core] for x in range(mesh[0]) for y in range(mesh[1]) for core in range(mesh[3])]
    size = len(every) // tasks
    blocks = [every[at : at + size] for at in range(0, len(every), size)]
    return [[block[i] for i in rng.permutation(size)] for block in blocks]
