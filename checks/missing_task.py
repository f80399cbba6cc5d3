"""A cluster of which a peer is every task but one, where the student's program is to be the one that is missing.

What the others saw of it is evidence: whether it serves, as which task and of which cluster, what became of their variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from autograder.probe.asking import PeerError, kept, probe

SECONDS = 40.0  # for a task to listen: only who never will waits so long
PATIENCE = SECONDS + 40.0  # for a peer's answer
Variable = tuple[str, str, str, Sequence[int]]  # name, device, dtype, shape


@probe
def gathered(peer, jobs, absent):
    """Start all servers of a cluster but that of the task `absent`, and see them answer: each task's address."""
    import os

    from across._process.addresses import free_address

    os.environ["TF_GRPC_REUSE_PORT"] = "1"
    spec, held, left = {}, [], []
    for job, count in jobs.items():
        spec[job] = [free_address(left if (job, index) == tuple(absent) else held) for index in range(count)]
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 1, "GPU": 0}, inter_op_parallelism_threads=4)
    ours = [(job, index) for job, count in jobs.items() for index in range(count) if (job, index) != tuple(absent)]
    servers = [tf.distribute.Server(spec, job, index, config=config) for job, index in ours]
    for each in left:
        each.close()
    filters = [f"/job:{job}/task:{index}" for job, index in ours]
    answering = tf.compat.v1.ConfigProto(operation_timeout_in_ms=20_000, device_filters=filters)
    with tf.Graph().as_default(), tf.compat.v1.Session(servers[0].target, config=answering) as session:
        for task in filters:
            with tf.device(task):
                session.run(tf.constant(0))
    kept["{}:{}".format(*absent)] = {"held": held, "servers": servers, "filters": filters, "spec": spec}
    return spec


@probe
def listens(peer, absent, seconds):
    """Whether somebody listens at the address of the task `absent`, within so many seconds."""
    import socket
    import time

    job, index = absent
    host, _, port = kept[f"{job}:{index}"]["spec"][job][index].rpartition(":")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            socket.create_connection((host, int(port)), 1.0).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


@probe
def put(peer, absent, variables, alone):
    """Give `variables` (name, device, value) their values, by a session of ours, `alone`: with our tasks. Whether it could."""
    v1, here = tf.compat.v1, kept["{}:{}".format(*absent)]
    config = v1.ConfigProto(operation_timeout_in_ms=20_000, device_filters=here["filters"] if alone else [])
    try:
        with tf.Graph().as_default(), v1.Session(here["servers"][0].target, config=config) as session:
            for name, device, value in variables:
                with tf.device(device):
                    value = tf.constant(value)
                    one = tf.raw_ops.VarHandleOp(dtype=value.dtype, shape=value.shape, shared_name=name)
                    session.run(tf.raw_ops.AssignVariableOp(resource=one, value=value))
        return True
    except tf.errors.OpError:
        return False


@probe
def has(peer, absent, through, variables):
    """The values of `variables` (name, device, dtype, shape), read by the server of the task `through`; or None."""
    v1, (job, index) = tf.compat.v1, through
    target = "grpc://" + kept["{}:{}".format(*absent)]["spec"][job][index]
    try:
        with tf.Graph().as_default():
            read = []
            for name, device, dtype, shape in variables:
                with tf.device(device):
                    one = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=name)
                    read.append(tf.raw_ops.ReadVariableOp(resource=one, dtype=dtype))
            with v1.Session(target, config=v1.ConfigProto(operation_timeout_in_ms=20_000)) as session:
                return session.run(read)
    except tf.errors.OpError:
        return None


class Missing:
    """The task of a cluster that a peer leaves out; without a `task` the peer is all of them."""

    def __init__(
        self, peer: Any, jobs: Mapping[str, int], task: tuple[str, int] = ("nobody", 0), says: str = ""
    ) -> None:
        """Start the others. `says` begins a sentence about the program that is to be the task."""
        self.peer, self.task, self.says = peer, task, says
        self.spec: dict[str, list[str]] = peer.ask(gathered, jobs=jobs, absent=self.task)

    def wait(self) -> None:
        """Until somebody listens at its address; AssertionError where nobody does."""
        there = self.peer.ask(listens, deadline=PATIENCE, absent=self.task, seconds=SECONDS)
        assert there, f"{self.says} made no server: nobody listens at its address."

    def put(self, variables: Sequence[tuple[str, str, Any]], alone: bool = True) -> bool:
        """Have the peer give variables their values, and whether it could; `alone`: without the missing task."""
        return self.peer.ask(put, deadline=PATIENCE, absent=self.task, variables=variables, alone=alone)

    def begin_with(self, variables: Sequence[tuple[str, str, Any]]) -> None:
        """Have the peer give variables their values before the program begins. PeerError where it cannot: nobody's answer."""
        if not self.put(variables):
            raise PeerError("the peer's own servers do not run")

    def has(self, *variables: Variable, through: tuple[str, int] | None = None) -> Any:
        """What the peer reads through a task's server, by default the missing one's. AssertionError where it serves not."""
        asked = {"absent": self.task, "through": through or self.task, "variables": variables}
        got = self.peer.ask(has, deadline=PATIENCE, **asked)
        assert got is not None, f"{self.says} does not serve the other tasks of its cluster."
        return got

    def check_serves(self, rng: np.random.Generator, other: tuple[str, int]) -> None:
        """It keeps what another task puts there, and its own cluster is that in which `other` has a variable of the peer's."""
        here, there = (rng.integers(1, 1 << 20, size=2).astype(np.float32) for _ in range(2))
        at, of = ("/job:{}/task:{}".format(*task) for task in (self.task, other))
        assert self.put([("of_another", of, here)]), (
            f"{self.says} came, and the others could not reach each other any more."
        )
        self.put([("put_there", at, there)], alone=False)
        got = self.has(("of_another", of, "float32", [2]), ("put_there", at, "float32", [2]))
        assert np.array_equal(got, [here, there]), f"{self.says} serves other values than it was given."
