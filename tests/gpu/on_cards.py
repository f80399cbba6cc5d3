"""What a chapter's program does where there are four devices: cards, or pieces of one; logical CPUs try the test itself."""

from __future__ import annotations

import re
from typing import Any

from autograder.authoring import build
from autograder.model.course import find

PIECE = 2048  # MiB of a card that has to be several
COUNT = 4


def cells(chapter: str, *names: str) -> str:
    """The cells of a chapter, as its author solves it, that define the functions `names`."""
    needed = re.compile(rf"^def ({'|'.join(names)})\(", re.MULTILINE)
    every = [cell.source for cell in build.solved(find(), chapter).cells if cell.cell_type == "code"]
    return "\n\n".join(cell for cell in every if needed.search(cell))


def evaluated(source: str, expression: str, kind: str = "GPU") -> Any:
    """Start TensorFlow with four devices of `kind`, their names in `D`, run `source`, and evaluate `expression`.

    For a fresh process. A card that has to be several is cut into pieces. Products are not rounded to TF32: it keeps 10
    bits of a factor. Raises what the source raises.
    """
    import itertools

    import numpy as np
    import tensorflow as tf

    from across import devices, digits, placement

    physical = tf.config.list_physical_devices(kind)
    if kind == "CPU":
        devices.simulate(COUNT)
    elif len(physical) < COUNT:
        pieces = [tf.config.LogicalDeviceConfiguration(memory_limit=PIECE)] * COUNT
        tf.config.set_logical_device_configuration(physical[0], pieces)
    tf.config.experimental.enable_tensor_float_32_execution(False)
    train, test = digits.load()
    names: dict[str, Any] = {"tf": tf, "np": np, "itertools": itertools, "placement": placement, "CPU": "/CPU:0"}
    names |= {"D": [f"/{kind}:{index}" for index in range(COUNT)], "train": train, "test": test}
    exec(source, names)
    return eval(expression, names)
