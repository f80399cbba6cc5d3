"""A worker's training program of 2017: its command line, its flags; tried as each task of a cluster.

command(spec, "worker", 0, "/logs", 200)          # ["--ps_hosts=a:2222,b:2222", ...]
flags = flags_of(command(...))                    # flags.ps_hosts, flags.task_index, ...
tried = rehearse(program, {"ps": 2, "worker": 2}, [("worker", 0)])
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence

from across import fresh
from across._process import training_task
from across._process.cluster_task import Program, Spec
from across._process.training_task import Tried

STARTS = 120.0  # seconds for the fork server's own start, where there is none yet


def command(spec: Spec, job: str, index: int, logdir: str, last_step: int) -> list[str]:
    """The arguments with which a task's program is started."""
    hosts = {f"{each}_hosts": ",".join(addresses) for each, addresses in spec.items()}
    others = {"job_name": job, "task_index": index, "logdir": logdir, "last_step": last_step}
    return [f"--{name}={value}" for name, value in {**hosts, **others}.items()]


def flags_of(arguments: Sequence[str]) -> argparse.Namespace:
    """The flags of a `command`: `ps_hosts`, `worker_hosts`, `job_name`, `logdir`; `task_index`, `last_step`, whole numbers."""
    parser = argparse.ArgumentParser()
    for name in ("ps_hosts", "worker_hosts", "job_name", "logdir"):
        parser.add_argument(f"--{name}")
    for name in ("task_index", "last_step"):
        parser.add_argument(f"--{name}", type=int)
    return parser.parse_args(arguments)


def rehearse(program: Program, jobs: Mapping[str, int], tasks: Sequence[tuple[str, int]]) -> list[Tried]:
    """Try a training program `(spec, job, index)` as each of `tasks`, one after the other, in one fresh process.

    The servers are real, and all in that process. Raises what the program raises, TimeoutError after 20 seconds in
    which it did not want for processors: see `fresh.run`.
    """
    fresh.server_path(time.monotonic() + STARTS, cold=False)  # its start is not the program's time
    return fresh.call(training_task.tried, program, jobs, tasks, timeout=20.0).result()
