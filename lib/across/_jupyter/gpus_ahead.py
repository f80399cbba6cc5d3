"""What the command does ahead of a kernel: the simulated GPU is built while somebody watches, not while a kernel starts."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path

from across import devices
from across._gpu import building
from across._language.catalogue import said

__all__ = ["ask_for", "build", "build_for"]

WANTED = re.compile(r"\bdevices\.gpus(_or_cpus)?\(")


def build() -> str:
    """Build the simulated GPU if it was not; say where it is. Raises NoGpu."""
    return f"the simulated GPU is built: {building.build()}"


def build_for(notebook: Path) -> None:
    """Build the simulated GPU if a notebook asks for GPUs: no cell's time is spent on it. A cell says why there is none."""
    if WANTED.search(notebook.read_text(encoding="utf-8")) and not Path("/dev/nvidia0").exists():
        if building.kept() is None and not building.problem():
            print(said("Building the simulated GPU, once, about 20 s ..."), file=sys.stderr)
        with contextlib.suppress(building.NoGpu):
            build()


def ask_for(count: int) -> str:
    """Have the kernels of this process simulate so many GPUs; say whether they will."""
    try:
        build()
    except building.NoGpu as error:
        return f"across lab: {error}"
    os.environ[devices.GPUS] = str(count)
    found = (
        said("kernels have {0} simulated GPUs where TensorFlow finds no real one.", count)
        if count > 1
        else said("kernels have 1 simulated GPU where TensorFlow finds no real one.")
    )
    return f"across lab: {found}"
