"""Chapters 10 to 12 where there is a card: they train on cards, or on four pieces of one. Elsewhere these tests skip."""

from __future__ import annotations

import pytest
from on_cards import cells, evaluated

from across import fresh

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]

TOWERS, STRATEGIES, LOOPS = "10_towers", "11_strategies", "12_custom_training"
ALL = {"GPU:0", "GPU:1", "GPU:2", "GPU:3"}
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
FIT = ("linear", "fitted", "in_step", "differs")
FITS_EQUALLY = "differs(lambda strategy: fitted(strategy, 64, 16), in_step(D), D[0], 1e-4)"
UNEVEN = "differs(lambda strategy: fitted(strategy, 13, 8), in_step(D[:2]), D[0], 1e-4)"
LOOP = ("mirrored", "build", "in_replica", "step", "some", "epoch", "apart")
LOOPS_EQUALLY = "apart(epoch(mirrored(4))[1], epoch(tf.distribute.OneDeviceStrategy(D[0]))[1])"
PLACED = """
def placed():
    '''Where the copies of a weight are, and on which devices a step's products run.'''
    strategy = mirrored(4)
    with strategy.scope():
        model, optimizer = build()
    (batch,) = strategy.experimental_distribute_dataset(some(8, 8))
    seen = placement.trace(tf.function(lambda batch: step(strategy, model, optimizer, batch)), batch)
    copies = strategy.experimental_local_results(model.weights[0].value)
    return (
        {placement.short_device(copy.device) for copy in copies},
        {op.device for op in seen.everything if "MatMul" in op.type},
    )
"""


def test_towers_on_cards_or_pieces_of_one_train_as_one_device():
    source = cells(TOWERS, "build", "tower", "average_gradients", "step", "copy", "cut") + FIVE_STEPS
    apart, products, variables = fresh.run(evaluated, source, "five_steps()", timeout=300)
    assert products == {"GPU:1"}
    assert variables == {"CPU:0"}
    assert apart < 1e-5  # a card's convolutions add in another order for another batch


def test_fit_on_cards_or_pieces_of_one_is_that_of_one_device():
    assert fresh.run(evaluated, cells(STRATEGIES, *FIT), FITS_EQUALLY, timeout=300) == []


def test_an_uneven_last_batch_changes_the_weights_there_too():
    assert fresh.run(evaluated, cells(STRATEGIES, *FIT), UNEVEN, timeout=300) == ["weights"]


def test_the_loop_on_cards_or_pieces_of_one_trains_as_one_device():
    assert fresh.run(evaluated, cells(LOOPS, *LOOP), LOOPS_EQUALLY, timeout=300) < 1e-5


def test_weights_and_products_are_on_every_card():
    assert fresh.run(evaluated, cells(LOOPS, *LOOP) + PLACED, "placed()", timeout=300) == (ALL, ALL)
