"""A scaling study: configurations x repeats, each run in a fresh process, kept in a file so that an interrupted one goes on.

    study = Study("study.jsonl", program, {"1 replica": {"replicas": 1}, "2 replicas": {"replicas": 2}}, repeats=6)
    study.state({"2 replicas": 1.8})               # a prediction, with its time: what is compared is what stood before the runs
    study.run()                                    # what is not in the file yet
    study.speedup("1 replica", "2 replicas")       # 1.74 (1.60 to 1.81, 6 pairs)

`program(**arguments)` returns seconds, or seconds and a number that it saw, such as its loss. A run that fails or hangs is a
run with a message: the study goes on. The repeats are the outer loop; each has an order of its own, such that any two
configurations are about as far apart as any other two. A program that takes a `seed` gets one that the prediction which counts
decides, with the configuration's name and the repeat: what it saw on data of that seed was not seen under another prediction.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import itertools
import json
import math
import numbers
import os
import platform
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from across import fresh
from across._language.catalogue import said
from across._process.sources import digest, sources
from across._system import cores

__all__ = ["Ratio", "Run", "Stated", "Study", "cores", "machine", "seed_of"]

TIMEOUT = 30.0  # seconds of one run, the start of its process included
FAILURES = 160  # characters of what a failed run says
DRAWS = 400  # orders of which the best is taken
DIFFERS = ("another version of the program", "other arguments or settings", "another machine")  # by the parts of a key


@dataclass(frozen=True)
class Run:
    """One run: of which configuration and repeat, and what came of it."""

    name: str
    repeat: int
    seconds: float | None  # what the program returned; None when it failed
    error: str  # empty when it did not
    took: float  # seconds, the process's start included
    at: float  # when it ended, in seconds since 1970
    key: str  # of program, arguments and machine, with a dot between: a run of others is none of this study
    seen: float | None = None  # the number that the program returned beside its seconds


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
    """A prediction. The one that counts is the last one before the first run in the file, or else the first one."""

    values: dict[str, float]
    at: float
    seen: int  # how many runs had ended by then, those of other versions too
    same_program: bool  # whether the program is still the one for which it was stated
    later: tuple[Stated, ...] = ()  # what was stated after the one that counts

    def __str__(self) -> str:
        told = [said("recorded at {0}, {1}", _clock(self.at), _when(self.seen))]
        if not self.same_program:
            told.append(said("for another version of the program"))
        told += [said("changed at {0}, {1}", _clock(each.at), _when(each.seen)) for each in self.later]
        return said("; ").join(told)


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _when(seen: int) -> str:
    if seen == 1:
        return said("after 1 run had been seen")
    return said("after {0} runs had been seen", seen) if seen else said("before the first run")


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
        fresh_process: bool = True,
    ) -> None:
        """`configurations`: name -> keyword arguments, which must be plain values.

        `fresh_process` False: the program starts processes itself, and sees to their end; it is called in this one.
        Raises ValueError for a study of nothing, and TypeError for arguments that cannot be written down.
        """
        if not configurations or repeats < 1:
            raise ValueError("a study needs a configuration and a repeat")
        self.path = Path(path)
        self.program = program
        self.configurations = {name: dict(arguments) for name, arguments in configurations.items()}
        self.repeats = repeats
        self.timeout = timeout
        self.fresh_process = fresh_process
        self.seeded = "seed" in inspect.signature(program).parameters
        self.program_digest = digest(*sources(program))
        self.keys = {name: self._key(arguments) for name, arguments in self.configurations.items()}

    def runs(self) -> list[Run]:
        """The runs of this study that are in the file, in the order in which they ended; one for each of its places."""
        found: dict[tuple[str, int], Run] = {}
        for run in self._runs():
            if self.keys.get(run.name) == run.key and 0 <= run.repeat < self.repeats:
                found.setdefault((run.name, run.repeat), run)
        return list(found.values())

    def others(self) -> dict[str, int]:
        """How many runs in the file are none of this study, by the reason; repeats beyond its own are not counted."""
        return dict(Counter(why for run in self._runs() if (why := self._why_not(run))))

    def _why_not(self, run: Run) -> str:
        mine = self.keys.get(run.name, next(iter(self.keys.values())))
        pairs = zip(DIFFERS, mine.split("."), str(run.key).split("."), strict=False)
        differs = [reason for reason, one, other in pairs if one != other]
        if differs and differs[0] == DIFFERS[0]:
            return DIFFERS[0]
        return "another configuration" if run.name not in self.keys else next(iter(differs), "")

    def seconds(self) -> dict[str, list[float]]:
        """Of each configuration the seconds of each repeat; NaN where a run failed or is still to come."""
        table = {name: [math.nan] * self.repeats for name in self.configurations}
        for run in self.runs():
            if run.seconds is not None:
                table[run.name][run.repeat] = run.seconds
        return table

    def left(self) -> list[tuple[str, int]]:
        """The runs to come, in their order; see `orders`."""
        have = {(run.name, run.repeat) for run in self.runs()}
        names = list(self.configurations)
        drawn = orders(len(names), self.repeats)
        order = [(names[number], repeat) for repeat, each in enumerate(drawn) for number in each]
        return [place for place in order if place not in have]

    def run(self) -> Study:
        """Run what is not in the file yet; a line says how far it is. Interrupted, it goes on at the next call.

        Raises TypeError for a program that cannot be sent to another process, OSError where the file cannot be written.
        """
        line, left = _over(), self.left()
        if left:
            fresh.server_path(time.monotonic() + fresh.TIMEOUT, cold=False)  # its start is no run's
        total = len(self.configurations) * self.repeats
        for number, (name, repeat) in enumerate(left):
            line(f"{total - len(left) + number} of {total} runs, about {self.eta():.0f} s left; now: {name}")
            self._append(asdict(self._one(name, repeat)))
        failed = [run for run in self.runs() if run.error]
        done = total - len(self.left())
        told = [f"{done} of {total} runs"]
        if failed:
            told.append(f"{len(failed)} failed, the first: {failed[0].error}")
        told += [f"not counted: {count} of {why}" for why, count in self.others().items()]
        line("; ".join(told))
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
        """Write a prediction down, with the time and the program's digest; the same one again changes nothing.

        Returns what counts.
        """
        values = {name: float(value) for name, value in prediction.items()}
        if next((line["prediction"] for line, _ in reversed(self._predictions())), None) != values:
            self._append({"prediction": values, "at": time.time(), "program": self.program_digest})
        stated = self.stated()
        assert stated is not None
        return stated

    def stated(self) -> Stated | None:
        """The prediction that counts, and what was stated after it. It counts for all that the file holds."""
        lines = self._predictions()
        if not lines:
            return None
        first = max(sum(seen == 0 for _, seen in lines) - 1, 0)  # the last one before any run, or else the first one
        counts, *later = (
            Stated(line["prediction"], line["at"], seen, line.get("program") == self.program_digest)
            for line, seen in lines[first:]
        )
        return replace(counts, later=tuple(later))

    def _key(self, arguments: Mapping[str, Any]) -> str:
        """What a run is of: a part for each of DIFFERS. Raises TypeError for arguments that JSON does not know."""
        settings = json.dumps([arguments, None, {}], sort_keys=True)  # so that files of version 1.0 go on
        return ".".join([self.program_digest, digest(settings), digest(machine())])

    def _one(self, name: str, repeat: int) -> Run:
        arguments = dict(self.configurations[name])
        if self.seeded:
            stated = self.stated()
            arguments["seed"] = seed_of(stated.values if stated else {}, name, repeat)
        if self.fresh_process:
            outcome = fresh.call(self.program, timeout=self.timeout, **arguments)
        else:
            outcome = _called(self.program, arguments)
        value, seen = outcome.value, None
        if isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[1], numbers.Real):
            value, seen = value[0], float(value[1])
        seconds, error = None, ""
        if outcome.error is not None:
            text = str(outcome.error).strip().splitlines() or [""]
            error = f"{type(outcome.error).__name__}: {text[0]}"
        elif not _positive(value):
            error = f"it returned {value!r}; expected seconds, a number above 0"
        else:
            seconds = float(value)  # pyright: ignore[reportArgumentType]
        return Run(name, repeat, seconds, error[:FAILURES], outcome.seconds, time.time(), self.keys[name], seen)

    def _predictions(self) -> list[tuple[dict[str, Any], int]]:
        """Each prediction in the file, and how many runs stand before it there."""
        found, seen = list[tuple[dict[str, Any], int]](), 0
        for line in self._lines():
            if isinstance(line.get("prediction"), dict):
                found.append((line, seen))
            elif _run(line):
                seen += 1
        return found

    def _runs(self) -> Iterator[Run]:
        """Every run in the file, of whatever study."""
        return filter(None, map(_run, self._lines()))

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


@cache
def orders(count: int, repeats: int) -> tuple[tuple[int, ...], ...]:
    """An order of `count` configurations for each repeat: drawn, and the same for every call.

    Of many draws the one is taken after which, over all repeats so far, any two are most nearly as far apart as any
    other two, and none is early more often than another: the sum of the squares is least where all are equal.
    """
    draw, found = random.Random(0), list[tuple[int, ...]]()
    pairs = list(itertools.combinations(range(count), 2))
    apart, early = dict.fromkeys(pairs, 0), dict.fromkeys(range(count), 0)

    def uneven(order: tuple[int, ...]) -> int:
        place = {number: at for at, number in enumerate(order)}
        distances = sum((so_far + abs(place[a] - place[b])) ** 2 for (a, b), so_far in apart.items())
        return 2 * distances + sum((so_far + place[number]) ** 2 for number, so_far in early.items())

    for _ in range(repeats):
        best = min((tuple(draw.sample(range(count), count)) for _ in range(DRAWS)), key=uneven)
        apart = {(a, b): so_far + abs(best.index(a) - best.index(b)) for (a, b), so_far in apart.items()}
        early = {number: so_far + best.index(number) for number, so_far in early.items()}
        found.append(best)
    return tuple(found)


def machine() -> str:
    """The machine in a few words: runs of another one are not mixed with its own."""
    version = importlib.metadata.version("tensorflow")
    return f"{cores()} cores, {platform.system()} {platform.machine()}, TensorFlow {version}"


def seed_of(prediction: Mapping[str, float], name: str, repeat: int) -> int:
    """The seed of a run, 32 bits: of the prediction that counts, the configuration's name and the repeat, from 0."""
    stated = json.dumps([{key: float(value) for key, value in prediction.items()}, name, repeat], sort_keys=True)
    return int.from_bytes(hashlib.sha256(stated.encode()).digest()[:4], "big")


def _called(program: Callable[..., Any], arguments: Mapping[str, Any]) -> fresh.Outcome[Any]:
    """What comes of a program that starts processes itself."""
    start = time.monotonic()
    try:
        value, error = program(**arguments), None
    except Exception as raised:  # a run that fails is a run
        value, error = None, raised
    return fresh.Outcome(value, error, "", "", time.monotonic() - start)


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


def _over() -> Callable[[str], None]:
    """Say each line in the place of the one before."""
    width = 0

    def say(text: str) -> None:
        nonlocal width
        sys.stdout.write("\r" + text.ljust(width))
        sys.stdout.flush()
        width = len(text)

    return say
