"""A training program tried in one process: as each task of a cluster in turn, on real servers that all live in this process.

The program is a `clusters.Program`; the server that it makes is one of ours, which is noted. `join()` ends the program.
Noted are, too, the sessions that it opens, whether it prepares one, the graph of the last one and what it fetches there.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from across._process.addresses import free_address
from across._process.cluster_task import Program, Spec, _Joined


@dataclass
class Tried:
    """What a program did as one task."""

    told: Mapping[str, Sequence[str]]  # the cluster that it was given
    servers: list[tuple[Mapping[str, Sequence[str]], str, int]] = field(
        default_factory=list
    )  # of which cluster, as whom
    unsplit: bool = False  # hosts of a job were one text, or several of them one host
    joined: bool = False
    led: bool = False  # it prepared its session, as a chief: initialised or restored the variables
    masters: list[str] = field(default_factory=list)  # "worker:1", for each session; "" is none of the cluster's
    graph: bytes = b""  # of the last session, a GraphDef
    fetched: list[str] = field(default_factory=list)  # the names of what it fetched again and again
    before: int | None = None  # `global_step` on ps:0 when it began; None where there is none
    step: int | None = None  # and afterwards
    returned: Any = None

    @property
    def made(self) -> list[tuple[bool, str, int]]:
        """For each server that it made: whether of the cluster that it was given, and as whom."""
        return [(dict(spec) == dict(self.told), job, index) for spec, job, index in self.servers]


def tried(program: Program, jobs: Mapping[str, int], tasks: Sequence[tuple[str, int]]) -> list[Tried]:
    """Run `program(spec, job, index)` as each of `tasks`, one after the other. It is told a `spec` of our own servers.

    Raises what the program raises.
    """
    import tensorflow as tf
    from tensorflow.python.client import session as sessions
    from tensorflow.python.training import server_lib, session_manager

    os.environ["TF_GRPC_REUSE_PORT"] = "1"
    held: list[socket.socket] = []
    spec: Spec = {job: [free_address(held) for _ in range(count)] for job, count in jobs.items()}
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 1, "GPU": 0}, inter_op_parallelism_threads=4)
    servers = [
        server_lib.Server(spec, job, index, config=config) for job, count in jobs.items() for index in range(count)
    ]
    targets = {(each.server_def.job_name, each.server_def.task_index): each.target for each in servers}
    _replace(server_lib, sessions, targets)
    _note_leaders(session_manager.SessionManager)
    found = []
    for job, index in tasks:
        _now[:] = [Tried(spec, before=found[-1].step if found else None)]
        _counts.clear()
        try:
            _now[0].returned = program(spec, job, index)
        except _Joined:
            _now[0].joined = True
        except _InVain:
            pass
        except TypeError as error:
            if NO_LIST not in str(error):
                raise
            _now[0].unsplit = True
        except tf.errors.InvalidArgumentError:  # a session of no server of the cluster knows none of its devices
            if _now[0].masters[-1:] != [""]:
                raise
        often = max(2.0, max(_counts.values(), default=0) / 2)  # a loop's runs; a supervisor reads the global step, too
        _now[0].fetched = [name for names, count in _counts.items() if count >= often for name in names]
        tried, _now[:] = _now[0], [Tried(spec)]  # what follows is ours
        tried.step = _global_step(targets["ps", 0])
        found.append(tried)
    return found


_now: list[Tried] = []
_counts: dict[tuple[str, ...], int] = {}
PATIENCE = 2.0  # seconds that a session waits for a chief
NO_LIST = "must be a list or a dictionary"  # ClusterSpec's words for a job whose hosts are one text


class _InVain(BaseException):
    """A program cannot go on: nobody initialises the variables that it waits for, or its server has no cluster."""


def _global_step(target: str) -> int | None:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        step = v1.get_variable("global_step", [], tf.int64)
        with v1.Session(target, config=v1.ConfigProto(operation_timeout_in_ms=60_000)) as session:
            try:
                return int(session.run(step))
            except tf.errors.OpError:
                return None


def _replace(server_lib: Any, sessions: Any, targets: Mapping[tuple[str, int], str]) -> None:
    """Have servers be those at `targets`, and sessions be noted."""
    names = {target: f"{job}:{index}" for (job, index), target in targets.items()}
    program, start, run = threading.get_ident(), sessions.BaseSession.__init__, sessions.BaseSession.run

    def made(self: Any, cluster: Any, job_name: Any = None, task_index: Any = None, *others: Any, **more: Any) -> None:
        if isinstance(cluster, Mapping) and any(isinstance(hosts, str) for hosts in cluster.values()):
            _now[0].unsplit = True
            raise _InVain
        wanted = server_lib._make_server_def(cluster, job_name, task_index, more.get("protocol"), more.get("config"))
        self._server_def = wanted
        jobs = {each.name: [each.tasks[i] for i in sorted(each.tasks)] for each in wanted.cluster.job}
        _now[0].servers.append((jobs, wanted.job_name, wanted.task_index))
        _now[0].unsplit |= any("," in address for addresses in jobs.values() for address in addresses)

    def target(self: Any) -> str:
        return targets.get((self._server_def.job_name, self._server_def.task_index), "")

    def joined(_self: Any) -> None:
        raise _Joined

    def opened(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        start(self, target, graph, config)
        if threading.get_ident() == program:
            _now[0].masters.append(names.get(target, ""))

    def noted(self: Any, fetches: Any, *given: Any, **more: Any) -> Any:
        value = run(self, fetches, *given, **more)
        if threading.get_ident() == program:
            fetched = tuple(self.graph.as_graph_element(each).name for each in _leaves(fetches))
            _counts[fetched] = _counts.get(fetched, 0) + 1
            _now[0].graph = self.graph.as_graph_def().SerializeToString()
        return value

    server: Any = server_lib.Server  # those that run are its instances, too: from here on they are only held
    server.__init__, server.join, server.start, server.target = made, joined, lambda self: None, property(target)
    server.__del__ = lambda self: None
    sessions.BaseSession.__init__, sessions.BaseSession.run = opened, noted


def _note_leaders(manager: Any) -> None:
    """Have whoever prepares a session be noted; who waits for that gives up soon."""
    from tensorflow.python.framework import errors

    prepare = manager.prepare_session

    def prepared(self: Any, *given: Any, **more: Any) -> Any:
        _now[0].led = True
        return prepare(self, *given, **more)

    manager.prepare_session = prepared
    wait = manager.wait_for_session

    def waited(self: Any, master: Any, config: Any = None, max_wait_secs: float = PATIENCE) -> Any:
        try:
            return wait(self, master, config, min(max_wait_secs, PATIENCE))
        except errors.DeadlineExceededError:
            raise _InVain from None

    manager.wait_for_session = waited


def _leaves(fetches: Any) -> list[Any]:
    """The ops and tensors of what a session is asked for."""
    if isinstance(fetches, dict):
        fetches = list(fetches.values())
    if isinstance(fetches, list | tuple):
        return [leaf for each in fetches for leaf in _leaves(each)]
    return [fetches] if hasattr(fetches, "name") else []
