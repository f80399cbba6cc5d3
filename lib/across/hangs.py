"""Why does it hang? Failures of programs on many machines, each made here, on purpose, by real TensorFlow processes.

    hangs.names()                              # which there are
    case = hangs.show("a copied TF_CONFIG")    # some seconds; every process has ended when it returns
    case                                       # symptom, question, cause, mend; how each task ended
    case.logs                                  # what each printed, and where each that hung stood
    case.draw()
    hangs.drawn(rng, "a wrong port").evidence  # the logs of such a case with four workers, recorded: nothing runs

    python -m across.hangs "a copied TF_CONFIG"

They are made on Linux; `drawn` needs nothing: in logs of real runs, recorded by tools/record_hangs.py on TensorFlow 2.21, are
drawn who of the workers it is, addresses, times, process numbers and harmless lines of TensorFlow's in between.
docs/hangs.md has them as a table. Where something is not as on machines of one's own, `simulated` says what.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from across import pictures
from across._hanging import tasks
from across._hanging.failures import FAILURES, Failure
from across._hanging.tasks import End, Run
from across._language import pictured
from across._language.catalogue import marked
from across.clusters import Logs
from across.pictures import Picture, Span

__all__ = ["Case", "Drawn", "End", "causes", "drawn", "names", "running", "show"]

QUIET = 3.0  # seconds without a line, an end or any work: it hangs
SAID = ("symptom", "question", "guilty", "cause", "mend", "simulated")  # of a failure, in this order
HARMLESS = (  # TensorFlow's own, seen in runs that were well
    "I0000 00:00:<{0}.362082> <pid> port.cc:153] oneDNN custom operations are on. You may see slightly different numerical "
    "results due to floating-point round-off errors from different computation orders.",
    "I0000 00:00:<{0}.362365> <pid> cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used.",
    "I0000 00:00:<{0}.410994> <pid> cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use available CPU "
    "instructions in performance-critical operations.",
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "WARNING:tensorflow:AutoGraph could not transform <function augment at 0x7f572198a160> and will run it as-is.",
)


@dataclass(frozen=True, repr=False)
class Case:
    """A failure that was made here: what was seen, and what one says of it."""

    name: str
    tasks: dict[str, End]  # by name, "worker:1"; what each printed, when it ended and how
    failure: Failure  # who is guilty, symptom, question, cause and mend, and what was simulated

    @property
    def logs(self) -> Logs:
        """What each task printed, and for one that hung where each of its Python threads stood."""
        return Logs({name: end.log for name, end in self.tasks.items()})

    def draw(self) -> Picture:
        """Draw the tasks over the seconds: who works, who waits for whom, who has ended; the guilty one is marked."""
        guilty, waits = self.failure.guilty, self.failure.waits
        last, spans = max(end.seconds for end in self.tasks.values()), []
        for name, end in self.tasks.items():
            lane = pictured.said("{0}, guilty", name) if name == guilty else name
            idle = end.how == "hangs" or name in waits
            spans.append(Span(lane, 0.0, end.last if idle else end.seconds, marked("works")))
            if idle:
                spans.append(
                    Span(
                        lane,
                        end.last,
                        end.seconds,
                        pictured.said("waits for {0}", waits[name]) if name in waits else marked("serves"),
                    )
                )
            if end.how != "hangs" and end.seconds < last:
                spans.append(Span(lane, end.seconds, last, pictured.said("ended: {0}", end.how)))
        lanes = [] if guilty in self.tasks else [pictured.said("{0}, guilty: never started", guilty)]
        lanes = [*dict.fromkeys(span.lane for span in spans), *lanes]
        return pictures.timeline(spans, title=self.name, unit=marked("seconds"), lanes=lanes)

    def __repr__(self) -> str:
        told = {name: f"{end.how}, after {end.seconds:.1f} s" for name, end in self.tasks.items()}
        rows = [(head, getattr(self.failure, head)) for head in SAID]
        return "\n".join([self.name, *(f"  {head:12}{text}" for head, text in [*told.items(), *rows] if text)])


def names() -> list[str]:
    """The failures that can be made."""
    return list(FAILURES)


def show(name: str, *, seconds: float = 30.0, quiet: float = QUIET) -> Case:
    """Make a failure; watch until all have ended, or nothing happens for `quiet` seconds, at most `seconds`. KeyError."""
    failure = _failure(name)
    with running(name) as run:
        run.wait(quiet, seconds)
        ends = run.ends()
    return Case(name, ends, failure)


@contextlib.contextmanager
def running(name: str) -> Iterator[Run]:
    """The tasks of a failure while they run, to be looked at from outside. Raises KeyError."""
    with tasks.running(_failure(name).lay) as run:
        yield run


def _failure(name: str) -> Failure:
    if name not in FAILURES:
        raise KeyError(f"no failure {name!r}; there are: {', '.join(FAILURES)}")
    return FAILURES[name]


@dataclass(frozen=True)
class Drawn:
    """What somebody has who looks into a failure, and what the failure was."""

    evidence: Mapping[str, str]  # "worker:1" -> what it printed, and how it ended or where it stands
    guilty: str
    cause: str


@functools.cache
def _recorded() -> list[dict[str, Any]]:
    return json.loads(Path(__file__).with_name("hangs_recorded.json").read_text(encoding="utf-8"))


def causes() -> list[str]:
    """The failures of which there is evidence."""
    return list(dict.fromkeys(each["cause"] for each in _recorded()))


def drawn(rng: np.random.Generator, cause: str) -> Drawn:
    """Evidence of a failure of `causes()`, the same for the same state of `rng`. Raises KeyError.

    Two causes drawn from one state are drawn apart: who is guilty of one says nothing of the other.
    """
    among = [each for each in _recorded() if each["cause"] == cause]
    if not among:
        raise KeyError(f"no evidence of {cause!r}; there is of: {', '.join(causes())}")
    rng = np.random.default_rng([int(rng.integers(1 << 32)), *cause.encode()])
    one = among[rng.integers(len(among))]
    places = [
        0,
        *(int(place) for place in 1 + rng.permutation(len(one["logs"]) - 1)),
    ]  # worker:0 leads, as it was recorded
    port = int(rng.integers(2222, 9999))
    net, hosts = rng.integers(1, 250, 2), rng.permutation(np.arange(2, 250))[: len(places)]
    addresses = [f"10.{net[0]}.{net[1]}.{host}:{port}" for host in hosts]
    wrong = [addresses[0].replace(f":{port}", f":{port + int(rng.choice([-1, 1, 10]))}"), *addresses[1:]]
    fixed = {"cluster": json.dumps({"worker": addresses}), "wrong cluster": json.dumps({"worker": wrong})}
    fixed |= {f"worker:{index}": address for index, address in enumerate(addresses)}
    fixed |= {f"port of worker:{index}": str(port) for index in range(len(places))}
    fixed |= {"wrong": wrong[0], "port of wrong": wrong[0].rpartition(":")[2]}
    began = float(rng.uniform(1.7e9, 1.76e9))  # of the past, or a doctor finds a clock ahead
    logs: dict[str, str] = {}
    for name, log in one["logs"].items():
        moved = re.sub(r'(worker:|task:|"index": )(\d)', lambda seen: f"{seen[1]}{places[int(seen[2])]}", log)
        given = {**fixed, "pid": str(rng.integers(300, 32_000))}
        filled = re.sub(r"<([\w :.]+)>", lambda seen, given=given: _filled(seen[1], given, began), _noisy(moved, rng))
        logs[f"worker:{places[int(name[-1])]}"] = filled
    guilty = f"worker:{places[int(one['guilty'][-1])]}"
    return Drawn({name: logs[name] for name in sorted(logs)}, guilty, cause)


def _noisy(log: str, rng: np.random.Generator) -> str:
    """A log with harmless lines before some that the program itself printed."""
    lines = log.splitlines(keepends=True)
    own = [number for number, line in enumerate(lines) if number and re.match(r"<\d+> ", line)]
    for text in HARMLESS:
        if own and rng.random() < 0.5:
            lines[own[rng.integers(len(own))]] += text.format(int(rng.integers(3))) + "\n"
    return "".join(lines)


def _filled(blank: str, given: Mapping[str, str], began: float) -> str:
    if blank in given:
        return given[blank]
    if re.fullmatch(r"\d+", blank):
        return f"{datetime.fromtimestamp(began + int(blank), UTC):%H:%M:%S}"
    if re.fullmatch(r"\d+\.\d+", blank):
        return f"{began + float(blank):.6f}"
    return f"<{blank}>"  # a lambda's name, in a traceback


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        case = show(asked)
        print(case.logs, case, sep="\n")
    if not sys.argv[1:]:
        print(*names(), sep="\n")
