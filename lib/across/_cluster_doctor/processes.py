"""Processes of this machine that are tasks: who has a TF_CONFIG, and where each stands. Read from /proc, nothing is touched.

A program may set TF_CONFIG itself (`os.environ[...]`), which /proc/PID/environ does not show: it has what the process was
started with. Where we may read its memory, the environment is read as it is now, from the C library's `environ`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from across._cluster_doctor import config, sockets
from across._cluster_doctor.facts import Frame, Process

VARIABLE = "TF_CONFIG"
SETTINGS = ("TF_", "KERAS_", "GRPC_", "NCCL_")  # how variables begin that have to be the same in all tasks
TENSORFLOW = re.compile(r"(/\S*?)/tensorflow/\S*\.(?:so|pyd)\b")
PYTHON = re.compile(r"/(?:lib)?python(3\.\d+)(?:/|\.so|$)", re.MULTILINE)
LONGEST = 1 << 16  # bytes of one variable
PY_SPY, MOST = 4.0, 16  # seconds for all, processes that it looks at


@dataclass(frozen=True)
class Task:
    """A process with TensorFlow and a TF_CONFIG."""

    pid: int
    config: config.Config
    maps: str
    settings: Mapping[str, str]


def tasks() -> list[Task]:
    """This user's processes that have loaded TensorFlow and have a TF_CONFIG; a fork of such a one for its own data is none."""
    found = {}
    for pid in sockets.pids():
        with contextlib.suppress(OSError):
            if pid == os.getpid() or os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                continue
            maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
            if TENSORFLOW.search(maps) and (text := (variables := environment(pid, maps)).get(VARIABLE)):
                settings = {key: value for key, value in sorted(variables.items()) if key.startswith(SETTINGS)}
                settings.pop(VARIABLE)
                found[pid] = Task(pid, config.read(text), maps, settings)
    return [task for task in found.values() if not _is_part(task, found)]


def environment(pid: int, maps: str = "") -> dict[str, str]:
    """The environment of a process: as it is now where we may read that, else as it was started."""
    with contextlib.suppress(OSError, ValueError, struct.error, OverflowError):
        return _now(pid, maps or Path(f"/proc/{pid}/maps").read_text(errors="replace"))
    with contextlib.suppress(OSError):
        return _pairs(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    return {}


def examined(found: list[Task], seconds: float) -> list[Process]:
    """Look at each of them for so many seconds."""
    before, start = [_cpu_time(task.pid) for task in found], time.monotonic()
    stacks = _stacks([task.pid for task in found][:MOST])
    time.sleep(max(0.0, seconds - (time.monotonic() - start)))
    passed = time.monotonic() - start
    examined = []
    for task, used in zip(found, before, strict=True):
        with contextlib.suppress(OSError, ValueError, IndexError):
            one = _process(task)
            cpu = (_cpu_time(task.pid) - used) / passed
            examined.append(replace(one, cpu=max(0.0, cpu), stack=stacks.get(task.pid, ())))
    return examined


def _stacks(pids: list[int]) -> dict[int, tuple[Frame, ...]]:
    """Where the main thread of each Python process stands, by py-spy if it is here; it stops nobody (--nonblocking)."""
    py_spy, until, found = shutil.which("py-spy"), time.monotonic() + PY_SPY, {}
    if not py_spy:
        return {}
    command = [py_spy, "dump", "--nonblocking", "--json", "--full-filenames", "--pid"]
    with contextlib.ExitStack() as ended:
        running = {pid: ended.enter_context(_Quiet([*command, str(pid)])) for pid in pids}
        for pid, one in running.items():
            with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
                told, _ = one.communicate(timeout=max(0.1, until - time.monotonic()))
                found[pid] = of_main_thread(json.loads(told))
    return found


class _Quiet(subprocess.Popen[str]):
    """A program whose words we read, and that ends with the block."""

    def __init__(self, command: list[str]) -> None:
        super().__init__(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def __exit__(self, *how: Any) -> None:
        self.kill()
        super().__exit__(*how)


def of_main_thread(threads: list[Any]) -> tuple[Frame, ...]:
    """The frames that py-spy tells of the main thread, innermost first."""
    for thread in threads:
        if thread["thread_name"] == "MainThread" or thread["os_thread_id"] == thread["pid"]:
            return tuple(Frame(each["filename"], each["line"], each["name"]) for each in thread["frames"])
    return ()


def name(pid: int) -> str:
    """A program as it was started, in short."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        text = " ".join([words[0].rpartition("/")[2], *words[1:]]).strip()
        return text if len(text) <= 40 else text[:37] + "..."
    return "a program"


def began(pid: int) -> float:
    """When a process began, in seconds of our clock; 0.0 where that cannot be told."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        boot = re.search(r"^btime (\d+)", Path("/proc/stat").read_text(), re.MULTILINE)
        return (int(boot[1]) if boot else 0) + int(_stat(pid)[19]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _process(task: Task) -> Process:
    pid, proc = task.pid, Path(f"/proc/{task.pid}")
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
    held = sockets.inodes(pid)
    own = [each for each in sockets.tcp(pid) if each.inode in held]
    limit = re.search(r"^Max file size\s+(\d+)", (proc / "limits").read_text(), re.MULTILINE)
    waits_in = folder = ""
    with contextlib.suppress(OSError):
        waits_in = (proc / "wchan").read_text()
    with contextlib.suppress(OSError):
        folder = os.readlink(proc / "cwd")
    return Process(
        pid,
        task.config,
        status["State"][0],
        waits_in="" if waits_in == "0" else waits_in,
        threads=int(status["Threads"]),
        python=_first(PYTHON, task.maps),
        tensorflow=tensorflow_version(task.maps),
        listens=tuple(sorted({each.port for each in own if each.state == "LISTEN"})),
        peers={each.peer: each.state for each in own if each.state in ("SYN_SENT", "ESTABLISHED", "CLOSE_WAIT")},
        folder=folder,
        file_limit=int(limit[1]) if limit else None,
        settings=task.settings,
    )


def tensorflow_version(maps: str) -> str:
    """The version of the TensorFlow of which a process has loaded a library, by what pip noted beside it."""
    for folder in dict.fromkeys(found[1] for found in TENSORFLOW.finditer(maps)):
        for noted in sorted(Path(folder).glob("tensorflow*.dist-info")):
            if found := re.fullmatch(r"tensorflow(?:_\w+)?-(\d[^-]*)\.dist-info", noted.name):
                return found[1]
    return ""


def _is_part(task: Task, among: dict[int, Task]) -> bool:
    """Whether a process is a helper of another one, as those of `multiprocessing`: its child, that was told the same."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        parent = among.get(int(_stat(task.pid)[1]))
        if parent is not None and parent.config == task.config:
            command = Path(f"/proc/{task.pid}/cmdline").read_bytes()
            return b"multiprocessing" in command or command == Path(f"/proc/{parent.pid}/cmdline").read_bytes()
    return False


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat from the third field on: the state."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _cpu_time(pid: int) -> float:
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = _stat(pid)
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _pairs(variables: list[bytes]) -> dict[str, str]:
    pairs = (each.decode("utf-8", "replace").partition("=") for each in variables if each)
    return {key: value for key, _, value in pairs}


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
    return _pairs(variables)


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
