"""A real TensorFlow cluster on this machine: each task a process of its own, gRPC over loopback.

    with LocalCluster(ps=1, worker=2) as cluster:               # three servers, which listen when this line is done
        with v1.Session(cluster.target("worker", 0), config=...) as session: ...
    LocalCluster(serve, ps=1, worker=2)                         # serve(spec, job, index) is what each task runs

Where `across.fresh` forks, a cluster starts in 0.2 s; elsewhere (macOS, Windows) each task imports TensorFlow first. Its
processes end with `close`, with the last reference to it, and with this process, however that ends (on Linux also by
SIGKILL). A v1 session that outlives its cluster hangs when it is closed: end sessions first, and give each an
`operation_timeout_in_ms`, for an interrupt does not reach a session that waits for another process.

TensorFlow's servers listen on every interface and run any graph from anyone: nothing for a network that others use.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import socket
import time
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from across import fresh
from across._draw import cluster as picture
from across._draw.partitions import PLUMBING
from across._draw.placed import bytes_of
from across._language.catalogue import said
from across._process import cluster_task, supervision
from across._process.addresses import free_address
from across._process.cluster_task import Program
from across.pictures import Picture

if TYPE_CHECKING:
    from across.placement import Trace

__all__ = ["LocalCluster", "Logs", "Rehearsal", "StartError", "bytes_between", "calls", "rehearse", "slow_card"]

TRIES = 3  # starts on ports of which one is taken
STARTS = 120.0  # seconds for the fork server's own start, where there is none yet
POLL = 0.005  # seconds between two looks whether a task listens
IN_USE = ("could not start grpc server", "address already in use", "failed to bind")
CLIENT = {"TF_ENABLE_EAGER_CLIENT_STREAMING_ENQUEUE": "0"}  # or a killed ps leaves every third client hanging
GROWS = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # tasks of one machine share its cards
ENVIRONMENT = {"TF_GRPC_REUSE_PORT": "1", **CLIENT, **GROWS}  # its owner holds the port, bound and not listening


class StartError(RuntimeError):
    """A task did not come to listen; the message says which, why, and what it wrote last."""


class _PortTaken(StartError):  # noqa: N818 - tried again on others
    pass


class Logs(str):
    """What tasks printed, as text; in a notebook a lane for each task that folds."""

    lanes: Mapping[str, str]

    def __new__(cls, lanes: Mapping[str, str]) -> Logs:
        """`lanes`: text by the task's name."""
        whole = next(iter(lanes.values())) if len(lanes) == 1 else "".join(f"--- {k}\n{v}" for k, v in lanes.items())
        logs = super().__new__(cls, whole)
        logs.lanes = dict(lanes)
        return logs

    def _repr_html_(self) -> str:
        shown = ""
        for name, text in self.lanes.items():
            lines = len(text.splitlines())
            head = said("{0}: 1 line", name) if lines == 1 else said("{0}: {1} lines", name, lines)
            shown += f"<details{' open' * (len(self.lanes) == 1)}><summary>{html.escape(head)}</summary>"
            shown += f"<pre>{html.escape(text)}</pre></details>"
        return shown


