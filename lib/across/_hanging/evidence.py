"""Evidence of a failure without running it: logs of real runs of four workers, in which what may differ is drawn.

Drawn are who of the workers it is, addresses, times, process numbers and harmless lines of TensorFlow's in between.
`tools/record_hangs.py` recorded the runs, on TensorFlow 2.21; it says what the blanks are.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

HARMLESS = (  # TensorFlow's own, seen in runs that were well
    "I0000 00:00:<{0}.362082> <pid> port.cc:153] oneDNN custom operations are on. You may see slightly different numerical "
    "results due to floating-point round-off errors from different computation orders.",
    "I0000 00:00:<{0}.362365> <pid> cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used.",
    "I0000 00:00:<{0}.410994> <pid> cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use available CPU "
    "instructions in performance-critical operations.",
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "WARNING:tensorflow:AutoGraph could not transform <function augment at 0x7f572198a160> and will run it as-is.",
)


@dataclass(frozen=True)
class Drawn:
    """What somebody has who looks into a failure, and what the failure was."""

    evidence: Mapping[str, str]  # "worker:1" -> what it printed, and how it ended or where it stands
    guilty: str
    cause: str


@functools.cache
def _recorded() -> list[dict[str, Any]]:
    return json.loads(Path(__file__).parent.with_name("hangs_recorded.json").read_text(encoding="utf-8"))


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
