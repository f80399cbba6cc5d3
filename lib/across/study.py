"""A scaling study: configurations x repeats, each run in a fresh process, kept in a file so that an interrupted one goes on.

    study = Study("study.jsonl", program, {"1 replica": {"replicas": 1}, "2 replicas": {"replicas": 2}}, repeats=6)
    study.state({"2 replicas": 1.8})               # a prediction, with the time at which it was made
    study.run()                                    # what is not in the file yet
    study.speedup("1 replica", "2 replicas")       # 1.74 (1.60 to 1.81, 6 pairs)

`program(**arguments)` returns seconds. A run that fails or hangs is a run with a message: the study goes on. The repeats are
the outer loop, every other one in reverse order, so that what the machine does meanwhile falls on all configurations alike.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from across import fresh

__all__ = ["Ratio", "Run", "Stated", "Study", "cores", "machine"]

TIMEOUT = 30.0  # seconds of one run, the start of its process included
FAILURES = 160  # characters of what a failed run says


@dataclass(frozen=True)
class Run:
    """One run: of which configuration and repeat, and what came of it."""

    name: str
    repeat: int
    seconds: float | None  # what the program returned; None when it failed
    error: str  # empty when it did not
    took: float  # seconds, the process's start included
    at: float  # when it ended, in seconds since 1970
    key: str  # of program, arguments and machine: a run of others is none of this study


@dataclass(frozen=True)
class Ratio:
    """How often as fast: the ratios of runs of the same repeat."""

    values: tuple[float, ...]
    left_out: int  # pairs of which a run failed

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The smallest."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The largest."""
        return max(self.values)

    def __str__(self) -> str:
        count = f"{len(self.values)} pair{'s' * (len(self.values) != 1)}"
        failed = f", {self.left_out} left out" if self.left_out else ""
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f}, {count}{failed})"


@dataclass(frozen=True)
class Stated:
    """A prediction, and when it was stated."""

    values: dict[str, float]
    at: float
    before: bool  # whether no run of the study had ended by then
    changed: int  # how often another one was stated after the first


