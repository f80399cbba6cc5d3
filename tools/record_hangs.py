"""Record what `across.hangs` draws its evidence from: logs of real runs of four workers, with blanks for what is drawn.

    uv run python tools/record_hangs.py            # writes lib/across/hangs_recorded.json

Blanks are <worker:1> for an address, <0.25> for seconds since the start, <pid>, <cluster> for the addresses of a TF_CONFIG.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from across import fresh
from across._hanging import collectives, tasks
from across._hanging.tasks import End, Run

COUNT = 4
CASES: list[tuple[str, Callable, list[int]]] = [  # cause, how it is laid out, who of the workers is odd
    ("a copied TF_CONFIG", collectives.copied, [3]),
    ("a wrong port", collectives.wrong_port, [3]),
    ("a taken port", collectives.taken_port, [3]),
    ("a full disk at a checkpoint", collectives.full_disk, [0, 1]),
    ("NaN from one replica", collectives.nan, [0, 1]),
    ("an uneven last batch", collectives.uneven, [0, 1]),
]
LONGEST = 240  # characters of a line
LEFT_OUT = re.compile(r"Additional GRPC error|:UNKNOWN:Error received|\s*$|\s+\^+$|RPC: ")


def blanked(log: str, run: Run, day: float, began: float) -> str:
    """A log with blanks, without what repeats."""
    log = re.sub(
        r'TF_CONFIG: \{"cluster": (.*?), "task"',
        lambda seen: f'TF_CONFIG: {{"cluster": {_cluster(seen[1], run)}, "task"',
        log,
    )
    for index, address in enumerate(run.spec["worker"]):
        log = log.replace(address, f"<worker:{index}>").replace(address.partition(":")[2], f"<port of worker:{index}>")
    log = re.sub(r"process \d+;", "process <pid>;", log)
    log = log.replace(run.folder, "/data")
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


def _cluster(text: str, run: Run) -> str:
    return "<cluster>" if json.loads(text) == run.spec else "<wrong cluster>"


def _seconds(clock: str, day: float, began: float) -> float:
    hours, minutes, seconds = map(int, clock.split(":"))
    return max(0.0, day + 3600 * hours + 60 * minutes + seconds - began)


def said(end: End) -> str:
    """The last line, as whoever started it has it."""
    code = {"returned": 0}.get(end.how, 1)
    return f"(still running after {end.seconds:.0f} s)\n" if end.how == "hangs" else f"(ended with exit code {code})\n"


def main() -> None:
    """Write the file."""
    recorded = []
    fresh.server_path(
        time.monotonic() + tasks.STARTS, cold=False, loud=True
    )  # seconds, before the clock of the first counts
    for cause, lay, odds in CASES:
        for odd in odds:
            how = functools.partial(lay, count=COUNT, **({"odd": odd} if len(odds) > 1 else {}))
            now = datetime.now()
            day = datetime(now.year, now.month, now.day).timestamp()
            began = time.time()
            with tasks.running(how) as run:
                run.wait(3.0, 30.0)
                logs = {name: blanked(end.log, run, day, began) + said(end) for name, end in run.ends().items()}
            recorded.append({"cause": cause, "guilty": f"worker:{odd}", "logs": logs})
            print(cause, odd, {name: len(text) for name, text in logs.items()})
    path = Path(__file__).parent.parent / "lib/across/hangs_recorded.json"
    path.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
