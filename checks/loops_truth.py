"""What checks on training loops are made of: probes that run a student's part in strategies, and one device that knows better.

Each probe makes a MirroredStrategy of n logical CPUs in the student's kernel. Truth is one device of this process with the
whole batch (`Alone`): each wrong divisor of a loss is a weight an example, so its update can be computed, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from autograder.probe.asking import Misconception, probe

# what runs in the student's kernel


@probe
def dealt(student, cases):
    found = []
    for n, size, labels in cases:
        devices = [f"/CPU:{i}" for i in range(n)]
        strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
        images = np.zeros([len(labels), 2, 2, 1], np.float32)
        found.append(student.shares(strategy, tf.data.Dataset.from_tensor_slices((images, labels)).batch(size)))
    return found


@probe
def replicated(student, weights, images, labels, sizes, rate, momentum, count):
    n = len(sizes)
    ends = np.cumsum([0, *sizes])
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

    def part(of):
        def value(context):
            k = context.replica_id_in_sync_group
            return tf.constant(of[ends[k] : ends[k + 1]])

        return strategy.experimental_distribute_values_from_function(value)

    examples = tf.constant(float(ends[-1]))
    given = (part(images), part(labels))
    losses = []
    for _ in range(count):
        each = strategy.run(student.in_replica, args=(model, optimizer, *given, examples))
        losses.append([np.asarray(one) for one in strategy.experimental_local_results(each)])
    return losses, [np.asarray(each) for each in model.get_weights()]


@probe
def continued(student, name, files, begin, inputs, targets, stop, rate, momentum):
    import itertools
    import os
    import pathlib
    import shutil
    import tempfile

    trained, folder = [], pathlib.Path(tempfile.gettempdir(), name)

    def make():
        frozen = tf.keras.layers.Dense(begin[0].shape[1], use_bias=False, trainable=False)
        model = tf.keras.Sequential([tf.keras.Input((begin[0].shape[0],)), frozen, tf.keras.layers.Dense(1)])
        optimizer = tf.keras.optimizers.SGD(rate, momentum=momentum)
        optimizer.build(model.trainable_variables)  # it keeps these variables, too; not the frozen one
        model.set_weights(begin)
        return model, optimizer

    def train(model, optimizer, batch):
        number, x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        trained.append(int(number))
        return loss

    def batches(start):
        for number in itertools.count(int(start)):
            yield number, tf.constant(inputs[number]), tf.constant(targets[number])

    folder.mkdir()
    try:
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        model = student.train_to(int(stop), os.fspath(folder), make, train, batches)
        left = {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    finally:
        shutil.rmtree(folder)
    return [np.asarray(each) for each in model.get_weights()], trained, left


# what is right, and what comes of each wrong rule


class Alone:
    """One device with the whole batch: fresh weights, images and labels; a hidden layer is frozen."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        inputs, hidden, more = (int(each) for each in rng.integers([4, 3, 3], [7, 6, 6]))
        shapes = [(inputs, hidden), (hidden,), (hidden, more), (more,), (more, 10), (10,)]
        self.weights = [rng.normal(size=shape, scale=0.7).astype("float32") for shape in shapes]
        self.images = rng.normal(size=(count, inputs)).astype("float32")
        self.labels = rng.integers(0, 10, size=count)

    def losses(self, weights: Sequence[Any], span: slice = slice(None)) -> Any:
        """The cross-entropy of each example."""
        first, second, third, fourth, fifth, sixth = weights
        inner = tf.tanh(tf.tanh(self.images[span] @ first + second) @ third + fourth)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(self.labels[span], inner @ fifth + sixth)

    def trained(
        self, shares: Sequence[tuple[slice, np.ndarray]], rate: float, momentum: float
    ) -> tuple[list[float], list[np.ndarray]]:
        """Descend along the sum of losses times weights an example, one share of the examples a step; the right mean losses."""
        free = [tf.Variable(each) for each in self.weights[2:]]
        speeds, found = [tf.zeros_like(each) for each in free], []
        for span, given in shares:
            with tf.GradientTape() as tape:
                losses = self.losses([*self.weights[:2], *free], span)
                total = tf.reduce_sum(losses * np.asarray(given, np.float32))
            found.append(float(tf.reduce_mean(losses)))
            gradients = tape.gradient(total, free)
            speeds = [
                momentum * speed - rate * tf.convert_to_tensor(each)
                for speed, each in zip(speeds, gradients, strict=True)
            ]
            for variable, speed in zip(free, speeds, strict=True):
                variable.assign_add(speed)
        return found, [*self.weights[:2], *(each.numpy() for each in free)]


