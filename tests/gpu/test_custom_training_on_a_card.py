"""Chapter 12 where there is a card: its loop on cards, or on four pieces of one. Elsewhere these tests skip."""

from __future__ import annotations

import pytest
from on_cards import cells, evaluated

from across import fresh
from autograder.authoring import build, run
from autograder.model.course import find

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]

CHAPTER = "12_custom_training"
LOOP = ("mirrored", "build", "in_replica", "step", "some", "epoch", "apart")
EQUAL = "apart(epoch(mirrored(4))[1], epoch(tf.distribute.OneDeviceStrategy(D[0]))[1])"
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
ALL = {"GPU:0", "GPU:1", "GPU:2", "GPU:3"}


def test_the_loop_on_cards_or_pieces_of_one_trains_as_one_device():
    assert fresh.run(evaluated, cells(CHAPTER, *LOOP), EQUAL, timeout=300) < 1e-5


def test_weights_and_products_are_on_every_card():
    assert fresh.run(evaluated, cells(CHAPTER, *LOOP) + PLACED, "placed()", timeout=300) == (ALL, ALL)


def test_the_chapter_runs_clean_where_there_are_cards():
    assert run.execute(CHAPTER, build.solved(find(), CHAPTER), find().chapter(CHAPTER).limits).problems == ()
