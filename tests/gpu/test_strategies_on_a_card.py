"""Chapter 11 where there is a card: its strategies on cards, or on four pieces of one. Elsewhere these tests skip."""

from __future__ import annotations

import pytest
from on_cards import cells, evaluated

from across import fresh
from autograder.authoring import build, run
from autograder.model.course import find

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]

CHAPTER = "11_strategies"
FIT = ("linear", "fitted", "in_step", "differs")
EQUAL = "differs(lambda strategy: fitted(strategy, 64, 16), in_step(D), D[0], 1e-4)"
UNEVEN = "differs(lambda strategy: fitted(strategy, 13, 8), in_step(D[:2]), D[0], 1e-4)"
HOMES = "[[placement.short_device(each) for each in weight] for weight in homes(in_step(D), linear)]"
FOUR = ["GPU:0", "GPU:1", "GPU:2", "GPU:3"]


def test_fit_on_cards_or_pieces_of_one_is_that_of_one_device():
    assert fresh.run(evaluated, cells(CHAPTER, *FIT), EQUAL, timeout=300) == []


def test_an_uneven_last_batch_changes_the_weights_there_too():
    assert fresh.run(evaluated, cells(CHAPTER, *FIT), UNEVEN, timeout=300) == ["weights"]


def test_each_weight_has_a_copy_on_every_card():
    found = fresh.run(evaluated, cells(CHAPTER, "linear", "in_step", "homes"), HOMES, timeout=300)
    assert [sorted(each) for each in found] == [FOUR, FOUR]


def test_the_chapter_runs_clean_where_there_are_cards():
    assert run.execute(CHAPTER, build.solved(find(), CHAPTER), find().chapter(CHAPTER).limits).problems == ()
