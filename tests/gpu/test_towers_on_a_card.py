"""Chapter 10 where there is a card: its towers on cards, or on four pieces of one. Elsewhere these tests skip."""

from __future__ import annotations

import pytest
from on_cards import cells, evaluated

from across import fresh
from autograder.authoring import build, run
from autograder.model.course import find

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]

CHAPTER = "10_towers"
FIVE_STEPS = """
def five_steps():
    '''How far from one device, and where a tower's products and the variables were.'''
    sizes = [8, 8, 8, 3]
    whole = [tuple(map(tf.constant, train.some(0, sum(sizes))))]
    ours = build(8, [8, 16], 64)
    alone = copy(ours)
    for model, batches, where in ((ours, cut(sizes), D), (alone, whole, D[:1])):
        optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
        optimizer.build(model.trainable_variables)
        for _ in range(5):
            step(model, optimizer, batches, where)
    seen = placement.trace(tf.function(tower), ours, *cut(sizes)[1], D[1])
    return (
        max(float(np.abs(a - b).max()) for a, b in zip(ours.get_weights(), alone.get_weights(), strict=True)),
        {op.device for op in seen.everything if "Conv2D" in op.type or "MatMul" in op.type},
        {placement.short_device(weight.value.device) for weight in ours.weights},
    )
"""


def test_towers_on_cards_or_pieces_of_one_train_as_one_device():
    source = cells(CHAPTER, "build", "tower", "average_gradients", "step", "copy", "cut") + FIVE_STEPS
    apart, products, variables = fresh.run(evaluated, source, "five_steps()", timeout=300)
    assert products == {"GPU:1"}
    assert variables == {"CPU:0"}
    assert apart < 1e-5  # a card's convolutions add in another order for another batch


def test_the_chapter_runs_clean_where_there_are_cards():
    assert run.execute(CHAPTER, build.solved(find(), CHAPTER), find().chapter(CHAPTER).limits).problems == ()