class Study:
    """One study and its file. Nothing is run before `run`."""

    def __init__(
        self,
        path: str | Path,
        program: Callable[..., Any],
        configurations: Mapping[str, Mapping[str, Any]],
        repeats: int = 5,
        *,
        timeout: float = TIMEOUT,
        cpus: Callable[[Mapping[str, Any]], int] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`configurations`: name -> keyword arguments, which must be plain values.

        `cpus` says of arguments into how many logical CPUs their process is split, `env` what is set in it.
        Raises ValueError for a study of nothing, and TypeError for arguments that cannot be written down.
        """
        if not configurations or repeats < 1:
            raise ValueError("a study needs a configuration and a repeat")
        self.path = Path(path)
        self.program = program
        self.configurations = {name: dict(arguments) for name, arguments in configurations.items()}
        self.repeats = repeats
        self.timeout = timeout
        self.cpus = cpus
        self.env = env
        self.keys = {name: _key(program, arguments) for name, arguments in self.configurations.items()}

    def runs(self) -> list[Run]:
        """The runs of this study that are in the file, in the order in which they ended; one for each of its places."""
        found: dict[tuple[str, int], Run] = {}
        for line in self._lines():
            run = _run(line)
            if run and self.keys.get(run.name) == run.key and 0 <= run.repeat < self.repeats:
                found.setdefault((run.name, run.repeat), run)
        return list(found.values())

    def seconds(self) -> dict[str, list[float]]:
        """Of each configuration the seconds of each repeat; NaN where a run failed or is still to come."""
        table = {name: [math.nan] * self.repeats for name in self.configurations}
        for run in self.runs():
            if run.seconds is not None:
                table[run.name][run.repeat] = run.seconds
        return table

    def left(self) -> list[tuple[str, int]]:
        """The runs to come, in their order: every other repeat goes through the configurations backwards."""
        have = {(run.name, run.repeat) for run in self.runs()}
        names = list(self.configurations)
        order = [(name, repeat) for repeat in range(self.repeats) for name in (names, names[::-1])[repeat % 2]]
        return [place for place in order if place not in have]

    def run(self, most: int | None = None, say: Callable[[str], None] | None = None) -> Study:
        """Run what is not in the file yet, `most` runs of it if that is said. Interrupted, it goes on at the next call.

        `say` gets a line before each run and at the end; by default the line replaces the one before it.
        Raises TypeError for a program that cannot be sent to another process, OSError where the file cannot be written.
        """
        line, left = say or _over(), self.left()
        if left:
            fresh.server_path(time.monotonic() + fresh.TIMEOUT, cold=False)  # its start is no run's
        total = len(self.configurations) * self.repeats
        for number, (name, repeat) in enumerate(left[:most]):
            line(f"{total - len(left) + number} of {total} runs, about {self.eta():.0f} s left; now: {name}")
            self._append(asdict(self._one(name, repeat)))
        failed = [run for run in self.runs() if run.error]
        done = total - len(self.left())
        line(f"{done} of {total} runs" + (f"; {len(failed)} failed, the first: {failed[0].error}" if failed else ""))
        if say is None:
            print()
        return self

    def eta(self) -> float:
        """How many seconds the runs to come will take: each as long as the median of its configuration's, or of all."""
        took: dict[str, list[float]] = {}
        for run in self.runs():
            took.setdefault(run.name, []).append(run.took)
        known = [each for several in took.values() for each in several]
        return sum(statistics.median(took.get(name) or known or [1.0]) for name, _ in self.left())

    def speedup(self, base: str, name: str, work: float = 1.0) -> Ratio | None:
        """How often as fast as `base` the configuration `name` is: `work` times the seconds of `base` over its own.

        `work` is how many times the examples of `base` it gets through. None where no repeat has both.
        """
        table = self.seconds()
        pairs = zip(table[base], table[name], strict=True)
        values = tuple(work * one / other for one, other in pairs if not math.isnan(one + other))
        return Ratio(values, self.repeats - len(values)) if values else None

    def state(self, prediction: Mapping[str, float]) -> Stated:
        """Write a prediction down, with the time; the same one again changes nothing. Returns what stands."""
        values = {name: float(value) for name, value in prediction.items()}
        before = self.stated()
        if before is None or before.values != values:
            self._append({"prediction": values, "at": time.time(), "keys": sorted(self.keys.values())})
        stated = self.stated()
        assert stated is not None
        return stated

    def stated(self) -> Stated | None:
        """The prediction that stands: the last one, and whether it was there before the first run."""
        mine = sorted(self.keys.values())
        lines = [line for line in self._lines() if isinstance(line.get("prediction"), dict) and line["keys"] == mine]
        if not lines:
            return None
        first_run = min((run.at for run in self.runs()), default=math.inf)
        return Stated(lines[-1]["prediction"], lines[-1]["at"], lines[-1]["at"] <= first_run, len(lines) - 1)

    def _one(self, name: str, repeat: int) -> Run:
        arguments = self.configurations[name]
        cpus = self.cpus(arguments) if self.cpus else None
        outcome = fresh.call(self.program, cpus=cpus, env=self.env, timeout=self.timeout, **arguments)
        seconds, error = None, ""
        if outcome.error is not None:
            text = str(outcome.error).strip().splitlines() or [""]
            error = f"{type(outcome.error).__name__}: {text[0]}"
        elif not _positive(outcome.value):
            error = f"it returned {outcome.value!r}; expected seconds, a number above 0"
        else:
            seconds = float(outcome.value)  # pyright: ignore[reportArgumentType]
        return Run(name, repeat, seconds, error[:FAILURES], outcome.seconds, time.time(), self.keys[name])

    def _lines(self) -> Iterator[dict[str, Any]]:
        """What stands in the file. A line that was cut off when its writer died is no line."""
        if not self.path.exists():
            return
        for text in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line

    def _append(self, line: Mapping[str, Any]) -> None:
        """Add a line by one write, on a line of its own also after one that was cut off; it is on the disk afterwards."""
        text = json.dumps(line).encode() + b"\n"
        with self.path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                text = text if file.read(1) == b"\n" else b"\n" + text
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """The machine in a few words: runs of another one are not mixed with its own."""
    version = importlib.metadata.version("tensorflow")
    return f"{cores()} cores, {platform.system()} {platform.machine()}, TensorFlow {version}"


def _positive(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and 0 < float(value) < math.inf
    except (TypeError, ValueError):
        return False


def _run(line: Mapping[str, Any]) -> Run | None:
    try:
        return Run(**line)
    except TypeError:  # a prediction, or what another version wrote
        return None


def _key(program: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """What a run is of. Raises TypeError for arguments that JSON does not know."""
    parts = [json.dumps(arguments, sort_keys=True), machine(), *_sources(program, set())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _sources(function: Callable[..., Any], seen: set[int]) -> list[str]:
    """The source of a function, and of what it names of its own module or encloses: functions, and plain constants."""
    if id(function) in seen or not isinstance(function, FunctionType):
        return []
    seen.add(id(function))
    try:
        found = [inspect.getsource(function)]
    except (OSError, TypeError):  # typed at a prompt, or made by exec
        found = [function.__code__.co_code.hex()]
    named = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            named[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    for name in sorted(named):
        value = named[name]
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            found += _sources(value, seen)
        elif isinstance(value, bool | int | float | str):
            found.append(f"{name} = {value!r}")
    return found


def _names(code: CodeType) -> Sequence[str]:
    """The global names of a function, those of functions in it, too."""
    inner = (name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each))
    return sorted({*code.co_names, *inner})


def _over() -> Callable[[str], None]:
    """Say each line in the place of the one before."""
    width = 0

    def say(text: str) -> None:
        nonlocal width
        sys.stdout.write("\r" + text.ljust(width))
        sys.stdout.flush()
        width = len(text)

    return say
