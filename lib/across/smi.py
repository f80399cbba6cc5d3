"""The table that `nvidia-smi` prints: read from the driver where there is one, otherwise one that was recorded elsewhere.

shown = smi.read()
shown.live, shown.text
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

# Printed on 2024-11-14 by a machine with two H100 NVL; from github.com/thamada/nvidia-smi, nvsim/H100NVLx2_smi.py, Apache-2.0.
RECORDED = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.14              Driver Version: 550.54.14      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 NVL                On  |   00000000:AD:00.0 Off |                    0 |
| N/A   32C    P0             61W /  310W |       0MiB /  95830MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 NVL                On  |   00000000:AE:00.0 Off |                    0 |
| N/A   31C    P0             62W /  310W |       0MiB /  95830MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""
OWN = "This machine's own table:"
WHERE = "No nvidia-smi here. RECORDED: two H100, 2024-11-14, github.com/thamada/nvidia-smi (Apache-2.0)."


@dataclass(frozen=True)
class Shown:
    """What `nvidia-smi` printed here, or what was recorded."""

    text: str
    live: bool  # False: recorded

    def __repr__(self) -> str:
        return f"{OWN if self.live else WHERE}\n{self.text}"


def read() -> Shown:
    """Return this machine's table, or the recorded one where `nvidia-smi` is missing or fails."""
    printed = _printed()
    return Shown(RECORDED if printed is None else printed, live=printed is not None)


def query(*fields: str) -> list[list[str]]:
    """One list of `fields` (as in `nvidia-smi --help-query-gpu`) a card; empty where there is no `nvidia-smi`."""
    lines = (_printed(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits") or "").splitlines()
    rows = [[part.strip() for part in line.split(",")] for line in lines]
    return [row for row in rows if len(row) == len(fields)]


def _printed(*options: str) -> str | None:
    try:
        done = subprocess.run(["nvidia-smi", *options], capture_output=True, text=True, timeout=20.0, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
