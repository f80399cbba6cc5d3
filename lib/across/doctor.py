"""What this machine has, what limits it, and what each chapter can show on it."""

from __future__ import annotations

import dataclasses
import platform
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from across import _system, devices, diagnosis
from across._gpu import building, loading
from across._jupyter import chapters
from across._jupyter.machine import shows
from across._language.catalogue import marked
from across._process import unprivileged, warm
from across._system import CGROUP, limit, version
from across.diagnosis import Facts, Finding

PACKAGES = ("across", "tensorflow", "keras", "numpy", "jupyterlab", "nbgrader")
GIB = 1 << 30
STAND_IN = Finding(  # for a machine without a GPU where the chapters simulate them: nobody need rent one
    "no GPU", marked("No NVIDIA GPU here, and none is needed."), marked("Simulated ones stand in.")
)


def facts() -> dict[str, Any]:
    """Everything that `across doctor` knows, as plain values: sizes in bytes, None where there is no limit."""
    here = devices.here()
    names = _chapters()
    gpus = len(here.gpus)
    found = diagnosis.gather()
    sandbox = unprivileged.problem()
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: version(name) for name in PACKAGES},
        "cuda": found.cuda,
        "devices": [
            {
                "name": device.name,
                "type": device.type,
                "model": device.model,
                "memory": device.memory,
                "compute_capability": device.compute_capability,
            }
            for device in here.devices
        ],
        "simulated_gpus": devices.simulated_gpus(),
        "limits": {
            "cores": _system.cores(),
            "cpus": cpu_limit(),
            "memory": limit("memory.max", "memory/memory.limit_in_bytes"),
            "processes": limit("pids.max", "pids/pids.max"),
        },
        "diagnosis": dataclasses.asdict(finding(found)),
        "warm_kernels": warm.available(),
        "sandbox": sandbox,
        "chapters": {name: _shows(name, gpus) for name in names},
        "advice": advice(names, sandbox),
    }


def finding(facts: Facts) -> Finding:
    """What `diagnosis.diagnose` finds, but for a machine without a GPU where simulated ones can be had."""
    found = diagnosis.diagnose(facts)
    if found.key != STAND_IN.key or diagnosis.hides(facts.visible) or building.problem():
        return found
    return STAND_IN


def advice(names: list[str], sandbox: str) -> list[str]:
    """What is missing here, each with the mend. `sandbox`: why no box can be built, if none can."""
    sentences = []
    if not names:
        sentences.append("No chapters here: start in the course's folder, or set ACROSS_COURSE to it.")
    if not warm.available():
        sentences.append(f"No fork server on {_system.name()}: kernels and fresh processes start cold, about 4 s each.")
    if not _system.linux():
        sentences.append("Grading needs Linux with bubblewrap; students need neither.")
    elif sandbox:
        sentences.append(f"Grading needs a box, students do not: {sandbox}.")
    return sentences


def rendered(facts: dict[str, Any]) -> RenderableType:
    """The facts as tables for the terminal."""
    machine = Table(title="this machine", show_header=False, title_justify="left")
    machine.add_row("Python", f"{facts['python']} on {facts['system']}")
    machine.add_row(
        "packages", ", ".join(f"{name} {version or 'missing'}" for name, version in facts["packages"].items())
    )
    machine.add_row("CUDA build", facts["cuda"] or "no")
    for device in facts["devices"]:
        memory = f", {device['memory'] / GIB:.1f} GiB" if device["memory"] else ""
        capability = device["compute_capability"]
        compute = f", compute capability {capability[0]}.{capability[1]}" if capability else ""
        machine.add_row(device["name"], f"{device['model']}{memory}{compute}")
    machine.add_row("GPU", f"{facts['diagnosis']['says']} {facts['diagnosis']['mend']}")
    machine.add_row("simulated GPUs", facts["simulated_gpus"])
    limits = facts["limits"]
    machine.add_row("CPU limit", f"{limits['cpus']:g} CPUs" if limits["cpus"] else "none")
    machine.add_row("memory limit", f"{limits['memory'] / GIB:.1f} GiB" if limits["memory"] else "none")
    machine.add_row("process limit", str(limits["processes"] or "none"))
    machine.add_row("warm kernels", "yes" if facts["warm_kernels"] else "no")
    machine.add_row("a box to grade in", facts["sandbox"] or "was built")
    course = Table("chapter", "here", title="the course", title_justify="left")
    for name, sentence in facts["chapters"].items():
        course.add_row(name, sentence)
    return Group(machine, course, *facts["advice"])


def cpu_limit() -> float | None:
    """How many CPUs' worth of time the cgroup allows."""
    try:
        quota, period = (CGROUP / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        quota, period = limit("cpu/cpu.cfs_quota_us"), limit("cpu/cpu.cfs_period_us")
        return quota / period if quota and period and quota > 0 else None


def _shows(name: str, gpus: int) -> str:
    """What a chapter shows with so many GPUs here, which it may simulate itself."""
    wanted, simulated = chapters.devices(name), loading.loaded()
    if (simulated or not gpus) and chapters.simulates(name) and not building.problem():
        gpus, simulated = wanted, True
    return shows(wanted, gpus, simulated)


def _chapters() -> list[str]:
    try:
        return chapters.names()
    except chapters.NoSuchChapter:
        return []
