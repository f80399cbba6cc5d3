"""What checks on many workers are made of: each worker's dataset, packs, an epoch's events, and training that goes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from autograder.probe.asking import probe

# pipeline


@probe
def piped(student, workers, replicas, count, batch, steps):
    """The first batches of each worker's dataset, as [images, labels]; the images are 0, 1, ..., a label is 1000 more."""
    own = replicas // workers
    images = np.arange(count, dtype=np.float32)[:, None]
    found = []
    for i in range(workers):
        context = tf.distribute.InputContext(workers, i, replicas)
        data = student.pipeline(context, images, np.arange(count) + 1000, batch)
        rows = [[np.asarray(each) for each in row] for row in data.take(steps * own)]
        found.append([[each.ravel().tolist() for each in row] for row in rows])
    return found


# packs


def packed(sizes: Sequence[int], limit: int, wrong: str = "") -> list[list[int]]:
    """The packs that TensorFlow makes (`cross_device_utils.group_by_size`, reversed); or by a misconception."""
    order = list(sizes) if wrong == "in_order" else list(reversed(sizes))
    if limit == 0:
        return [[size] for size in order] if wrong == "zero_packs_nothing" else [order]
    found: list[list[int]] = [[]]
    for size in order:
        now = sum(found[-1])
        full = {
            "full_at_the_limit": now >= limit,
            "never_more": bool(found[-1]) and now + size > limit,
            "counts_gradients": len(found[-1]) >= 2,
            "largest_alone": bool(found[-1]) and (size > limit or now > limit),
        }.get(wrong, now > limit)
        if full:
            found.append([])
        found[-1].append(size)
    return found[::-1] if wrong == "last_pack_first" else found


MISPACKED = {
    "in_order": "TensorFlow begins with the last gradient.",
    "full_at_the_limit": "a pack of exactly `bytes_per_pack` is not full: it is as soon as it has more.",
    "never_more": "a pack may have more than `bytes_per_pack`: only then it is full.",
    "counts_gradients": "bytes count, not gradients.",
    "largest_alone": "a large gradient joins a pack that is not full.",
    "last_pack_first": "the first pack has the last gradient.",
    "zero_packs_nothing": "with 0 there is one pack.",
}


def cases_of_packs(rng: np.random.Generator) -> list[tuple[list[int], int]]:
    """Sizes and limits on which each misconception tells."""
    while True:
        limit = int(rng.integers(2, 9)) * 100
        sizes = [int(each) * limit // 2 for each in rng.choice([1, 1, 1, 2, 3, 4], size=8)]
        right = packed(sizes, limit)
        if all(packed(sizes, limit, each) != right for each in MISPACKED if each != "zero_packs_nothing"):
            return [(sizes, limit), ([4 * int(each) for each in rng.integers(1, 999, size=6)], limit), (sizes[:4], 0)]


# epoch


@probe
def handed_out(student, losses):
    """What `epoch` returns, and what it did, see `across.workers.Pretended`."""
    from across import workers

    coordinator = workers.Pretended(losses, step=lambda batches: None, batches=iter([]))
    got = student.epoch(coordinator, coordinator.step, coordinator.batches, len(losses))
    return [got, [list(event) for event in coordinator.events]]


# resume


@probe
def lived(student, lives, batches, start, rate, momentum, last):
    """Call `resume` in each of `lives`, (the step in which it dies or -1, chief): what it returned, and what was seen.

    Each life has a model of its own, whose weights are `start`, and others once something was saved. Seen: the argument
    of each call of `train`, after how many steps the folder had changed, how often TensorFlow saved the model, and whether
    it was ended because it went on and on.
    """
    import os
    import tempfile

    class DiedError(Exception):
        pass

    class Counted(tf.train.experimental.PythonState):
        count = 0

        def serialize(self):
            self.count += 1
            return ""

        def deserialize(self, _value):
            pass

    found = []
    with tempfile.TemporaryDirectory() as folder:

        def look():
            entries = ((each.name, each.stat()) for each in os.scandir(folder))
            return {name: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in entries}

        for dies, chief in lives:
            layers = tf.keras.layers
            model = tf.keras.Sequential([layers.Input([len(start)]), layers.Dense(1, use_bias=False)])
            model.set_weights([np.array(start, np.float32)[:, None] + bool(look())])
            optimizer = tf.keras.optimizers.SGD(rate, momentum=momentum)
            optimizer.build(model.trainable_variables)
            model.counted = counted = Counted()
            begun, saved, before, beyond = [], [], [look()], []

            def looked(step, before=before, saved=saved):
                now = look()
                if now != before[0]:
                    saved.append(step)
                before[0] = now

            def steps(step, dies=dies, looked=looked, model=model, optimizer=optimizer, beyond=beyond):
                while True:
                    looked(step)
                    if step == dies:
                        raise DiedError
                    if step > last + 2:
                        beyond.append(step)
                        raise DiedError
                    x, y = batches[step % len(batches)]
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(model(x)[:, 0] - y))
                    gradients = tape.gradient(loss, model.trainable_variables)
                    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
                    step += 1
                    yield float(loss)

            def train(first, begun=begun, steps=steps):
                begun.append(int(first))
                return steps(int(first))

            try:
                got = student.resume({"model": model, "optimizer": optimizer}, train, last, folder, chief)
            except DiedError:
                got = []
            looked(last)
            found.append([got, begun, saved, counted.count, len(beyond)])
    return found


