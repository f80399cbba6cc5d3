"""What one task of an `across.clusters.LocalCluster` does, in a process of its own: be a server, or run a program.

Or rehearse: run a program that is told which task it is, and note the server that it asks for instead of making it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from across._process.watched import Wanting

Spec = Mapping[str, Sequence[str]]  # job -> the address of each of its tasks
Program = Callable[[Spec, str, int], Any]  # (spec, job, index) -> what `LocalCluster.result` gives


def be(program: Program | None, spec: Spec, job: str, index: int, cpus: int, card: float | None = None) -> Any:
    """Run `program` as that task; without one, serve until somebody kills us."""
    return serve(spec, job, index, cpus, card) if program is None else program(spec, job, index)


def serve(spec: Spec, job: str, index: int, cpus: int, card: float | None = None) -> None:
    """Be a server with `cpus` logical CPUs, for ever; of a `card`, one that sends so many bytes a second."""
    import tensorflow as tf

    from across._process import network_card

    config = tf.compat.v1.ConfigProto(device_count={"CPU": cpus}, intra_op_parallelism_threads=1)
    config.inter_op_parallelism_threads = (
        4  # with 1, as on one core, a worker of ParameterServerStrategy waits for itself
    )
    server = tf.distribute.Server(dict(spec), job, index, config=config)
    if card is not None:
        network_card.slow(card)
    print(f"{job}:{index} listens: {server.target}")  # TensorFlow says so itself only at log level 0
    server.join()


class _Joined(BaseException):
    """`server.join()` does not return, in a rehearsal either."""


PATIENCE = 3.0  # seconds from a server to its `join`, for a program that waits elsewhere
_wanting: list[Wanting] = []  # since the server was made


def rehearse(program: Program, spec: Spec, tasks: Sequence[tuple[str, int]], gpus: str) -> list[list[dict[str, Any]]]:
    """Run `program` as each of `tasks`, where no server is made: what each server was asked to be. See `clusters.rehearse`."""
    from tensorflow.python.training import server_lib

    asked: list[dict[str, Any]] = []

    def made(
        self: Any,
        server_or_cluster_def: Any,
        job_name: Any = None,
        task_index: Any = None,
        protocol: Any = None,
        config: Any = None,
        **_: Any,
    ) -> None:
        wanted = server_lib._make_server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        self._server_def = wanted
        jobs = {each.name: [each.tasks[i] for i in sorted(each.tasks)] for each in wanted.cluster.job}
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        asked.append(
            {"spec": jobs, "job": wanted.job_name, "index": wanted.task_index, "visible": visible, "joined": False}
        )
        _wanting[:] = [Wanting(os.getpid())]
        _alarm(PATIENCE)

    def join(_self: Any) -> None:
        asked[-1]["joined"] = True
        raise _Joined

    server: Any = server_lib.Server
    server.__init__, server.join, server.start = made, join, lambda self: None
    server.__del__ = lambda self: None
    server.target = property(lambda self: "grpc://" + self._server_def.cluster.job[0].tasks[0])
    found, environment = [], dict(os.environ)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _end)
    for job, index in tasks:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus
        with contextlib.suppress(_Joined):
            try:
                program(spec, job, index)
            finally:
                _alarm(0.0)
        found.append(list(asked))
        asked.clear()
        os.environ.clear()
        os.environ.update(environment)
    return found


def _alarm(seconds: float) -> None:
    """End the program so many seconds from now, or not at all (0); on Windows its whole process has a limit."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _end(*_: object) -> None:
    if any(each.still() for each in _wanting):  # it is slow for want of a processor, and may be about to join
        _alarm(1.0)
        return
    raise _Joined
