"""What checks on many workers are made of: each worker's dataset, packs, an epoch's events, and training that goes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from autograder.probe.asking import kept, probe

# pipeline


@probe
def piped(student, workers, replicas, count, batch, steps):
    """How many batches each worker's dataset has, and its first, as [images, labels]: 0, 1, ..., a label is 1000 more."""
    own = replicas // workers
    images = np.arange(count, dtype=np.float32)[:, None]
    found = []
    for i in range(workers):
        context = tf.distribute.InputContext(workers, i, replicas)
        data = student.pipeline(context, images, np.arange(count) + 1000, batch)
        if not isinstance(data, tf.data.Dataset):
            return None
        rows = [[np.asarray(each) for each in row] for row in data.take(steps * own)]
        found.append([int(data.cardinality()), [[each.ravel().tolist() for each in row] for row in rows]])
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
    if wrong == "rest_joins" and len(found) > 1 and sum(found[-1]) <= limit:
        rest = found.pop()
        found[-1] += rest
    return found[::-1] if wrong == "last_pack_first" else found


MISPACKED = {
    "in_order": "TensorFlow begins with the last gradient.",
    "full_at_the_limit": "a pack of exactly `bytes_per_pack` is not full: it is as soon as it has more.",
    "never_more": "a pack may have more than `bytes_per_pack`: only then it is full.",
    "counts_gradients": "bytes count, not gradients.",
    "largest_alone": "a large gradient joins a pack that is not full.",
    "last_pack_first": "the first pack has the last gradient.",
    "rest_joins": "what is left at the end is a pack of its own.",
    "zero_packs_nothing": "with 0 there is one pack.",
}


SHOWN = [([8192, 128, 1280, 40], 1000), ([400] * 5, 800), ([4, 4000, 4, 4], 8), ([4, 8], 0)]  # the notebook's own


def cases_of_packs(rng: np.random.Generator) -> list[tuple[list[int], int]]:
    """Sizes and limits on which each misconception tells."""
    while True:
        limit = int(rng.integers(2, 9)) * 100
        sizes = [int(each) * limit // 2 for each in rng.choice([1, 1, 1, 2, 3, 4], size=8)]
        right = packed(sizes, limit)
        if all(packed(sizes, limit, each) != right for each in MISPACKED if each != "zero_packs_nothing"):
            drawn = [4 * int(each) for each in rng.integers(1, 999, size=6)]
            return [(sizes, limit), (drawn, limit), (sizes[:4], 0), *SHOWN]


# epoch


@probe
def gathered(peer, steps, held):
    """Start a ps and two workers whose steps ask here what their loss is; return the cluster's addresses.

    The step that is the `held`th to ask gets no answer before all others have theirs: who waits for it hands out no more.
    Where no step comes or ends for a while, it is answered all the same. A step says of which worker it is, and its number.
    """
    import socket
    import struct
    import tempfile
    import threading
    import time

    from across.clusters import LocalCluster

    folder = tempfile.TemporaryDirectory()
    address = f"{folder.name}/asked"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(128)
    losses, ended, seen, numbers, lock = [], [], {"stalled": 0, "crowded": 0}, ([], []), threading.Lock()
    busy = [0, 0]  # steps of each worker

    def answer(connection):
        with connection:
            worker, number = struct.unpack("qq", connection.recv(16))
            with lock:
                loss = float(np.random.default_rng().integers(4, 400)) / 4
                losses.append(loss)
                numbers[worker].append(number)
                waits = len(losses) == held
                busy[worker] += 1
                seen["crowded"] = max(seen["crowded"], busy[worker])
            before, looks = None, 0
            while waits and len(ended) < steps - 1 and not seen["stalled"]:
                now = len(losses), len(ended)  # looks are counted, not seconds: on a busy machine they take longer
                looks = looks + 1 if now == before else 0
                before = now
                if looks > 500:
                    seen["stalled"] = len(losses)
                time.sleep(0.01)
            with lock:
                ended.append(loss)
                busy[worker] -= 1
            connection.sendall(struct.pack("d", loss))

    def listen():
        while True:
            threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    def task(spec, job, index):
        from tensorflow.python.ops import script_ops

        def measured(number):
            with socket.socket(socket.AF_UNIX) as to:
                to.connect(address)
                to.sendall(struct.pack("qq", index, number))
                return np.float32(struct.unpack("d", to.recv(8))[0])

        script_ops._py_funcs._funcs["measured"] = measured  # a step's op calls it by this name, in a worker
        config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4, intra_op_parallelism_threads=1)
        tf.distribute.Server(dict(spec), job, index, config=config).join()

    threading.Thread(target=listen, daemon=True).start()
    kept.update(losses=losses, ended=ended, seen=seen, numbers=numbers, folder=folder)
    kept["cluster"] = LocalCluster(task, ps=1, worker=2, env={"CUDA_VISIBLE_DEVICES": "-1"})
    return kept["cluster"].spec


