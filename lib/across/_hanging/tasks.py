"""Processes that fail together, watched until nothing happens any more: what each printed, when it ended, where it stands.

A failure is laid out by a function `lay(ground) -> [Task, ...]`. `running(lay)` starts the tasks, real TensorFlow processes
forked from a server whose log is not quiet; at the end of the block all of them are ended.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from across import fresh
from across._process import supervision, watched
from across._process.addresses import free_address

DUMPED = "(most recent call first)"  # in what faulthandler writes
OURS = re.compile(  # how a task is started: in a traceback with the line of code
    r'^  File "[^"]*(/across/_process/\w+|/across/_hanging/tasks)\.py", line .*\n(    .*\n)*|^  File "<frozen runpy>".*\n',
    re.M,
)
DUMPING = 5.0  # seconds in which a process writes it
LOOK = 0.1  # seconds between two looks
WORK = 0.05  # processor seconds that count as a sign of work
STARTS = 120.0  # seconds for the fork server's own start

Spec = Mapping[str, Sequence[str]]  # job -> the address of each of its tasks


@dataclass(frozen=True)
class Here:
    """What a program is told."""

    name: str  # "worker:1", the process, whatever its TF_CONFIG says
    spec: Spec
    job: str
    index: int
    folder: str  # which all tasks share
    odd: bool = False  # whether this is the one that does something else

    def say(self, words: str) -> None:
        """Print a line with the time of day, as programs do."""
        print(f"{datetime.fromtimestamp(time.time()):%H:%M:%S} {self.name} {words}", flush=True)


@dataclass(frozen=True)
class Task:
    """One process: its program, and what its TF_CONFIG says."""

    name: str
    program: Callable[[Here], object]
    spec: Spec
    env: Mapping[str, str] = field(default_factory=dict)
    index: int | None = None  # another one than the name's
    odd: bool = False

    def config(self) -> tuple[str, int]:
        """The task that its TF_CONFIG names."""
        job, _, index = self.name.partition(":")
        return job, int(index) if self.index is None else self.index


class Ground:
    """What a failure is laid out on: a folder, and ports that nobody else gets for as long."""

    def __init__(self, folder: str, held: list[socket.socket]) -> None:
        self.folder = folder
        self.held = held

    def address(self) -> str:
        """An address at which nobody listens, and a server of TensorFlow's may."""
        return free_address(self.held)

    def spec(self, **jobs: int) -> dict[str, list[str]]:
        """Such addresses for each task of `jobs`."""
        return {job: [self.address() for _ in range(count)] for job, count in jobs.items()}


Lay = Callable[[Ground], Sequence[Task]]


@dataclass(frozen=True)
class End:
    """How a task was at the end."""

    log: str  # what it printed, and if it ran, where each of its Python threads stood
    seconds: float  # when it ended, from the start of all; or when it was ended
    last: float  # when it printed its last line
    how: str  # "hangs", "returned", "raised InternalError", "signal SIGKILL"


class Run:
    """The tasks of one failure while they run."""

    def __init__(self, group: supervision.Group, calls: Mapping[str, fresh.Call[Any]], spec: Spec, folder: str) -> None:
        self.spec, self.folder = spec, folder
        self._group, self._calls = group, calls
        self._began, self._ended = time.monotonic(), dict[str, float]()
        self._printed = {name: (0, 0.0) for name in calls}  # bytes, and since when

    @property
    def pids(self) -> dict[str, int]:
        """The process of each task, also of one that has ended."""
        return {name: call.member.process.pid for name, call in self._calls.items()}

    @property
    def logs(self) -> dict[str, Path]:
        """The file into which each task prints everything."""
        return {name: call.member.stdout.path for name, call in self._calls.items()}

    def wait(self, quiet: float, seconds: float) -> None:
        """Return when all have ended, or nothing has happened for `quiet` seconds, or after `seconds`."""
        until, since, seen = self._began + seconds, time.monotonic(), 0
        wanting = {name: watched.Wanting(pid) for name, pid in self.pids.items()}
        used = dict.fromkeys(self.pids, 0.0)
        while len(self._ended) < len(self.pids) and time.monotonic() < min(until, since + quiet):
            time.sleep(LOOK)
            self._group.look()
            now = time.monotonic() - self._began
            for name, call in self._calls.items():
                if call.member.code is not None:
                    self._ended.setdefault(name, now)
                if (size := call.member.stdout.path.stat().st_size) > self._printed[name][0]:
                    self._printed[name] = size, now
            news = sum(size for size, _ in self._printed.values()) + len(self._ended)
            works = news > seen
            for name in self.pids.keys() - self._ended.keys():  # on a busy machine it may want for a processor
                if wanting[name].still() or wanting[name].used - used[name] > WORK:
                    used[name], works = wanting[name].used, True
            if works:
                seen, since = news, time.monotonic()

    def ends(self) -> dict[str, End]:
        """How each task is now; one that runs writes into its log where its Python threads stand, also those in C++."""
        living = [call for name, call in self._calls.items() if name not in self._ended]
        until = time.monotonic() + DUMPING * hasattr(signal, "SIGUSR1")
        for call in living if hasattr(signal, "SIGUSR1") else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(call.member.process.pid, signal.SIGUSR1)
        while time.monotonic() < until and not all(DUMPED in call.member.stdout.text() for call in living):
            time.sleep(LOOK / 10)
        now, ends = time.monotonic() - self._began, {}
        for name, call in self._calls.items():
            log = OURS.sub("", call.member.stdout.text())
            ends[name] = End(log, self._ended.get(name, now), self._printed[name][1], _how(call))
        return ends


@contextlib.contextmanager
def running(lay: Lay) -> Iterator[Run]:
    """Start the tasks."""
    held: list[socket.socket] = []
    server = fresh.server_path(time.monotonic() + STARTS, cold=False, loud=True)
    try:
        with (
            supervision.Group(server and os.path.dirname(server)) as group,
            tempfile.TemporaryDirectory(prefix="across-") as folder,
        ):
            tasks = lay(Ground(folder, held))
            calls = {each.name: _started(group, server, each, folder) for each in tasks}
            yield Run(group, calls, tasks[0].spec, folder)
            group.close()  # before the folder goes
    finally:
        for one in held:
            one.close()


def _started(group: supervision.Group, server: str | None, task: Task, folder: str) -> fresh.Call[Any]:
    job, index = task.config()
    here = Here(task.name, task.spec, job, index, folder, task.odd)
    config = json.dumps({"cluster": task.spec, "task": {"type": job, "index": index}})
    env = {"CUDA_VISIBLE_DEVICES": "", "TF_GRPC_REUSE_PORT": "1", "TF_CONFIG": config, **fresh.LOUD}
    pickled = fresh.pickled_call(task.name, (_be, (task.program, here), {}))
    return fresh.Call(group, server, task.name, task.name, pickled, None, {**env, **task.env})


def _be(program: Callable[[Here], object], here: Here) -> None:
    """What the process does: all that it prints into one log, an error with its traceback, its threads at SIGUSR1."""
    os.dup2(1, 2)
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
    here.say(f"starts, process {os.getpid()}; TF_CONFIG: {os.environ['TF_CONFIG']}")
    try:
        program(here)
    except BaseException:
        traceback.print_exc()
        raise
    here.say("returns")


def _how(call: fresh.Call[Any]) -> str:
    code = call.member.code
    if code is None:
        return "hangs"
    error = call.outcome().error
    if code < 0 or error is None:
        return f"signal {signal.Signals(-code).name}" if code < 0 else "returned"
    return f"raised {type(error).__name__}"
