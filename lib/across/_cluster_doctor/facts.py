"""What was found out about a cluster, as frozen values: `gathering` fills them, `rules` and `report` read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from across._cluster_doctor.config import Config

# how an address answers
GRPC = "speaks HTTP/2"  # as gRPC does, and many a proxy; what a server of TensorFlow `says` is gRPC
SILENT, OTHER = "accepts and says nothing", "speaks something else"
REFUSED, NO_ANSWER, UNKNOWN, NO_PORT = "refuses", "does not answer", "has no known host", "has no port"
AWAY = (REFUSED, NO_ANSWER, UNKNOWN, NO_PORT)


@dataclass(frozen=True)
class Program:
    """Any program of this machine."""

    pid: int
    name: str  # "python train.py"


@dataclass(frozen=True)
class Endpoint:
    """The address of a task, as it answers us."""

    task: str
    address: str
    answer: str  # one of the above
    says: str = ""  # the task that a TensorFlow server there says it is
    server: str = ""  # which server it is: two of one task have different devices
    here: bool = False  # on this machine
    listeners: tuple[Program, ...] = ()  # who listens on this port here, as far as we may see
    error: str = ""  # of the system, where there is one

    @property
    def away(self) -> bool:
        """Whether no TensorFlow answers there; a proxy may."""
        return self.answer in AWAY or (self.answer == GRPC and not self.says)


@dataclass(frozen=True)
class Frame:
    """A line in a Python stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line} {self.function}"


@dataclass(frozen=True)
class Log:
    """The end of what a process wrote, or a file in the folder of logs."""

    path: str
    task: str  # "" if not known
    lines: tuple[str, ...] = ()  # the last ones
    written: float = 0.0  # when, in seconds of the file's clock
    dumped: tuple[Frame, ...] = ()  # where the main thread stood in its last dump by faulthandler, innermost first
    raised: tuple[Frame, ...] = ()  # of its last traceback, innermost first
    config: Config | None = None  # the TF_CONFIG that it shows


@dataclass(frozen=True)
class Process:
    """A process of this machine that is a task, or thinks it is."""

    pid: int
    config: Config  # of its own environment
    state: str = "sleeping"  # as psutil has it
    cpu: float = 0.0  # processors that it used while we looked
    waits_in: str = ""  # the kernel's function in which its main thread sleeps
    stack: tuple[Frame, ...] = ()  # of its main thread, innermost first; empty if it cannot be had
    listens: tuple[int, ...] = ()  # ports
    peers: Mapping[str, str] = field(default_factory=dict)  # address -> state of our connection to it, "SYN_SENT"
    settings: Mapping[str, str] = field(default_factory=dict)  # of TensorFlow in its environment, TF_CONFIG aside

    @property
    def task(self) -> str:
        """The task that it was told to be."""
        return self.config.task


@dataclass(frozen=True)
class Facts:
    """All that is known of one cluster."""

    config: Config  # that was asked about
    source: str = ""  # where it is from: "this environment", "process 123"
    processes: tuple[Process, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    logs: tuple[Log, ...] = ()
    twins: tuple[str, ...] = ()  # tasks whose server here is another one than that at their address
    missing: tuple[str, ...] = ()  # what could not be had, and how it could

    def of(self, task: str) -> list[Process]:
        """The processes of this machine that were told to be that task."""
        return [process for process in self.processes if process.task == task]

    def stack(self, task: str) -> tuple[Frame, ...]:
        """Where a task stands, or where it was when it raised; empty if that is not known."""
        logs = [log for log in self.logs if log.task == task]
        alive = self.of(task)
        known = [one.stack for one in alive] + [log.dumped if alive else log.raised for log in logs]
        return next((stack for stack in known if stack), ())

    def log(self, task: str) -> list[str]:
        """The last lines of a task, of all its files."""
        return [line for log in self.logs if log.task == task for line in log.lines]

    @property
    def told(self) -> list[tuple[str, str, Config]]:
        """Who was told what: a name, the task that it is, and its TF_CONFIG; a log's where no process here is that task."""
        found = [(f"{one.task} ({one.pid})", one.task, one.config) for one in self.processes]
        known, ours = {one.task for one in self.processes}, set(self.config.addresses.values())
        for log in sorted(self.logs, key=lambda log: -log.written):  # the newest of each
            if log.config and log.task and log.task not in known and ours & set(log.config.addresses.values()):
                known.add(log.task)
                found.append((log.task, log.task, log.config))
        return found

    def away(self, task: str) -> bool:
        """Whether nothing shows that a task of the cluster runs: no process here, no answer of a TensorFlow."""
        at = self.endpoint(task)
        return at is not None and at.away and not self.of(task)

    @property
    def over(self) -> bool:
        """Whether nothing shows that any task runs."""
        return not self.processes and all(each.away for each in self.endpoints)

    @property
    def gone(self) -> list[Endpoint]:
        """Addresses that refuse, and whose task no process of this machine is."""
        return [each for each in self.endpoints if each.answer == REFUSED and not self.of(each.task)]

    def endpoint(self, task: str) -> Endpoint | None:
        """How the address of that task answers."""
        return next((each for each in self.endpoints if each.task == task), None)


@dataclass(frozen=True)
class Finding:
    """A cause, in words."""

    key: str
    says: str
    mend: str
    task: str = ""  # the guilty one, if it is one
    explains: tuple[str, ...] = ()  # other tasks that wait, or are not there, because of it
