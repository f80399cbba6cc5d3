"""Everything that can be found out about a cluster from this machine, within a deadline; nothing is stopped or changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from across import _system
from across._cluster_doctor import config, logs, probing, processes
from across._cluster_doctor.config import Config
from across._cluster_doctor.facts import Endpoint, Facts, Log, Process, Program

LOOKS = 1.0  # seconds for which processes are watched
ANSWERS = 5.5  # seconds for all addresses


class NoCluster(ValueError):  # noqa: N818 - a usage, not a failure
    """There is no TF_CONFIG to ask about."""


def gather(text: str | None, pid: int | None, folder: Path | None) -> Facts:
    """Find out about the cluster of `text`, a TF_CONFIG, or of process `pid`, or of what runs here. Raises NoCluster.

    `folder`: where logs of tasks lie.
    """
    running = processes.tasks()
    asked, source = _asked(text, pid, running)
    ours = _of_one_cluster(asked, running, pid)
    endpoints = list(probing.answers(asked.addresses, ANSWERS).values())
    found = processes.examined(ours, LOOKS)
    written, missing = _logs(found, ours, folder)
    if not all(one.stack or any(log.dumped for log in written if log.task == one.task) for one in found):
        missing.append(
            "where Python stands: `pip install py-spy`, or `faulthandler.dump_traceback_later(60)` in the program"
        )
    if not _system.linux():
        missing.append("processes of this machine: they are read from Linux's /proc")
    return Facts(
        asked,
        source,
        tuple(found),
        tuple(_with_listeners(endpoints)),
        tuple(written),
        tuple(_twins(endpoints, found)),
        tuple(missing),
    )


def _asked(text: str | None, pid: int | None, running: Sequence[processes.Task]) -> tuple[Config, str]:
    if pid is not None:
        own = processes.environment(pid).get(processes.VARIABLE)
        if own is None:
            raise NoCluster(f"process {pid} has no TF_CONFIG that we may read, or there is no such process")
        return config.read(own), f"process {pid}"
    if text is not None:
        return config.read(text), "this environment"
    if not running:
        raise NoCluster(
            "no TF_CONFIG in this environment, and no process of yours with TensorFlow has one; --pid PID names one"
        )
    newest = max(running, key=lambda task: task.began)
    return newest.config, f"process {newest.process.pid}, the newest that has one"


def _of_one_cluster(asked: Config, running: Sequence[processes.Task], pid: int | None) -> list[processes.Task]:
    """The processes that are of the cluster that is asked about: they share an address with it, or with one that does."""
    addresses, found = set(asked.addresses.values()), [task for task in running if task.process.pid == pid]
    while more := [task for task in running if task not in found and addresses & set(task.config.addresses.values())]:
        found += more
        addresses |= {address for task in more for address in task.config.addresses.values()}
    return sorted(found, key=lambda task: (task.config.task, task.process.pid))


def _twins(endpoints: Sequence[Endpoint], found: Sequence[Process]) -> Iterator[str]:
    """Tasks that are another machine's by their address, and whose server here is not the one that answers there."""
    for each in endpoints:
        listens = any(config.port(each.address) in one.listens for one in found if one.task == each.task)
        if listens and each.server and not each.here:
            own = probing.probe(each.task, f"127.0.0.1:{config.port(each.address)}")
            if own.says == each.task and own.server != each.server:
                yield each.task


def _with_listeners(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """The same, with the programs of this machine that listen there."""
    of_port: dict[int, set[Program]] = {}
    with contextlib.suppress(OSError, psutil.Error):
        for each in psutil.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN and each.laddr and each.pid:
                of_port.setdefault(each.laddr.port, set()).add(Program(each.pid, processes.name(each.pid)))
    ports = [config.port(each.address) if each.here else 0 for each in endpoints]
    return [
        replace(each, listeners=tuple(sorted(of_port.get(number, ()), key=lambda program: program.pid)))
        for each, number in zip(endpoints, ports, strict=True)
    ]


def _logs(found: Sequence[Process], ours: Sequence[processes.Task], folder: Path | None) -> tuple[list[Log], list[str]]:
    """What tasks wrote, and whose words could not be read."""
    written, missing = [], []
    for one in found:
        own = list(logs.of_process(one.pid, one.task))
        written += own
        if not own and folder is None:
            missing.append(
                f"what {one.task or 'it'} ({one.pid}) prints: it is no file; --logs FOLDER names where logs are"
            )
    if folder is not None:
        written += logs.in_folder(folder, written)
    elif written:
        written += logs.beside(written, min(task.began for task in ours) - 60.0)
    return written, missing