class LocalCluster:
    """Tasks of a cluster, started together. A context manager, and an object that may live as long as a notebook.

    `spec` is the cluster as `tf.train.ClusterSpec` takes it: job -> the address of each of its tasks.
    """

    def __init__(
        self,
        program: Program | None = None,
        *,
        cpus: int = 1,
        gpus: int | None = None,
        env: Mapping[str, str] | None = None,
        card: float | None = None,
        timeout: float = 30.0,
        **jobs: int,
    ) -> None:
        """Start `jobs` (ps=1, worker=2: how many tasks of each) and return when all of them listen.

        Each task runs `program(spec, job, index)`, which is expected to make a server; without one it is a server that has
        `cpus` logical CPUs. In its environment are TF_CONFIG and `env`; a ps of ours sees no GPU unless `env` says otherwise.
        `gpus`: so many GPUs for each task that sees any, simulated ones where there is no real one (`devices.gpus`).
        `card`: bytes a second that a server of ours sends on each of its connections (see `network_card`; on Linux).
        Raises what `program` raises before it listens; StartError, after `timeout` seconds for a task that does not listen.
        """
        if not jobs or not all(type(count) is int and count > 0 for count in jobs.values()):
            raise ValueError(f"a cluster wants at least one task in each of its jobs, as in ps=1, worker=2; got {jobs}")
        for name, value in CLIENT.items():
            os.environ.setdefault(name, value)
        if card is not None and (program is not None or not card > 0):
            raise ValueError(f"a card sends more than 0 bytes a second, and for servers without a program; got {card}")
        self._program, self._cpus, self._env, self._timeout = program, cpus, dict(env or {}), timeout
        self._card, self._gpus = card, gpus
        for left in reversed(range(TRIES)):
            try:
                return self._start(jobs)
            except _PortTaken as error:
                if not left:
                    error.add_note(f"tried {TRIES} times, on other ports each time")
                    raise

    def _start(self, jobs: Mapping[str, int]) -> None:
        self._server = fresh.server_path(time.monotonic() + STARTS, cold=False)
        self._group = supervision.Group(self._server and os.path.dirname(self._server))
        held: list[socket.socket] = []
        self._lives: dict[tuple[str, int], list[fresh.Call[Any]]] = {}
        self._kept: dict[tuple[str, int], str] = {}  # what was printed, once the cluster is closed
        self.close = weakref.finalize(self, _close, self._group, held, self._lives, self._kept)
        """End every task. Again is nothing."""
        try:
            self.spec = {job: [free_address(held) for _ in range(count)] for job, count in jobs.items()}
            self._lives.update({(job, index): [] for job, count in jobs.items() for index in range(count)})
            for job, index in self._lives:
                self._launch(job, index)
            for job, index in self._lives:  # nobody connects before all listen: a refused one tries again after 1 s
                self._wait_listening(job, index)
        except BaseException:
            self.close()
            raise

    @property
    def tasks(self) -> list[tuple[str, int]]:
        """Every task as (job, index), in the order of `spec`."""
        return list(self._lives)

    @property
    def targets(self) -> dict[str, list[str]]:
        """What a session is opened on, by job: {"ps": ["grpc://127.0.0.1:40001"]}."""
        return {job: [f"grpc://{address}" for address in addresses] for job, addresses in self.spec.items()}

    def target(self, job: str, index: int) -> str:
        """What a session is opened on to have that task as its master. Raises KeyError."""
        return f"grpc://{self._address_of(job, index)}"

    def tf_config(self, job: str, index: int) -> str:
        """The environment variable TF_CONFIG of a task. Raises KeyError."""
        self._address_of(job, index)
        return json.dumps({"cluster": self.spec, "task": {"type": job, "index": index}})

    def pid(self, job: str, index: int) -> int:
        """The process of a task, or of its last life. Raises KeyError."""
        return self._last(job, index).member.process.pid

    def alive(self, job: str, index: int) -> bool:
        """Whether a task runs. Raises KeyError."""
        self._group.look()
        return self._last(job, index).member.code is None

    def logs(self, job: str | None = None, index: int = 0) -> Logs:
        """What a task, or every task, has printed in all its lives. Raises KeyError."""
        if job is not None:
            self._address_of(job, index)
        chosen = self.tasks if job is None else [(job, index)]
        return Logs({f"{j}:{i}": self._kept.get((j, i)) or _printed(self._lives[j, i]) for j, i in chosen})

    def kill(self, job: str, index: int) -> None:
        """End a task by SIGKILL, as a machine that loses its power, and wait until it is gone. Raises KeyError."""
        member = self._last(job, index).member
        with supervision.uninterrupted():
            member.process.close()
            member.code = member.process.poll()

    def restart(self, job: str, index: int) -> None:
        """Start a task anew at its old address, ended first if it runs; return when it listens. Raises StartError."""
        self.kill(job, index)
        self._launch(job, index)
        self._wait_listening(job, index)

    def result(self, job: str, index: int, timeout: float = 60.0) -> Any:
        """What a task's program returned, once it has; raises what it raised, TimeoutError after `timeout` seconds."""
        call, until = self._last(job, index), time.monotonic() + timeout
        while self.alive(job, index):
            if time.monotonic() > until:
                raise TimeoutError(f"{job}:{index} did not return within {timeout:g} s; it runs on")
            time.sleep(POLL)
        return call.outcome().result()

    def draw(self, trace: Trace | Mapping[tuple[str, str], int] | None = None, *, title: str = "") -> Picture:
        """Draw the tasks with address and devices; of a run, as `across.placement` traced it, what crossed the network.

        In place of a trace the bytes themselves, as from `bytes_between` or `across.traffic.count`.
        """
        moved = trace if isinstance(trace, Mapping) else bytes_between(trace) if trace is not None else {}
        trace = None if isinstance(trace, Mapping) else trace
        boxes = []
        for job, index in self.tasks:
            name = f"{job}:{index}"
            known = () if trace is None else [each for each in trace.available if each.startswith(f"{name} ")]
            ours = range(self._cpus) if self._program is None else ()  # what a program's server has is not known here
            devices = [each.rpartition(" ")[2] for each in known] or [f"CPU:{i}" for i in ours]
            boxes.append(picture.Box(name, self.spec[job][index], tuple(devices), self.alive(job, index)))
        return picture.draw(boxes, moved, title)

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "\n".join(f"{job}:{i} at {self.spec[job][i]}" for job, i in self.tasks)

    def _address_of(self, job: str, index: int) -> str:
        if (job, index) not in self._lives:
            raise KeyError(f"no task {job}:{index}; there are: {', '.join(f'{j}:{i}' for j, i in self._lives)}")
        return self.spec[job][index]

    def _last(self, job: str, index: int) -> fresh.Call[Any]:
        self._address_of(job, index)
        return self._lives[job, index][-1]

    def _launch(self, job: str, index: int) -> None:
        if not self.close.alive:
            raise StartError("this cluster is closed; make another")
        name = f"{job}:{index}"
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if job == "ps" and self._program is None else {}
        environment = {**ENVIRONMENT, "TF_CONFIG": self.tf_config(job, index), **hidden, **self._env}
        arguments = (self._program, self.spec, job, index, self._cpus, self._card)
        pickled = fresh.pickled_call(name, (cluster_task.be, arguments, {}))
        gpus = None if environment.get("CUDA_VISIBLE_DEVICES") in ("", "-1") else self._gpus
        call = fresh.Call(self._group, self._server, name, name, pickled, None, environment, gpus)
        self._lives[job, index].append(call)

    def _wait_listening(self, job: str, index: int) -> None:
        until, address = time.monotonic() + self._timeout, self._address_of(job, index)
        host, _, port = address.rpartition(":")
        while self.alive(job, index):
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1.0):
                if self._program is not None or _printed(self._lives[job, index][-1:]):  # ours say so, too
                    return
            if time.monotonic() > until:
                raise StartError(
                    f"{job}:{index} did not listen at {address} within {self._timeout:g} s{self._said(job, index)}"
                )
            time.sleep(POLL)
        error = self._last(job, index).outcome().error
        how = f"raised {type(error).__name__}: {error}" if error is not None else "returned"
        how = f"{job}:{index} {how}, before it listened at {address}{self._said(job, index)}"
        if any(words in f"{how} {self.logs(job, index)}".lower() for words in IN_USE):
            raise _PortTaken(how) from error
        if self._program is not None and error is not None and not isinstance(error, fresh.Died):
            raise error  # the program's own, with its line there
        raise StartError(how) from error

    def _said(self, job: str, index: int) -> str:
        lines = self.logs(job, index).strip().splitlines()[-3:]
        return ". It printed: " + " / ".join(lines) if lines else ""


