"""What checks on steps and on a loop of them are made of: the student's own graph, run here, and what each replica did in it.

A step, or what a replica does in one, is traced there as the notebook traces it, on parts whose sizes are known, and runs here
on fresh weights and data (`Worked`): TensorFlow's record of that run says how many numbers each device computed. A loop runs
here on the checker's own data (`Looped`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import anything, list_of, row, text
from autograder.probe.asking import Misconception, probe
from copies import Copies
from loops_truth import Alone, Duel
from placing import TIMEOUT, imported, session

v1 = tf.compat.v1


@probe
def stepped(student, n, weights, images, labels, size, rate, momentum):
    devices = [f"/CPU:{i}" for i in range(n)]
    strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
    layers = tf.keras.layers
    with strategy.scope():
        hidden = layers.Dense(weights[0].shape[1], activation="tanh", trainable=False)
        more = layers.Dense(weights[2].shape[1], activation="tanh")
        model = tf.keras.Sequential([tf.keras.Input((weights[0].shape[0],)), hidden, more, layers.Dense(10)])
        optimizer = tf.keras.optimizers.SGD(rate, momentum=momentum)
        optimizer.build(model.trainable_variables)
    model.set_weights(weights)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(size)
    batches = iter(strategy.experimental_distribute_dataset(data))
    losses = []
    for _ in range(-(-len(labels) // size)):
        loss = student.step(strategy, model, optimizer, next(batches))
        if isinstance(loss, tf.distribute.DistributedValues):
            raise TypeError(f"`step` returned a {type(loss).__name__}, a loss of each replica; expected one number")
        losses.append(np.asarray(loss))
    return losses, [np.asarray(each) for each in model.get_weights()]


@probe
def counted(student, n, numbers, size, asked):
    devices = [f"/CPU:{i}" for i in range(n)]
    strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
    data = tf.data.Dataset.from_tensor_slices(numbers).batch(size)
    iterator = iter(strategy.experimental_distribute_dataset(data))
    found, calls = [], []

    def of(batch):
        calls.append(1)
        return strategy.reduce("SUM", batch, axis=0)

    work = tf.function(student.up_to)
    for most in asked:
        steps, total = work(tf.constant(int(most)), iterator, of)
        found.append([float(np.asarray(steps)), float(np.asarray(total)), len(calls)])
    return found


@probe(graphs=1)
def loop_of(student, factor):
    from across import tracing

    state = tf.Variable(tf.zeros([]))
    iterator = iter(tf.data.Dataset.from_tensor_slices(np.zeros(3, np.float32)).batch(2))

    def of(batch):  # each loss depends on all steps before it
        state.assign(factor * state + tf.reduce_sum(batch))
        return tf.identity(state)

    def loop(most):
        return student.up_to(most, iterator, of)

    made = tracing.program(loop, tf.TensorSpec([], tf.int32), weights={"state": (state, "")})
    return made.graph_def, made.inputs, made.outputs


@probe(graphs=1)
def step_of_parts(student, what, n, shapes, sizes, rate, momentum):
    strategy = tf.distribute.MirroredStrategy([f"/CPU:{i}" for i in range(n)], tf.distribute.ReductionToOneDevice())
    layers = tf.keras.layers
    with strategy.scope():
        hidden = layers.Dense(shapes[0][1], activation="tanh", trainable=False)
        more = layers.Dense(shapes[2][1], activation="tanh")
        model = tf.keras.Sequential([tf.keras.Input((shapes[0][0],)), hidden, more, layers.Dense(10)])
        optimizer = tf.keras.optimizers.SGD(rate, momentum=momentum)
        optimizer.build(model.trainable_variables)
    copies = {}
    for i, each in enumerate([*model.weights, *optimizer.variables]):
        for k, copy in enumerate(strategy.experimental_local_results(each.value)):
            copies[id(copy.handle)] = i, k, copy

    def part(rest, dtype):
        def value(context):
            return tf.zeros([sizes[context.replica_id_in_sync_group], *rest], dtype)

        return strategy.experimental_distribute_values_from_function(value)

    batch, examples = (part([shapes[0][0]], tf.float32), part([], tf.int64)), tf.constant(float(sum(sizes)))

    def step(batch):
        if what == "step":
            return student.step(strategy, model, optimizer, batch)
        return strategy.run(student.in_replica, args=(model, optimizer, *batch, examples))

    graph = tf.function(step).get_concrete_function(batch).graph
    graph_def = graph.as_graph_def()
    captured = {inside.op.name: outside for outside, inside in graph.captures}
    printing = {node.name for node in graph_def.node if node.op in ("PrintV2", "StringFormat")}  # may not come in
    nodes = [node for node in graph_def.node if node.name not in printing]
    del graph_def.node[:]
    for node in nodes:
        inputs = [name for name in node.input if name.lstrip("^") not in printing]
        del node.input[:]
        node.input.extend(inputs)
        outside = captured.get(node.name)
        if outside is not None:
            node.attr.clear()
            node.attr["dtype"].type = outside.dtype.as_datatype_enum
            if id(outside) in copies:
                i, k, copy = copies[id(outside)]
                node.op, node.device = "VarHandleOp", f"/device:CPU:{k}"
                node.attr["dtype"].type = copy.dtype.as_datatype_enum
                node.attr["shape"].shape.CopyFrom(copy.shape.as_proto())
                node.attr["shared_name"].s = f"{i}_{k}".encode()
            elif outside.dtype != tf.resource:
                node.op = "Const"
                node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(outside.numpy()))
        graph_def.node.append(node)
    given = [tensor.name for tensor in graph.inputs if tensor.op.name not in captured]
    return graph_def, given, [tensor.name for tensor in graph.outputs]


NAMES = list_of(text)


class Worked:
    """The student's `step`, or `in_replica`, on replicas with parts of these sizes, twice, on fresh data.

    `losses` has a list of what came back, for each step; `weights` a list for each replica; `work` says how many numbers each
    device computed in a step, those that are no replica's together at the end.
    """

    def __init__(
        self, student: Any, what: str, alone: Alone, sizes: Sequence[int], rate: float, momentum: float
    ) -> None:
        n, shapes = len(sizes), [list(each.shape) for each in alone.weights]
        asked = {"n": n, "shapes": shapes, "sizes": list(sizes), "rate": rate, "momentum": momentum}
        answer = student.ask(step_of_parts, what=what, **asked)
        graph_def, given, out = row(anything, NAMES, NAMES)(answer, f"`{what}` in a `tf.function` led to")
        ends = np.cumsum([0, *sizes])
        spans = [slice(int(ends[k]), int(ends[k + 1])) for k in range(n)]
        values = [alone.images[span] for span in spans] + [alone.labels[span] for span in spans]
        first = [*alone.weights, 0, rate, *(np.zeros_like(each) for each in alone.weights[2:])]
        wanted = 1 if what == "step" else n
        assert len(out) == wanted, f"`{what}` in a `tf.function` returned {len(out)} tensors; expected {wanted}."
        begin = {f"{i}_{k}": value for i, value in enumerate(first) for k in range(n)}
        found, after = Copies(f"your `{what}`", graph_def, given, out, values, begin).run(numbers, 2)
        self.losses = [value for value, _ in found]
        work = found[-1][1]
        self.work = [work.pop(f"CPU:{k}", 0) for k in range(n)]
        self.work.append(sum(work.values()))
        self.weights = [[after.get(f"{i}_{k}", value) for i, value in enumerate(alone.weights)] for k in range(n)]


def numbers(running: Any, fetches: Any, feed: dict[Any, Any]) -> tuple[Any, dict[str, int]]:
    """Run it; the value, and how many numbers the ops of each device gave in that run, whatever their kind and type."""
    seen = v1.RunMetadata()
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, timeout_in_ms=TIMEOUT)
    try:
        value = running.run(fetches, feed, options=options, run_metadata=seen)
    except Exception as error:  # ValueError, TypeError, OpError, and whatever else a student's graph leads to
        raise AssertionError(f"Your graph cannot be run: {str(error)[:200]}") from None
    found: dict[str, int] = {}
    for device in seen.step_stats.dev_stats:
        count = 0
        for node in device.node_stats:
            for each in node.output:
                count += math.prod(dim.size for dim in each.tensor_description.shape.dim)
        name = device.device.split("device:")[-1]
        found[name] = found.get(name, 0) + count
    return value, found


@probe(graphs=1)
def duel_of_parts(student, shapes, sizes, rates):
    from across import tracing

    strategy = tf.distribute.MirroredStrategy(
        [f"/CPU:{i}" for i in range(len(sizes))], tf.distribute.ReductionToOneDevice()
    )
    layers = tf.keras.layers
    with strategy.scope():
        inner = [layers.Dense(shapes[0][1], activation="tanh"), layers.Dense(shapes[2][1])]
        generator = tf.keras.Sequential([tf.keras.Input((shapes[0][0],)), *inner])
        inner = [layers.Dense(shapes[4][1], activation="tanh"), layers.Dense(1)]
        critic = tf.keras.Sequential([tf.keras.Input((shapes[4][0],)), *inner])
        optimizers = tuple(map(tf.keras.optimizers.SGD, rates))
        optimizers[0].build(generator.trainable_variables)
        optimizers[1].build(critic.trainable_variables)
    own = [*generator.weights, *critic.weights, *optimizers[0].variables, *optimizers[1].variables]
    each = [strategy.experimental_local_results(variable.value) for variable in own]
    known = {f"{i}_{k}": (copy, copy.device) for i, copies in enumerate(each) for k, copy in enumerate(copies)}

    def part(width):
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.zeros([sizes[context.replica_id_in_sync_group], width])
        )

    examples = tf.constant(float(sum(sizes)))

    def both(noise, images):
        def inside(z, x):
            return student.duel(generator, critic, optimizers, z, x, examples)

        return strategy.run(inside, args=(noise, images))

    made = tracing.written_out(tracing.concrete(both, part(shapes[0][0]), part(shapes[4][0])), known)
    return made.graph_def, made.inputs, made.outputs


class Duelled:
    """The student's `duel` on replicas with parts of these sizes, on fresh data.

    `losses` has the generator's of each replica, then the critic's; `weights` a list for each replica; `work` as of `Worked`.
    """

    def __init__(self, student: Any, alone: Duel, sizes: Sequence[int], rates: Sequence[float]) -> None:
        n, shapes = len(sizes), [list(each.shape) for each in alone.weights]
        answer = student.ask(duel_of_parts, shapes=shapes, sizes=list(sizes), rates=list(rates))
        graph_def, given, out = row(anything, NAMES, NAMES)(answer, "`duel` in a `tf.function` led to")
        assert len(out) == 2 * n, f"`duel` returned {len(out)} tensors, replicas: {n}; expected two losses of each."
        parts = [np.split(each, np.cumsum(sizes)[:-1]) for each in (alone.noise, alone.images)]
        first = [*alone.weights, 0, rates[0], 0, rates[1]]  # SGD has a number of steps and a rate
        begin = {f"{i}_{k}": value for i, value in enumerate(first) for k in range(n)}
        (found,), after = Copies("your `duel`", graph_def, given, out, [*parts[0], *parts[1]], begin).run(numbers, 1)
        self.losses, work = np.reshape([float(np.sum(each)) for each in found[0]], [2, n]), found[1]
        self.work = [work.pop(f"CPU:{k}", 0) for k in range(n)]
        self.work.append(sum(work.values()))
        self.weights = [[after.get(f"{i}_{k}", each) for i, each in enumerate(alone.weights)] for k in range(n)]


def own_work(alone: Alone, size: int, rate: float, momentum: float) -> int:
    """How many numbers one device computes in a step on `size` of the examples."""
    with tf.Graph().as_default() as graph:
        free = [
            v1.get_variable(f"v{i}", initializer=each, use_resource=True) for i, each in enumerate(alone.weights[2:])
        ]
        losses = alone.losses([*alone.weights[:2], *free], slice(0, size))
        optimizer = v1.train.MomentumOptimizer(rate, momentum)
        step = optimizer.minimize(tf.reduce_sum(losses) / size, var_list=free)
        first = v1.global_variables_initializer()
    with session(graph) as running:
        running.run(first)
        return numbers(running, step, {})[1].get("CPU:0", 0)


def duel_work(alone: Duel, size: int) -> int:
    """How many numbers one device computes in a step of both players on `size` of the examples."""
    with tf.Graph().as_default() as graph:
        own = [v1.get_variable(f"v{i}", initializer=each, use_resource=True) for i, each in enumerate(alone.weights)]
        noise, images = tf.constant(alone.noise[:size]), tf.constant(alone.images[:size])
        losses = [tf.reduce_sum(each) / size for each in alone.losses(own, noise, images)]
        players = own[:4], own[4:]
        moves = [
            (variable, move)
            for loss, player in zip(losses, players, strict=True)
            for variable, move in zip(player, tf.gradients(loss, player), strict=True)
        ]
        step = [variable.assign_sub(0.1 * move, read_value=False) for variable, move in moves]
        first = v1.global_variables_initializer()
    with session(graph) as running:
        running.run(first)
        return numbers(running, step, {})[1].get("CPU:0", 0)


class Looped:
    """The student's `up_to` as a graph, and what it does here with batches of fresh numbers.

    `bodies` says how often a step stands in the graph; `found` has steps and the sum of losses for each of `asked`, which are
    asked one after the other of one iterator. Of the steps that the data allows, `losses` has all: `factor` times the one
    before, plus the sum of the batch.
    """

    def __init__(self, student: Any, numbers: np.ndarray, size: int, factor: float, asked: Sequence[int]) -> None:
        answer = student.ask(loop_of, factor=factor)
        graph_def, given, out = row(anything, NAMES, NAMES)(answer, "`up_to` in a `tf.function` led to")
        nodes = [*graph_def.node, *(node for function in graph_def.library.function for node in function.node_def)]
        self.bodies = sum(node.op == "AssignVariableOp" for node in nodes)
        iterators, states = [], []
        for node in graph_def.node:
            if node.op == "Placeholder" and node.attr["dtype"].type == tf.resource.as_datatype_enum:
                node.op = "IteratorV2"
                node.attr.clear()
                node.attr["shared_name"].s, node.attr["container"].s = b"data", b""
                node.attr["output_types"].list.type.append(tf.float32.as_datatype_enum)
                node.attr["output_shapes"].list.shape.add().CopyFrom(tf.TensorShape([None]).as_proto())
                iterators.append(node.name)
            if node.op == "VarHandleOp":
                states.append(node.name)
        self.losses, last = [], 0.0
        for at in range(0, len(numbers), size):
            last = factor * last + float(numbers[at : at + size].sum())
            self.losses.append(last)
        graph = imported(graph_def)
        assert len(given) == 1 and len(out) == 2, f"`up_to` returned {len(out)} tensors; expected steps and a sum."
        try:
            fetches: Any = [graph.get_tensor_by_name(name) for name in (*given, *out)]
            with graph.as_default():
                data: Any = tf.data.Dataset.from_tensor_slices(numbers).batch(size)
                begin = [
                    tf.raw_ops.MakeIterator(
                        dataset=data._variant_tensor, iterator=graph.get_tensor_by_name(f"{name}:0")
                    )
                    for name in iterators
                ]
                begin += [
                    tf.raw_ops.AssignVariableOp(resource=graph.get_tensor_by_name(f"{name}:0"), value=tf.constant(0.0))
                    for name in states
                ]
        except (ValueError, TypeError, KeyError, IndexError):
            raise AssertionError("The graph of your `up_to` does not hold together.") from None
        options = v1.RunOptions(timeout_in_ms=TIMEOUT)
        with session(graph) as running:
            try:
                running.run(begin)
                values = [running.run(fetches[1:], {fetches[0]: each}, options=options) for each in asked]
            except Exception as error:  # as in `numbers`
                raise AssertionError(f"Your graph cannot be run: {str(error)[:200]}") from None
        one = all(np.shape(each) == () and np.asarray(each).dtype.kind in "iuf" for pair in values for each in pair)
        assert one, "`up_to` did not return two numbers."
        self.found = [(float(steps), float(total)) for steps, total in values]


def check_loop(losses: Sequence[float], asked: Sequence[int], found: Sequence[tuple[float, float]]) -> None:
    """Hold what was `found` against the losses of all steps that the data allows: (steps, their sum) for each of `asked`."""
    before = 0
    for most, (steps, total) in zip(asked, found, strict=True):
        left = losses[before:]
        wanted = min(most, len(left))
        right = float(sum(left[:wanted]))
        says = f"{len(left)} batches left: `up_to({most}, ...)` returned {steps:g} steps and a sum of {total:g}"
        if steps != wanted:
            if steps == most and most > wanted:
                raise Misconception("counts_empty", f"{says}; a step without data does not count.")
            raise AssertionError(f"{says}; expected {wanted} steps.")
        if not np.isclose(total, right, rtol=1e-5):
            if wanted > 1 and np.isclose(total, right / wanted, rtol=1e-5):
                raise Misconception("mean_of_losses", f"{says}, their mean; expected the sum.")
            if wanted and np.isclose(total, left[wanted - 1], rtol=1e-5):
                raise Misconception("last_loss", f"{says}, that of the last step; expected the sum of all.")
            raise Misconception("another_sum", f"{says}; the sum of their losses is {right:g}.")
        before += wanted
