"""A worker's training program of 2017: its command line, its flags; tried as each task of a cluster, and judged.

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
from across.expecting import shown

__all__ = ["Tried", "command", "fault_of", "flags_of", "rehearse"]

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


def fault_of(
    task: tuple[str, int],
    last: int,
    *,
    made: Sequence[tuple[bool, str, int]],
    unsplit: bool,
    joined: bool,
    led: bool,
    masters: Sequence[str],
    before: int | None,
    step: int | None,
    returned: object,
) -> tuple[str, str]:
    """What is wrong with what a trainer did as `task`, see `Tried`: what it is called, or "", and a sentence; ("", "").

    It was told to train until the global step is `last`, which may have been reached before it began. Whoever reads the
    global step in a step may get it from before or after its own addition: a last step may come too many.
    """
    job, index = task
    says = f"as {job}:{index}, `trainer`"
    if unsplit:
        return (
            "hosts_unsplit",
            f"{says} did not split all hosts: a server wants a list of them, and each is a text of its own",
        )
    if len(made) != 1:
        return "", f"{says} made {len(made)} servers; expected one"
    ((same, *server),) = made
    if tuple(server) != (job, index):
        return "", f"{says} made the server of {server[0]}:{server[1]}"
    if not same:
        return "", f"{says} gave its server another cluster than its flags name"
    if job == "ps":
        return ("", "") if joined else ("", f"{says} did not wait in `join`: a ps only serves")
    if joined:
        return "worker_waits", f"{says} waits in `join`: only a ps does; a worker trains"
    on = masters[-1] or "no server of the cluster" if masters else "no server"
    if on != f"worker:{index}":
        return "", f"{says} has its session on {on}; expected its own"
    if led != (index == 0):
        words = "prepared the variables as a chief does" if led else "waited for a chief"
        return "everyone_chief" if led else "last_is_chief", f"{says} {words}; the chief is task 0"
    late = before is not None and before > last
    reached = max(last, before or 0)
    if late:
        says = f"the global step was {before} and `last_step` {last}: {says}"
    if step not in (reached, reached + 1):
        words = f"{says} stopped when the global step was {step}"
        words += "; expected one step at most" if late else f"; `last_step` was {last}"
        return "", f"{words}, and the global step counts the steps of all"
    if returned not in ((reached, reached + 1) if late else (last,)):
        flag = late and returned == last
        words = f"{says} returned {shown(returned)}{', which is `last_step`' if flag else ''}"
        return "the_flag" if flag else "", f"{words}; expected {reached}, the global step"
    return "", ""