@probe
def coordinated(student, spec, steps, numbers):
    """What `epoch` returns in a coordinator of that cluster, a fresh process. Its steps compute nothing but their loss.

    Each worker has the dataset `numbers`, of which a step takes the next one.
    """
    from across import fresh

    epoch = student.epoch

    def chief():
        import tensorflow as tf

        tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.FATAL)
        tasks = tf.train.ClusterSpec(spec)
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tasks, rpc_layer="grpc")
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

        @tf.function(autograph=False)  # it would put its own words around what `step` raises
        def step(batches=None):
            if batches is None:
                raise TypeError("`epoch` handed `step` out without its one argument: `args=(batches,)`")

            def replica(number):
                return tf.raw_ops.PyFunc(input=[number], token="measured", Tout=[tf.float32])[0]

            return strategy.run(replica, args=(next(batches),))

        data = coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.from_tensor_slices(numbers).repeat())
        return epoch(coordinator, step, iter(data), steps)

    return fresh.call(chief, env={"CUDA_VISIBLE_DEVICES": "-1"}, timeout=45).result()


@probe
def ran(peer):
    """Losses of the steps that the workers began; how many ended; how many had begun when nothing happened any more.

    Then the numbers that each worker's steps had, and the most steps that one worker had at once.
    """
    seen = kept["seen"]
    answer = [list(kept["losses"]), len(kept["ended"]), seen["stalled"], list(kept["numbers"]), seen["crowded"]]
    kept["cluster"].close()
    return answer


# resume


@probe
def lived(student, files, dies, chief, batches, start, rate, momentum, last):
    """Call `resume` in this life, which dies in step `dies` (-1: never): what it returned, and what was seen.

    It finds `files` in its folder, its model the weights `start`. Seen: the argument of each call of `train`, after how many
    steps the folder had changed, how often TensorFlow saved the model, whether it was ended because it went on and on, and
    the files that are left, the oldest first: when it dies, not what is done afterwards.
    """
    import hashlib
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

    with tempfile.TemporaryDirectory() as folder:

        def contents():
            found = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
            made = {}
            for path in sorted(found, key=lambda path: (os.stat(path).st_mtime_ns, path)):
                with open(path, "rb") as file:
                    made[os.path.relpath(path, folder)] = file.read()
            return made

        def look():
            files = [(name, hashlib.sha256(content).digest()) for name, content in contents().items()]
            stats = [os.stat(os.path.join(folder, name)) for name, _ in files]
            return os.stat(folder).st_mtime_ns, files, [(each.st_mtime_ns, each.st_ino) for each in stats]

        for name, content in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        layers = tf.keras.layers
        model = tf.keras.Sequential([layers.Input([len(start)]), layers.Dense(1, use_bias=False)])
        model.set_weights([np.array(start, np.float32)[:, None]])
        optimizer = tf.keras.optimizers.SGD(rate, momentum=momentum)
        optimizer.build(model.trainable_variables)
        model.counted = counted = Counted()
        begun, saved, before, beyond, got, left = [], [], [look()], [], [], []

        def looked(step):
            now = look()
            if now != before[0]:
                saved.append(step)
            before[0] = now

        def steps(step):
            while True:
                looked(step)
                if step == dies:
                    left.append((contents(), counted.count))
                    raise DiedError
                if step > last + 2:
                    beyond.append(step)
                    raise DiedError
                x, y = batches[step]
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(model(x)[:, 0] - y))
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
                step += 1
                yield float(loss)

        def train(first):
            begun.append(int(first))
            return steps(int(first))

        try:
            got = student.resume({"model": model, "optimizer": optimizer}, train, last, folder, chief)
        except DiedError:
            got = []
        if not left:
            looked(last)
            left.append((contents(), counted.count))
        return [got, begun, saved, left[0][1], len(beyond), left[0][0]]


def losses_of(
    batches: Sequence[Sequence[np.ndarray]], start: np.ndarray, rate: float, momentum: float, last: int
) -> np.ndarray:
    """The loss of each step, with a batch each, of a run that nothing interrupts: a linear model, SGD with momentum."""
    w, speed, found = start.astype(np.float64), np.zeros(len(start)), []
    for step in range(last):
        x, y = batches[step]
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
