"""Runs of the grading command that something is killed in, and what they leave: for the tests of crash safety."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

from autograder.sandbox import cgroups

# what is true of one run and need not be of another: how long it took and when, how many kernels, who was killed, how a
# kernel's end was noticed
VOLATILE = ("seconds", "execution", "papermill", "lives", "life", "note", "notes")
SERVERS = {
    "student": "autograder.job.student_server",
    "checker": "autograder.job.checker",
    "driver": "autograder.job.driver",
}
VICTIMS = (
    "grader",
    "student server",
    "checker server",
    "driver server",
    "driver",
    "checker",
    "kernel",
    "bwrap",
    "process 1",
    "page writer",
)
PATIENCE = 240.0  # seconds for a command on a busy machine


class Run:
    """One run of `autograder grade` in a session of its own; all its processes bear `mark` in their environment."""

    def __init__(
        self,
        root: Path,
        submissions: Path,
        out: Path,
        mark: Path,
        chapter: str,
        prefix: Sequence[str] = (),  # a command that runs it
        **environment: str,
    ) -> None:
        mark.mkdir(exist_ok=True)
        self.mark, self.out = mark, out
        arguments = ["grade", chapter, "--submissions", str(submissions), "--out", str(out), "--workers", "2"]
        path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(mark)])
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "autograder", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": path.strip(os.pathsep), **environment},
            start_new_session=True,
        )
        self.said = ""

    def end(self, seconds: float = PATIENCE) -> int:
        """Wait; return the exit code. What it printed is in `said`."""
        self.said = self.process.communicate(timeout=seconds)[0]
        return self.process.returncode

    def strike(self, kind: str, delay: float, after: Path) -> str:
        """Kill -9 a process of the kind `delay` seconds after the start, or as soon later as there is one and `after`.

        Returns which one it was, or "" if the run ended before there was any.
        """
        while self.process.poll() is None:
            if time.monotonic() - self.began >= delay and after.exists():
                for pid in processes(self.mark).get(kind, []):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        return f"{kind} {pid} after {time.monotonic() - self.began:.2f} s"
            time.sleep(0.005)
        return ""

    def close(self) -> None:
        """Kill what is left of it."""
        for pids in processes(self.mark).values():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.communicate(timeout=60)


def processes(mark: Path) -> dict[str, list[int]]:
    """The living processes that bear `mark`, or were started by one that does, by what they are (see VICTIMS).

    What builds and holds a box has hardly an environment.
    """
    every: dict[int, tuple[int, str]] = {}
    bear: set[int] = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    every[int(folder.name)] = (int(parent), command)
                if str(mark).encode() in (folder / "environ").read_bytes():
                    bear.add(int(folder.name))
    while more := {pid for pid, (parent, _) in every.items() if parent in bear} - bear:
        bear |= more
    found = {pid: each for pid, each in every.items() if pid in bear}
    kinds: dict[str, list[int]] = {}
    for pid, (parent, command) in found.items():
        kinds.setdefault(_kind(found.get(parent, (0, "")), found, command), []).append(pid)
    return kinds


def _kind(parent: tuple[int, str], found: dict[int, tuple[int, str]], command: str) -> str:
    above, its_command = parent
    if "sleep infinity" in command or command.startswith("sh "):
        return "process 1" if "bwrap" in its_command and "bwrap" not in command else "bwrap"
    if "bwrap" in command:
        return "bwrap"
    for name, module in SERVERS.items():
        if module in command:
            if module not in its_command:
                return f"{name} server"
            if name == "driver" or module not in found.get(above, (0, ""))[1]:
                # an ordinary user's kernel is a fork further down: see `entering.before`
                return name if name != "student" else "kernel" if os.getuid() == 0 else "waiter"
            return "kernel" if name == "student" else name
    return "page writer" if "autograder grade" in its_command else "grader"


def leftovers(mark: Path, graders: list[int], deadline: float = 30.0) -> list[str]:
    """What the runs `graders` (process ids) have left: processes after `deadline` seconds, groups, folders."""
    until = time.monotonic() + deadline  # a server that was still importing ends when it has
    while (alive := processes(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    left = [f"{kind} {pids}" for kind, pids in alive.items()]
    for grader in graders:
        left += _builders(f"j{grader}-")
        left += [f"group {group.name}" for group in cgroups.leftovers(f"j{grader}-")]
        left += [str(folder) for folder in Path("/dev/shm").glob(f"across-{grader}-*")]
    return left


def _builders(prefix: str) -> list[str]:
    """The command lines of the processes that build or hold a box whose name begins so."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if words[0] == b"bwrap" and any(word.startswith(prefix.encode()) for word in words):
                found.append(b" ".join(words).decode(errors="replace"))
    return found


def meaning(out: Path) -> dict[str, object]:
    """All that OUT says, without ids and without how long it took: equal for two runs that graded alike."""
    said: dict[str, object] = {"gradebook.db": _database(out / "gradebook.db")}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.is_file() and path.name not in ("gradebook.db", ".lock", "grading.log"):
            text = path.read_bytes()
            said[name] = _without(json.loads(text)) if path.suffix == ".ipynb" else text
            if name.startswith("report"):  # it tells seconds
                said[name] = b"</html>" in text
    return said


def _database(path: Path) -> list[str]:
    """Every row of every table, each id replaced by the row that it stands for."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        connection.row_factory = sqlite3.Row
        names = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        rows = [(name, dict(row)) for name in names for row in connection.execute(f"select * from {name}")]
    by_id: dict[str, list[tuple[str, dict[str, object]]]] = {}
    for name, row in rows:
        if len(str(row.get("id"))) == 32:
            by_id.setdefault(str(row["id"]), []).append((name, row))

    def told(name: str, row: dict[str, object]) -> str:
        return name + json.dumps(
            {key: value(key, each) for key, each in row.items() if key not in ("id", "moment")},
            sort_keys=True,
            default=repr,
        )

    def value(key: str, each: object) -> object:
        if key in ("verdict", "notebook", "answers") and each:
            return _without(json.loads(zlib.decompress(each) if isinstance(each, bytes) else str(each)))
        return sorted(told(*row) for row in by_id[each]) if isinstance(each, str) and each in by_id else each

    return sorted(told(*row) for row in rows)


def _without(said: object) -> object:
    if isinstance(said, dict):
        return {key: _without(value) for key, value in said.items() if key not in VOLATILE}
    return [_without(each) for each in said] if isinstance(said, list) else said
