"""What one task of an `across.clusters.LocalCluster` does, in a process of its own: be a server, or run a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Spec = Mapping[str, Sequence[str]]  # job -> the address of each of its tasks
Program = Callable[[Spec, str, int], Any]  # (spec, job, index) -> what `LocalCluster.result` gives


def be(program: Program | None, spec: Spec, job: str, index: int, cpus: int) -> Any:
    """Run `program` as that task; without one, serve until somebody kills us."""
    return serve(spec, job, index, cpus) if program is None else program(spec, job, index)


def serve(spec: Spec, job: str, index: int, cpus: int) -> None:
    """Be a server with `cpus` logical CPUs, for ever."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(device_count={"CPU": cpus}, intra_op_parallelism_threads=1)
    config.inter_op_parallelism_threads = (
        4  # with 1, as on one core, a worker of ParameterServerStrategy waits for itself
    )
    config.gpu_options.allow_growth = True  # tasks of one machine share its cards
    server = tf.distribute.Server(dict(spec), job, index, config=config)
    print(f"{job}:{index} listens: {server.target}")  # TensorFlow says so itself only at log level 0
    server.join()