def slow_card(bytes_per_second: float) -> int:
    """Have this process send no more than that on each connection that it accepts from now on, as TensorFlow's servers do.

    To call once its server, or its strategy, is made. Returns how many sockets it holds for; 0 where this is not Linux.
    """
    from across._process import network_card

    return network_card.slow(bytes_per_second)


@dataclass(frozen=True)
class Rehearsal:
    """The server that a program asked for: of which cluster, as which task, and what it did with it."""

    spec: Mapping[str, Sequence[str]]
    job: str
    index: int
    visible: str | None  # CUDA_VISIBLE_DEVICES when it was made
    joined: bool


def rehearse(
    program: Program, spec: Mapping[str, Sequence[str]], tasks: Sequence[tuple[str, int]], *, gpus: str = "0"
) -> list[list[Rehearsal]]:
    """Run `program(spec, job, index)` as each of `tasks`, where no server is made: those that it asked for, task by task.

    So a program can be tried for machines that are not there. It runs in a fresh process, one task after the other, each with
    our environment, but CUDA_VISIBLE_DEVICES is `gpus`. One that waits elsewhere than in `join` is ended. Raises what it
    raises, TimeoutError after 20 seconds in which it did not want for processors: see `fresh.run`.
    """
    fresh.server_path(time.monotonic() + STARTS, cold=False)  # its start is not the program's time
    asked = fresh.call(cluster_task.rehearse, program, spec, tasks, gpus, timeout=20.0).result()
    return [[Rehearsal(**each) for each in of_task] for of_task in asked]