def losses_of(
    batches: Sequence[tuple[np.ndarray, np.ndarray]], start: np.ndarray, rate: float, momentum: float, last: int
) -> np.ndarray:
    """The loss of each step of a run that nothing interrupts: a linear model, SGD with momentum."""
    w, speed, found = start.astype(np.float64), np.zeros(len(start)), []
    for step in range(last):
        x, y = batches[step % len(batches)]
        error = x @ w - y
        found.append(float(np.mean(error**2)))
        speed = momentum * speed - rate * 2 * x.T @ error / len(y)
        w = w + speed
    return np.array(found)


# epoch_steps


def steps_in_epoch(count: int, batch: int, replicas: int, wrong: str = "") -> tuple[int, int, int]:
    """Steps by the Estimator, by Keras, and Keras's batch for as many examples a replica; or by a misconception."""
    batches = -(-count // batch)
    nearest = round(count / batch)
    estimator = {
        "divided_like_keras": batches,
        "rest_makes_a_step": -(-batches // replicas),
        "whole_batches_only": count // batch // replicas,
        "nearest_batch": nearest // replicas,
    }.get(wrong)
    keras = {
        "keras_drops_the_rest": count // batch,
        "keras_divides_steps": batches // replicas,
        "nearest_batch": nearest,
    }.get(wrong)
    right = batches // replicas if estimator is None else estimator, batches if keras is None else keras
    return *right, batch if wrong == "same_batch" else batch * replicas


MISCOUNTED = {
    "divided_like_keras": "an Estimator gives each replica a batch of its own.",
    "rest_makes_a_step": "batches that are not enough for all replicas make no step of the Estimator.",
    "keras_drops_the_rest": "Keras trains on the last batch, too, if it is smaller.",
    "keras_divides_steps": "Keras divides each batch over its replicas, not the steps.",
    "whole_batches_only": "an Estimator counts the last batch, too, if it is smaller.",
    "nearest_batch": "a last batch counts however small it is.",
    "same_batch": "Keras divides its batch: each replica would have fewer examples than before.",
}


# from_pod, from_slurm


@probe
def resolving(student, function, cases):
    """What each case's resolver tells: what it is, if it is none, the cluster, the job, the index."""
    found = []
    for case in cases:
        got = getattr(student, function)(*case)
        if all(hasattr(got, name) for name in ("cluster_spec", "task_type", "task_id")):
            found.append(["", got.cluster_spec().as_dict(), got.task_type, got.task_id])
        else:
            found.append([type(got).__name__, {}, None, None])
    return found
