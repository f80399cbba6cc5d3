"""What the command does ahead of a kernel: the simulated GPU is built while somebody watches, not while a kernel starts."""

from __future__ import annotations

import os

from across import devices
from across._gpu import building

__all__ = ["ask_for", "build"]


def build() -> str:
    """Build the simulated GPU if it was not; say where it is. Raises NoGpu."""
    return f"the simulated GPU is built: {building.build()}"


def ask_for(count: int) -> str:
    """Have the kernels of this process simulate so many GPUs; say whether they will."""
    try:
        build()
    except building.NoGpu as error:
        return f"across lab: {error}"
    os.environ[devices.GPUS] = str(count)
    return f"across lab: kernels have {count} simulated GPU{'s' * (count > 1)} where TensorFlow finds no real one."