def bytes_between(trace: Trace) -> dict[tuple[str, str], int]:
    """What a run sent from task to task, in bytes of tensors: {("ps:0", "worker:1"): 4096}; the client is "client".

    A tensor counts once for each device that it was copied to; what a session fetches, on its way to the master, too.
    Raises ValueError for one whose shape is not known.
    """
    found: dict[tuple[str, str], int] = {}
    for name, to in dict.fromkeys([*trace.copies(), *_fetched(trace)]):
        op = trace[name]
        ends = _task(op.device), _task(to)
        if ends[0] == ends[1]:
            continue
        if op.shape is None or None in op.shape or not op.dtype:
            raise ValueError(f"the shape of {name} is not known before it runs, so nor are its bytes")
        found[ends] = found.get(ends, 0) + bytes_of(op)
    return found


def calls(printed: str) -> Counter[str]:
    """The calls of a process, "EagerService/Enqueue", counted in what it printed with GRPC_TRACE=http, GRPC_VERBOSITY=DEBUG."""
    return Counter(re.findall(r"HDR:CLI::path: /tensorflow\.(?:\w+\.)*(\w+/\w+)", printed))


def _fetched(trace: Trace) -> list[tuple[str, str]]:
    """Which op's result a session fetched, and where its master is; a way through TensorFlow's own ops counts as one."""
    known = {op.name: op for op in trace.everything}
    found = []
    for op in trace.everything:
        sources = list(op.inputs) if op.type == "_Retval" else []
        while sources:
            source = known.get(sources.pop())
            if source is not None and source.kind == PLUMBING:
                sources += source.inputs
            elif source is not None:
                found.append((source.name, op.device))
    return found


def _task(device: str) -> str:
    return device.rpartition(" ")[0] or "client"


def _printed(lives: Sequence[fresh.Call[Any]]) -> str:
    return "".join(
        log.text() for life in lives for log in (life.member.stdout, life.member.stderr) if log.path.exists()
    )


def _close(
    group: supervision.Group,
    held: Sequence[socket.socket],
    lives: Mapping[tuple[str, int], Sequence[fresh.Call[Any]]],
    kept: dict[tuple[str, int], str],
) -> None:
    with supervision.uninterrupted():
        kept.update({task: _printed(calls) for task, calls in lives.items()})  # the files go with the group
        group.close()
        for one in held:
            one.close()
