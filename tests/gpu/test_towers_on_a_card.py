"""Chapter 10 where there is a card: its towers on cards, or on four pieces of one. Elsewhere these tests skip."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any

import pytest

from across import digits, fresh, placement
from autograder.authoring import build, run
from autograder.model.course import find

pytestmark = pytest.mark.gpu

CHAPTER = "10_towers"
NEEDED = re.compile(r"^def (build|tower|average_gradients|step)\(", re.MULTILINE)
SIZES = [8, 8, 8, 3]


def cards() -> int:
    import tensorflow as tf

    return len(tf.config.list_physical_devices("GPU"))


@pytest.fixture(scope="module", autouse=True)
def _card():
    if not fresh.run(cards, timeout=300):
        pytest.skip("TensorFlow sees no GPU on this machine: not shown here what only a card shows")


@dataclass(frozen=True)
class Ran:
    """Five steps of towers: how far from one device, and where a tower's products and the variables were."""

    apart: float
    products: set[str]
    variables: set[str]


def solution() -> str:
    """The chapter's cells that define a network, a tower, an average and a step, as its author solves them."""
    cells = [cell.source for cell in build.solved(find(), CHAPTER).cells if cell.cell_type == "code"]
    return "\n\n".join(cell for cell in cells if NEEDED.search(cell))


def five_steps(source: str, kind: str) -> Ran:
    """Train with the solution on four devices of `kind`; a card that has to be several is cut into pieces of 2 GB."""
    import numpy as np
    import tensorflow as tf

    physical = tf.config.list_physical_devices("GPU")
    if kind == "GPU" and len(physical) < len(SIZES):
        pieces = [tf.config.LogicalDeviceConfiguration(memory_limit=2048)] * len(SIZES)
        tf.config.set_logical_device_configuration(physical[0], pieces)
    tf.config.experimental.enable_tensor_float_32_execution(False)  # TF32 keeps 10 bits of a factor
    names: dict[str, Any] = {"tf": tf, "np": np, "CPU": "/CPU:0"}
    exec(source, names)
    devices = [f"/{kind}:{index}" for index in range(len(SIZES))]
    train, ends = digits.load()[0], np.cumsum([0, *SIZES])
    given = [tuple(map(tf.constant, train.some(a, b))) for a, b in itertools.pairwise(ends)]
    whole = [tuple(map(tf.constant, train.some(0, ends[-1])))]
    ours, alone = (names["build"](8, [8, 16], 64) for _ in range(2))
    alone.set_weights(ours.get_weights())
    for model, batches, where in ((ours, given, devices), (alone, whole, devices[:1])):
        optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
        optimizer.build(model.trainable_variables)
        for _ in range(5):
            names["step"](model, optimizer, batches, where)
    seen = placement.trace(tf.function(names["tower"]), ours, *given[1], devices[1])
    return Ran(
        max(float(np.abs(a - b).max()) for a, b in zip(ours.get_weights(), alone.get_weights(), strict=True)),
        {op.device for op in seen.everything if "Conv2D" in op.type or "MatMul" in op.type},
        {placement.short_device(weight.value.device) for weight in ours.weights},
    )


def test_towers_on_cards_or_pieces_of_one_train_as_one_device():
    ran = fresh.run(five_steps, solution(), "GPU", timeout=300)
    assert ran.products == {"GPU:1"}
    assert ran.variables == {"CPU:0"}
    assert ran.apart < 1e-5  # a card's convolutions add in another order for another batch


def test_the_chapter_runs_clean_where_there_are_cards():
    assert run.execute(CHAPTER, build.solved(find(), CHAPTER), find().chapter(CHAPTER).limits).problems == ()
