"""Processes of this machine that are tasks: who has a TF_CONFIG, and where each stands. Nothing is touched.

A program may set TF_CONFIG itself (`os.environ[...]`), which /proc/PID/environ does not show: it has what the process was
started with. Where we may read its memory, the environment is read as it is now, from the C library's `environ`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import struct
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from across import _system
from across._cluster_doctor import config
from across._cluster_doctor.facts import Frame, Process

VARIABLE = "TF_CONFIG"
SETTINGS = ("TF_", "KERAS_", "GRPC_", "NCCL_")  # how variables begin that have to be the same in all tasks
TENSORFLOW = re.compile(r"/tensorflow/\S*\.so\b")
LONGEST = 1 << 16  # bytes of one variable
PY_SPY, MOST = 4.0, 16  # seconds, processes that it looks at, all at once


@dataclass(frozen=True)
class Task:
    """A process with TensorFlow and a TF_CONFIG."""

    process: psutil.Process
    began: float  # seconds of our clock
    config: config.Config
    settings: Mapping[str, str]


def tasks() -> list[Task]:
    """This user's processes that have loaded TensorFlow and have a TF_CONFIG; a fork of such a one for its own data is none."""
    found = {}
    for pid in psutil.pids() if _system.linux() else ():
        with contextlib.suppress(OSError, psutil.Error):
            process = psutil.Process(pid)
            if pid == os.getpid() or process.uids().effective != os.geteuid():
                continue
            maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
            if TENSORFLOW.search(maps) and (text := (variables := environment(pid, maps)).get(VARIABLE)):
                settings = {key: value for key, value in sorted(variables.items()) if key.startswith(SETTINGS)}
                settings.pop(VARIABLE)
                found[pid] = Task(process, process.create_time(), config.read(text), settings)
    return [task for task in found.values() if not _is_part(task, found)]


def environment(pid: int, maps: str = "") -> dict[str, str]:
    """The environment of a process: as it is now where we may read that, else as it was started."""
    with contextlib.suppress(OSError, ValueError, struct.error, OverflowError):
        return _now(pid, maps or Path(f"/proc/{pid}/maps").read_text(errors="replace"))
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        return psutil.Process(pid).environ()
    return {}


def examined(found: list[Task], seconds: float) -> list[Process]:
    """Look at each of them for so many seconds."""
    start = time.monotonic()
    for task in found:
        with contextlib.suppress(psutil.Error):
            task.process.cpu_percent()  # from here on
    with ThreadPoolExecutor(MOST) as pool:
        pids = [task.process.pid for task in found][:MOST]
        stacks = dict(zip(pids, pool.map(_stack, pids), strict=True))
    time.sleep(max(0.0, seconds - (time.monotonic() - start)))
    examined = []
    for task in found:
        with contextlib.suppress(OSError, psutil.Error):
            examined.append(_process(task, stacks.get(task.process.pid, ())))
    return examined


def _stack(pid: int) -> tuple[Frame, ...]:
    """Where the main thread of a Python process stands, by py-spy if it is here; it stops nobody (--nonblocking)."""
    command = ["py-spy", "dump", "--nonblocking", "--json", "--full-filenames", "--pid", str(pid)]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        return of_main_thread(json.loads(subprocess.run(command, capture_output=True, timeout=PY_SPY).stdout))
    return ()


def of_main_thread(threads: list[Any]) -> tuple[Frame, ...]:
    """The frames that py-spy tells of the main thread, innermost first."""
    for thread in threads:
        if thread["thread_name"] == "MainThread" or thread["os_thread_id"] == thread["pid"]:
            return tuple(Frame(each["filename"], each["line"], each["name"]) for each in thread["frames"])
    return ()


def name(pid: int) -> str:
    """A program as it was started, in short."""
    with contextlib.suppress(psutil.Error):
        program, *words = psutil.Process(pid).cmdline() or [""]
        text = " ".join([program.rpartition("/")[2], *words]).strip()
        return text if len(text) <= 40 else text[:37] + "..."
    return "a program"


def _process(task: Task, stack: tuple[Frame, ...]) -> Process:
    process, waits_in = task.process, ""
    with contextlib.suppress(OSError):
        waits_in = Path(f"/proc/{process.pid}/wchan").read_text()
    own = process.net_connections("tcp")
    return Process(
        process.pid,
        task.config,
        process.status(),
        process.cpu_percent() / 100,
        waits_in="" if waits_in == "0" else waits_in,
        stack=stack,
        listens=tuple(sorted({each.laddr.port for each in own if each.status == psutil.CONN_LISTEN})),
        peers={_address(*each.raddr): each.status for each in own if each.raddr},
        settings=task.settings,
    )


def _address(ip: str, port: int) -> str:
    """An address as people write it; of IPv6 for IPv4 as IPv4."""
    ip = ip.removeprefix("::ffff:")
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _is_part(task: Task, among: dict[int, Task]) -> bool:
    """Whether a process is a helper of another one, as those of `multiprocessing`: its child, that was told the same."""
    with contextlib.suppress(psutil.Error):
        parent = among.get(task.process.ppid())
        if parent is not None and parent.config == task.config:
            command = task.process.cmdline()
            return "multiprocessing" in " ".join(command) or command == parent.process.cmdline()
    return False


def _now(pid: int, maps: str) -> dict[str, str]:
    """The environment to which a process's `environ` points; ValueError where it is not found."""
    file, offset = _symbol(Path("/proc/self/maps").read_text(errors="replace"))
    start = next((start for start, _, name in _mapped(maps) if name == file), None)
    if start is None:
        raise ValueError("it has another C library or Python")
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        pointers, variables = _word(memory, start + offset), []
        while text := _word(memory, pointers + 8 * len(variables)):
            variables.append(_string(memory, text))
    pairs = (each.decode("utf-8", "replace").partition("=") for each in variables)
    return {key: value for key, _, value in pairs}


def _symbol(maps: str) -> tuple[str, int]:
    """In which file `environ` is, and how far from where that file begins in memory."""
    at = ctypes.addressof(ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ"))
    file, begin = "", 0
    for start, end, name in _mapped(maps):
        if name and name != file:  # what is not named after a file's parts is its data
            file, begin = name, start
        if start <= at < end:
            return file, at - begin
    raise ValueError("no environ")


def _mapped(maps: str) -> list[tuple[int, int, str]]:
    found = []
    for line in maps.splitlines():
        span, _, _, _, inode, *path = line.split(None, 5)
        start, end = (int(each, 16) for each in span.split("-"))
        found.append((start, end, f"{path[0]} {inode}" if path and inode != "0" else ""))
    return found


def _word(memory: Any, at: int) -> int:
    memory.seek(at)
    return struct.unpack("P", memory.read(8))[0]


def _string(memory: Any, at: int) -> bytes:
    """The bytes up to a zero; a page may be the last that can be read."""
    data = b""
    while b"\0" not in data and len(data) < LONGEST:
        memory.seek(at + len(data))
        more = memory.read(4096 - (at + len(data)) % 4096)
        if not more:
            break
        data += more
    return data.partition(b"\0")[0]