def of_each(rule: str, sizes: Sequence[int]) -> np.ndarray:
    """The weight of each example in the sum that is descended, under a right or a wrong rule, for replicas with `sizes`."""
    total, n = sum(sizes), len(sizes)
    own = np.repeat([float(size) for size in sizes], sizes)
    return {
        "right": np.full(total, 1 / total),
        "own_mean": 1 / own,
        "plain_sum": np.ones(total),
        "divided_twice": np.full(total, 1 / total / n),
        "added_twice": np.full(total, n / total),
        "mean_of_the_mean": 1 / own / total,
        "not_applied": np.zeros(total),
        "own_mean_over_replicas": 1 / own / n,
    }[rule]


def cut(count: int, n: int, each: int = 0) -> list[int]:
    """The parts of a batch of `count` examples on `n` replicas, as tf.data rebatches it (tests hold it against TensorFlow).

    Of another size at most than TensorFlow's where `each` says one.
    """
    each = each or -(-count // n)
    return [max(0, min(each, count - k * each)) for k in range(n)]


def descend(
    begin: Sequence[np.ndarray], batches: Sequence[tuple[np.ndarray, np.ndarray]], rate: float, momentum: float
) -> list[np.ndarray]:
    """Weights and bias of a linear model after one step of descent on the mean squared error for each of the batches."""
    weights = [each.astype(np.float64) for each in begin]
    speeds = [np.zeros_like(each) for each in weights]
    for x, y in batches:
        off = 2 * (x @ weights[0] + weights[1] - y) / len(x)
        gradients = [x.T @ off, off.sum(axis=0)]
        speeds = [momentum * speed - rate * each for speed, each in zip(speeds, gradients, strict=True)]
        weights = [each + speed for each, speed in zip(weights, speeds, strict=True)]
    return weights


class Duel:
    """A generator, a critic and their batch on one device: the weights after a step in which one rule is another."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        self.noise = rng.normal(size=(count, 3)).astype("float32")
        self.images = rng.normal(size=(count, 5)).astype("float32")
        shapes = [(3, 4), (4,), (4, 5), (5,), (5, 4), (4,), (4, 1), (1,)]
        self.weights = [rng.normal(size=shape, scale=0.7).astype("float32") for shape in shapes]

    def losses(self, weights: Sequence[Any], noise: Any, images: Any, rule: str = "right") -> tuple[Any, Any]:
        """The generator's loss of each example, and the critic's."""

        def inner(x: Any, four: Sequence[Any]) -> Any:
            return tf.tanh(x @ four[0] + four[1]) @ four[2] + four[3]

        made = inner(inner(noise, weights[:4]), weights[4:])[:, 0]
        real = inner(images, weights[4:])[:, 0]
        of_generator, of_made, of_real = tf.math.softplus(-made), tf.math.softplus(made), tf.math.softplus(-real)
        if rule == "against_itself":
            of_generator = of_made
        if rule == "minus_the_critics":
            of_generator = -of_made
        if rule == "no_real":
            of_real = tf.zeros_like(of_real)
        if rule == "no_made":
            of_made = tf.zeros_like(of_made)
        if rule == "labels_swapped":
            of_made, of_real = tf.math.softplus(-made), tf.math.softplus(real)
        return of_generator, (of_made + of_real) * (0.5 if rule == "halved" else 1.0)

    def after(
        self, rates: Sequence[float], given: np.ndarray, rule: str = "right"
    ) -> tuple[list[float], list[np.ndarray]]:
        """Both mean losses, and all weights after a step; `given` weighs each example. `rule` is a wrong one, or right."""
        variables = [tf.Variable(each) for each in self.weights]
        weigh = np.asarray(given, np.float32)

        def losses() -> tuple[Any, Any]:
            of_generator, of_critic = self.losses(variables, self.noise, self.images, rule)
            return tf.reduce_sum(of_generator * weigh), tf.reduce_sum(of_critic * weigh)

        def moved(which: int) -> None:
            with tf.GradientTape() as tape:
                loss = losses()[which]
            mine = variables[4 * which : 4 * which + 4]
            for variable, each in zip(
                mine, tape.gradient(loss, mine, unconnected_gradients=tf.UnconnectedGradients.ZERO), strict=True
            ):
                waiting.append((variable, rates[which] * tf.convert_to_tensor(each)))
            if rule in ("critic_first", "generator_first"):
                settle()

        def settle() -> None:
            while waiting:
                variable, each = waiting.pop()
                variable.assign_sub(each)

        waiting: list[tuple[Any, Any]] = []
        found = [float(each) for each in losses()]
        for which in (1, 0) if rule == "critic_first" else (0, 1):
            moved(which)
        settle()
        return found, [each.numpy() for each in variables]


def apart(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> float:
    """The largest difference of two lists of weights; infinity where their shapes differ."""
    if [np.shape(each) for each in one] != [np.shape(each) for each in other]:
        return float("inf")
    return max((float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True) if np.size(a)), default=0.0)


WRONG = {
    "own_mean": "as if each replica divided by its own examples: 4 replicas then go about 4 times as far",
    "plain_sum": "as if nothing was divided: expected the sum over the examples of all replicas",
    "divided_twice": "as if the losses were divided by the replicas as well, though gradients are added",
    "mean_of_the_mean": "as if means of replicas were divided again",
    "own_mean_over_replicas": "the mean of the replicas' means; expected each example to count as much",
    "added_twice": "as if gradients were added twice, by hand and by `apply`: n replicas then go n times as far",
    "not_applied": "as they were; expected an update by `optimizer`",
}


def check_moves(
    says: str,
    weights: Sequence[np.ndarray],
    alone: Alone,
    shares: list[tuple[slice, list[int]]],
    rate: float,
    momentum: float,
    by_hand: bool = False,
) -> None:
    """Hold the weights after a step for each of `shares` (examples, sizes of replicas) against one device's.

    `by_hand`: the answer itself may have added gradients that `apply` adds as well.
    """

    def after(rule: str) -> list[np.ndarray]:
        given = [(span, of_each(rule, [each for each in sizes if each] or [1])) for span, sizes in shares]
        power = {"divided_twice": -1, "own_mean_over_replicas": -1, "added_twice": 1}.get(rule, 0)
        given = [  # empty replicas count among those divided, or multiplied, by
            (span, each * (len(sizes) / sum(map(bool, sizes))) ** power)
            for (span, each), (_, sizes) in zip(given, shares, strict=True)
        ]
        return alone.trained(given, rate, momentum)[1]

    off = apart(weights, after("right"))
    if off < 1e-4:
        return
    for rule, words in WRONG.items():
        if rule == "added_twice" and not by_hand:
            continue
        wrong = after(rule)
        if apart(wrong, after("right")) > 1e-3 and apart(weights, wrong) < 1e-4:
            raise Misconception(rule, f"{says} the weights are {words}.")
    raise AssertionError(f"{says} a weight differs by {off:.1g} from that of one device with all examples.")
