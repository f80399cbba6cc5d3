"""What checks on many workers are made of: each worker's dataset, an epoch's events, and training that goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from autograder.probe.asking import kept, probe, refused

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
    kept["folder"].cleanup()
    return answer


# worker


@probe
def packed(student):
    """The answer with all that it uses of the notebook, and the notebook's lines, which AutoGraph reads."""
    from across import fresh
    from across._process import tracebacks

    return [fresh.pickled_call("worker", student.worker), tracebacks.cell_sources()]


@probe
def worked(peer, answer, sources, files, parts, start, rate, momentum, batch, last, dies):
    """One life of two processes that run the `answer`, each with its own part of the data alone, and a folder with `files`.

    The peer starts them, and never reads the answer itself. When `worker:1` notes step `dies` it is killed (-1: never), and
    then the other one. How each ended (None: it was ended); then of each what it noted and what it told at its end, as they
    stand in its files, and what is in its folder, all as bytes.
    """
    import json
    import os
    import shutil
    import tempfile
    import time

    from across import fresh, workers
    from across._process import supervision

    here, patience = workers.addresses(2), 600  # seconds: the limit of a question comes before it

    def program(index, folder, told, part):
        import pickle
        import signal

        from across._process import tracebacks
        from autograder.probe import answering

        def wait_for(what):  # of both
            until = time.monotonic() + patience
            while time.monotonic() < until and not all(os.path.exists(f"{each}.{what}") for each in told):
                time.sleep(0.01)

        def tell(what, value):
            with open(f"{told[index]}.new", "w") as file:
                json.dump(value, file)
            os.replace(f"{told[index]}.new", f"{told[index]}.{what}")

        def note(step, loss):
            with open(told[index], "a") as file:
                file.write(json.dumps([int(step), float(loss)]) + "\n")
            if index == 1 and int(step) == dies:
                os.kill(os.getpid(), signal.SIGKILL)

        def made():
            layers = tf.keras.layers
            model = tf.keras.Sequential([layers.Input([len(start)]), layers.Dense(len(start[0]), use_bias=False)])
            model.set_weights([np.array(start, np.float32)])
            optimizer = tf.keras.optimizers.SGD(rate, momentum=momentum)
            optimizer.build(model.trainable_variables)
            return model, optimizer

        def data(context):
            return tf.data.Dataset.from_tensor_slices(tuple(part)).batch(context.get_per_replica_batch_size(batch))

        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": here}, "task": {"type": "worker", "index": index}})
        tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.FATAL)
        workers.note = note
        os.unlink(os.path.join(os.path.dirname(os.environ["TMPDIR"]), "call"))  # where its part stood
        tell("ready", None)
        wait_for("ready")
        try:
            tracebacks.learn_sources(sources)
            got = pickle.loads(answer)(made, data, batch, last, folder)
            tell("ended", [float(each) for each in got] if isinstance(got, (list, tuple)) else None)
        except BaseException as error:
            tell("ended", answering.error_told(error))
            os._exit(3)
        wait_for("ended")  # who ends cuts the other one off

    def content(path):
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return b""

    def contents(folder):
        found = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
        found = sorted(path for path in found if os.path.isfile(path) and not os.path.islink(path))
        return [[os.fsencode(os.path.relpath(path, folder)), content(path)] for path in found]

    if "room" not in kept:
        kept["room"] = tempfile.mkdtemp()  # one path for all lives: a checkpoint may have it in it
    room = kept["room"]
    folders, told = ([os.path.join(room, f"{what}-{index}") for index in (0, 1)] for what in ("folder", "told"))
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
        for name, its in files:
            path = os.path.join(folder, os.fsdecode(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(its)
    server = fresh.server_path(time.monotonic() + 120, cold=False)
    group, calls = supervision.Group(server and os.path.dirname(server)), []
    try:
        for index in (0, 1):
            call = program, (index, folders[index], told, parts[index]), {}
            pickled, name = fresh.pickled_call("worker", call), f"worker:{index}"
            calls.append(fresh.Call(group, server, name, name, pickled, None, {"CUDA_VISIBLE_DEVICES": ""}))
        until = time.monotonic() + patience
        while time.monotonic() < until and any(each.member.code is None for each in calls):
            group.look()
            if any(each.member.code not in (None, 0) for each in calls):
                break
            time.sleep(0.01)
        codes = [each.member.code for each in calls]
        for each in calls:
            each.member.process.close()
        ended = [[content(told[i]), content(f"{told[i]}.ended"), contents(folders[i])] for i in (0, 1)]
        return [codes, *ended]
    finally:
        group.close()
        shutil.rmtree(room, ignore_errors=True)


def lines_of(noted: bytes) -> list[Any]:
    """What a worker noted, a line each. AssertionError where that cannot be read."""
    return [_read(line) for line in noted.splitlines()]


def end_of(code: int | None, told: bytes, who: str) -> Any:
    """What a worker returned, None where that is no list of numbers. Refused where it raised, or ended without a word."""
    end = _read(told or b"{}")
    if isinstance(end, dict):
        how = "runs" if code is None else f"ended with {code}"
        raise refused(end if "error" in end else {"error": "Died", "says": f"{who} {how}, and has returned nothing"})
    return end


def _read(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise AssertionError("What your worker wrote beside its notes cannot be read.") from None


def losses_of(
    batches: Sequence[tuple[np.ndarray, np.ndarray]], start: np.ndarray, rate: float, momentum: float
) -> list[float]:
    """The loss of each step, a batch each, of a run that nothing interrupts: softmax, SGD with momentum, by NumPy."""
    w, speed, found = start.astype(np.float64), np.zeros(start.shape), []
    for x, y in batches:
        scores = x.astype(np.float64) @ w
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        rows = np.arange(len(y))
        found.append(float(-np.log(chances[rows, y]).mean()))
        chances[rows, y] -= 1
        speed = momentum * speed - rate * x.T @ chances / len(y)
        w = w + speed
    return found


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
