"""A TF_CONFIG, read as TensorFlow and chapter 13 read it: the cluster, the task, and what is wrong with the text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JOBS = ("chief", "worker", "ps", "evaluator")


@dataclass(frozen=True)
class Config:
    """A TF_CONFIG: the address of each task, which task it tells its program to be, and its faults as sentences."""

    addresses: Mapping[str, str]  # "worker:0" -> "10.0.0.1:2222"
    task: str = ""  # "" where it tells none
    faults: tuple[str, ...] = ()

    def job(self, name: str) -> list[str]:
        """The tasks of a job."""
        return [task for task in self.addresses if task.rpartition(":")[0] == name]


def read(text: str) -> Config:
    """Read the text of a TF_CONFIG, however wrong it is."""
    try:
        found = json.loads(text)
    except ValueError as error:
        return Config({}, faults=(f"TF_CONFIG is no JSON: {error}",))
    if not isinstance(found, dict) or not isinstance(found.get("cluster"), dict) or not found["cluster"]:
        return Config({}, faults=('TF_CONFIG has no "cluster": the program trains alone',))
    cluster = found["cluster"]
    faults = [f'the job "{job}" is no list of addresses' for job, of in cluster.items() if not _texts(of)]
    jobs: dict[str, list[str]] = {job: of for job, of in cluster.items() if _texts(of)}
    addresses = {f"{job}:{index}": address for job, of in jobs.items() for index, address in enumerate(of)}
    task, wrong = _task(found.get("task"), jobs)
    return Config(addresses, task, (*faults, *_of_cluster(jobs, addresses), *wrong))


def port(address: str) -> int:
    """The port of an address; 0 if it has none that is one."""
    digits = address.rpartition(":")[2]
    return int(digits) if ":" in address and digits.isascii() and digits.isdigit() and int(digits) < 1 << 16 else 0


def host(address: str) -> str:
    """The host of an address, an IPv6 one without its brackets."""
    return address.rpartition(":")[0].strip("[]")


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _of_cluster(jobs: Mapping[str, list[str]], addresses: Mapping[str, str]) -> list[str]:
    faults = [f'TensorFlow knows no job "{job}"; it knows {", ".join(JOBS)}' for job in jobs if job not in JOBS]
    chiefs = len(jobs.get("chief", ()))
    if chiefs > 1:
        faults.append(f"there are {chiefs} chiefs; one may be")
    if "ps" in jobs and not chiefs:
        faults.append("there is a ps and no chief: nobody starts the training")
    if len(jobs.get("evaluator", ())) > 1:
        faults.append("there are several evaluators; one may be")
    faults += [
        f"the address of {task}, {address!r}, has no port" for task, address in addresses.items() if not port(address)
    ]
    first: dict[str, str] = {}
    for task, address in addresses.items():
        if first.setdefault(address, task) != task:
            faults.append(f"{first[address]} and {task} have the same address, {address}")
    return faults


def _task(said: Any, jobs: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    """The task that is told, and what is wrong with it."""
    if not isinstance(said, dict) or "type" not in said:
        return "", ['TF_CONFIG has no "task": no program knows which one it is']
    job, index = said["type"], said.get("index")
    if job not in jobs and job != "evaluator":
        return f"{job}:{index}", [f'the task is of the job "{job}", which the cluster has not']
    count = len(jobs.get(job, [""]))
    if str(index) not in map(str, range(count)):
        return f"{job}:{index}", [f"the task is {job}:{index}, and the cluster has {_counted(count, job)}, from 0 on"]
    if isinstance(index, str):
        return f"{job}:{index}", [f'the index "{index}" is a text; it has to be a number']
    return f"{job}:{index}", []


def _counted(count: int, job: str) -> str:
    return f"{count} {job}" + ("s" if count != 1 and job != "ps" else "")
