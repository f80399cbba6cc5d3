"""Record what `across.hangs` draws its evidence from: logs of real runs of four workers, with blanks for what is drawn.

    uv run python tools/record_hangs.py            # writes lib/across/hangs_recorded.json

Blanks are <worker:1> for an address, <0.25> for seconds since the start, <pid>, <cluster> for the addresses of a TF_CONFIG;
<wrong cluster> for those that one alone was told, <wrong> for the address in it that no other one has.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from across import fresh
from across._hanging import collectives, tasks
from across._hanging.tasks import End

COUNT = 4
CASES: list[tuple[str, Callable, list[int]]] = [  # cause, how it is laid out, who of the workers is odd
    ("a copied TF_CONFIG", collectives.copied, [3, 0]),
    ("a wrong port", collectives.wrong_port, [3, 0]),
    ("a taken port", collectives.taken_port, [3]),
    ("a full disk at a checkpoint", collectives.full_disk, [0, 1]),
    ("NaN from one replica", collectives.nan, [0, 1]),
    ("an uneven last batch", collectives.uneven, [0, 1]),
]
CLUSTER = re.compile(r'(?<=TF_CONFIG: \{"cluster": ).*?(?=, "task")')
LONGEST = 240  # characters of a line
LEFT_OUT = re.compile(r"Additional GRPC error|:UNKNOWN:Error received|\s*$|\s+\^+$|RPC: ")


def addresses(logs: Iterable[str]) -> dict[str, str]:
    """The addresses that TF_CONFIGs tell -> what each is called: by most of them, or "wrong"."""
    told = [CLUSTER.findall(log)[0] for log in logs]
    right = Counter(told).most_common(1)[0][0]
    called = {address: f"worker:{index}" for index, address in enumerate(json.loads(right)["worker"])}
    return called | {
        address: "wrong" for text in told for address in json.loads(text)["worker"] if address not in called
    }


def blanked(log: str, called: Mapping[str, str], folder: str, day: float, began: float) -> str:
    """A log with blanks, without what repeats."""
    right = {address for address, name in called.items() if name != "wrong"}
    log = CLUSTER.sub(
        lambda seen: "<cluster>" if set(json.loads(seen[0])["worker"]) <= right else "<wrong cluster>", log
    )
    for address, name in called.items():
        log = log.replace(address, f"<{name}>").replace(address.partition(":")[2], f"<port of {name}>")
    log = re.sub(r"process \d+;", "process <pid>;", log)
    log = log.replace(folder, "/data")
    log = re.sub(r"/data/tmp\w+", "/data/checkpoints", log)
    log = re.sub(r'File "[^"]*/site-packages/', 'File "/opt/venv/lib/python3.11/site-packages/', log)
    log = re.sub(r'File "[^"]*/across/_hanging/\w+\.py"', 'File "/app/train.py"', log)
    log = re.sub(
        r"^([IEW]0000 00:00:)(\d+\.\d+) +\d+",
        lambda seen: f"{seen[1]}<{float(seen[2]) - began:.3f}> <pid>",
        log,
        flags=re.M,
    )
    log = re.sub(
        r"^(\d\d:\d\d:\d\d)(?= worker)", lambda seen: f"<{_seconds(seen[1], day, began):.0f}>", log, flags=re.M
    )
    return "".join(f"{line[:LONGEST]}\n" for line in log.splitlines() if not LEFT_OUT.match(line))


def _seconds(clock: str, day: float, began: float) -> float:
    hours, minutes, seconds = map(int, clock.split(":"))
    return max(0.0, day + 3600 * hours + 60 * minutes + seconds - began)


def said(end: End) -> str:
    """The last line, as whoever started it has it."""
    code = {"returned": 0}.get(end.how, 1)
    return f"(still running after {end.seconds:.0f} s)\n" if end.how == "hangs" else f"(ended with exit code {code})\n"


def recorded(cause: str, lay: Callable, odd: int) -> dict[str, Any]:
    """One run."""
    now = datetime.now()
    day, began = datetime(now.year, now.month, now.day).timestamp(), time.time()
    with tasks.running(functools.partial(lay, count=COUNT, odd=odd)) as run:
        run.wait(3.0, 30.0)
        ends = run.ends()
    called = addresses(end.log for end in ends.values())
    logs = {name: blanked(end.log, called, run.folder, day, began) + said(end) for name, end in ends.items()}
    return {"cause": cause, "guilty": f"worker:{odd}", "logs": logs}


def main() -> None:
    """Write the file."""
    fresh.server_path(
        time.monotonic() + tasks.STARTS, cold=False, loud=True
    )  # seconds, before the clock of the first counts
    found = [recorded(cause, lay, odd) for cause, lay, odds in CASES for odd in odds]
    path = Path(__file__).parent.parent / "lib/across/hangs_recorded.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
