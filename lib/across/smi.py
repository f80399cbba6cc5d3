"""The table that `nvidia-smi` prints: read from the driver where there is one, otherwise an invented sample.

    shown = smi.read()
    shown.live, shown.text

The sample is written for this course in the format of drivers 550 to 590; no machine printed it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

WIDE = 89  # characters between the outer bars
RULE = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+"
NAME = 27  # longer names are cut off: the table is for eyes


@dataclass(frozen=True)
class Card:
    """One row of the table; memory in MiB."""

    name: str
    used: int
    total: int
    utilisation: int = 0  # per cent
    watts: int = 60
    cap: int = 700
    celsius: int = 33


@dataclass(frozen=True)
class Program:
    """A process that holds memory of a card; memory in MiB."""

    card: int
    pid: int
    name: str
    used: int


@dataclass(frozen=True)
class Shown:
    """What `nvidia-smi` printed here, or the sample."""

    text: str
    live: bool  # False: the sample

    def __repr__(self) -> str:
        head = "This machine's own table:" if self.live else "No nvidia-smi here: an INVENTED sample, of no machine."
        return f"{head}\n{self.text}"


def read(timeout: float = 20.0) -> Shown:
    """Return this machine's table, or the sample where `nvidia-smi` is missing or fails."""
    try:
        done = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=timeout, check=True)
    except (OSError, subprocess.SubprocessError):
        return Shown(sample(), live=False)
    return Shown(done.stdout, live=True)


def query(*fields: str, timeout: float = 20.0) -> list[list[str]]:
    """One list of `fields` (as in `nvidia-smi --help-query-gpu`) a card; empty where there is no `nvidia-smi`."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[part.strip() for part in line.split(",")] for line in lines]
    return [row for row in rows if len(row) == len(fields)]


def sample() -> str:
    """An invented table: two cards, one of them in use."""
    cards = [Card("NVIDIA L4", 21358, 23034, 97, 71, 72, 64), Card("NVIDIA H100 80GB HBM3", 4, 81559, 0, 69, 700, 31)]
    return table(cards, [Program(0, 4711, "python3", 21350)], driver="570.86.15", cuda="12.8")


def table(cards: Sequence[Card], programs: Sequence[Program] = (), *, driver: str, cuda: str) -> str:
    """Lay out `cards` and the `programs` on them as `nvidia-smi` does."""
    heads = (
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
    )
    version = f" NVIDIA-SMI {driver:<23}Driver Version: {driver:<15}CUDA Version: {cuda}"
    double = "|" + RULE[1:-1].replace("-", "=") + "|"
    lines = ["+" + "-" * WIDE + "+", f"|{version:<{WIDE}}|", RULE, *heads, double]
    for i, card in enumerate(cards):
        lines += [*_rows(i, card), RULE]
    lines += [" " * (WIDE + 2), "+" + "-" * WIDE + "+"]
    lines += [f"|{text:<{WIDE}}|" for text in _processes(programs)]
    return "\n".join([*lines, "+" + "-" * WIDE + "+"]) + "\n"


def _rows(i: int, card: Card) -> list[str]:
    name = card.name if len(card.name) <= NAME else card.name[: NAME - 4] + " ..."
    memory = f"{card.used}MiB / {card.total:>6}MiB"
    power = f"{card.watts}W / {card.cap:>4}W"
    cells = (
        (f" {i:>3}  {name:<31}On  ", f"   00000000:{0x1B + 16 * i:02X}:00.0 Off ", f"{0:>21} "),
        (f" N/A {card.celsius:>3}C    P0    {power:>21} ", f"{memory:>23} ", f"{card.utilisation:>7}%      Default "),
        ("", "", f"{'Disabled':>21} "),
    )
    return [f"|{left:<41}|{middle:<24}|{right:<22}|" for left, middle, right in cells]


def _processes(programs: Sequence[Program]) -> list[str]:
    lines = [
        " Processes:",
        "  GPU   GI   CI              PID   Type   Process name                        GPU Memory",
        "        ID   ID                                                               Usage",
        "=" * WIDE,
    ]
    for program in programs:
        left = f" {program.card:>4}   N/A  N/A {program.pid:>16}      C   {program.name}"
        lines.append(f"{left:<77}{str(program.used) + 'MiB':>11}")
    return lines if programs else [*lines, "  No running processes found"]
