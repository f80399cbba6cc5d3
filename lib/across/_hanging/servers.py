"""Programs with parameter servers, and an evaluator beside them: who waits for whom."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from across._hanging.tasks import Ground, Here, Task

STEPS = 5
POLL = 0.05  # seconds


def _server(here: Here) -> Any:
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(
        inter_op_parallelism_threads=4
    )  # with 1, as on one core, a worker waits for itself
    server = tf.distribute.Server(dict(here.spec), here.job, here.index, config=config)
    here.say(f"listens: {server.target}")
    return server


def serve(here: Here) -> None:
    """Be a server until somebody ends it."""
    _server(here).join()


def coordinate(here: Here) -> None:
    """Hand out steps, one after the other."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    here.say("makes its strategy")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    here.say("makes its variables")
    with strategy.scope():
        done = tf.Variable(tf.zeros([]))

    @tf.function(autograph=False)
    def step() -> None:
        done.assign_add(1.0)

    for number in range(STEPS):
        here.say(f"step {number}: hands out")
        coordinator.schedule(step)
        coordinator.join()
        here.say(f"step {number}: done, {done.numpy():g} in all")
        Path(here.folder, f"step-{number}").touch()
        time.sleep(POLL)


def dead_at_start(ground: Ground) -> Sequence[Task]:
    """ps:0 was never started."""
    spec = ground.spec(chief=1, ps=1, worker=1)
    return [Task("chief:0", coordinate, spec), Task("worker:0", serve, spec)]


def _is_killed(here: Here) -> None:
    """Serve, and be killed after step 1, as by the system when memory is out."""
    server = _server(here)
    _wait_for(here, "step-1")
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    server.join()


def _wait_for(here: Here, file: str) -> None:
    while not Path(here.folder, file).exists():
        time.sleep(POLL)


def dies(ground: Ground) -> Sequence[Task]:
    """ps:0 dies while it is used."""
    spec = ground.spec(chief=1, ps=1, worker=1)
    return [Task("chief:0", coordinate, spec), Task("worker:0", serve, spec), Task("ps:0", _is_killed, spec)]


def evaluator(ground: Ground) -> Sequence[Task]:
    """An evaluator is listed in the cluster: the chief connects to all who are, and no server is at its address."""
    spec = ground.spec(chief=1, ps=1, worker=1, evaluator=1)
    return [Task("chief:0", coordinate, spec), Task("worker:0", serve, spec), Task("ps:0", serve, spec)]


def _saves_and_waits(here: Here) -> None:
    """Save; after three, wait for their scores, to stop early."""
    import tensorflow as tf

    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(w=tf.Variable(tf.ones([]))), f"{here.folder}/checkpoints", None
    )
    for step in range(3):
        here.say(f"step {step}: saves {os.path.basename(manager.save())}")
        here.say(f"step {step}: waits for its score")
        _wait_for(here, f"score-{step + 1}")


def _evaluates(here: Here) -> None:
    """Score each checkpoint, one in a second at most; its clock is set back by an hour during the first."""
    import tensorflow as tf

    right, back = time.time, 0.0
    time.time = lambda: right() - back
    for path in tf.train.checkpoints_iterator(f"{here.folder}/checkpoints", min_interval_secs=1):
        number = path.rpartition("-")[2]
        here.say(f"scores {os.path.basename(path)}")
        back = 3600.0
        Path(here.folder, f"score-{number}").touch()
        here.say(f"has scored {os.path.basename(path)}")


def clock(ground: Ground) -> Sequence[Task]:
    """An evaluator whose clock is set back."""
    spec = ground.spec(chief=1)
    return [Task("chief:0", _saves_and_waits, spec), Task("evaluator:0", _evaluates, spec)]
