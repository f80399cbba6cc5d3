"""A cell of the support table is what happened: compared with one device, and ended when it hangs."""

from __future__ import annotations

import json
import math
import time

import pytest
from processes import forked

from across import fresh, strategies
from across._process import strategy_cell
from across._process.watched import watched


def sleeping(*_: object) -> strategy_cell.Trained:
    time.sleep(60)
    raise AssertionError("nobody ended it")


def working(seconds: float) -> str:
    until = time.process_time() + seconds
    while time.process_time() < until:
        math.sqrt(2)
    return "done"


def raising(*_: object) -> strategy_cell.Trained:
    raise ValueError("of two\n  lines")


def test_the_shipped_table_has_every_cell_and_says_when_and_with_what():
    found = strategies.recorded()
    assert {(each.strategy, each.way) for each in found.cells} == {
        (s, w) for s in strategies.STRATEGIES for w in strategies.WAYS
    }
    for each in found.cells:
        assert each.outcome == strategies.SAME or each.says, each
        assert each.versions.startswith("TensorFlow 2.")
        assert each.date in found.note()
        assert each.machine in found.note()
    assert found["CentralStorage", "Keras fit"].outcome == "another loss"
    assert "tf.Tensor" not in found._repr_html_().split("<p>")[1]


@forked
@pytest.mark.parametrize(
    ("strategy", "way", "outcome", "says"),
    [
        ("OneDevice", "own loop", "as one device", ""),
        ("Mirrored", "own loop", "as one device", ""),
        ("CentralStorage", "Keras fit", "another loss", "the weights are right"),
        ("CentralStorage", "Keras 2 fit", "as one device", ""),
        ("TPU", "own loop", "fails", "TPU"),
        ("OneDevice", "Estimator", "fails", "has no attribute 'estimator'"),
    ],
)
def test_a_cell_is_what_happened(strategy, way, outcome, says):
    found = strategies.cell(strategy, way)
    assert found.outcome == outcome, found
    assert says in found.says


@forked
@pytest.mark.parametrize("strategy", ["MultiWorkerMirrored", "ParameterServer"])
def test_servers_and_workers_end_with_their_cell(strategy):
    assert strategies.cell(strategy, "own loop").outcome == strategies.SAME


@forked
@pytest.mark.parametrize("strategy", ["MultiWorkerMirrored", "ParameterServer"])
def test_keras_2_fits_where_keras_3_fails(strategy):
    assert strategies.cell(strategy, "Keras 2 fit").outcome == strategies.SAME
    assert strategies.recorded()[strategy, "Keras fit"].outcome == "fails"


@forked
def test_what_hangs_is_ended_and_tried_again(monkeypatch):
    tried = []
    once = strategies._ran
    monkeypatch.setattr(strategies, "QUIET", 0.5)
    monkeypatch.setattr(strategies, "_ran", lambda *place: (tried.append(place), once(*place))[1])
    monkeypatch.setattr(strategy_cell, "trained", sleeping)
    found = strategies.cell("OneDevice", "own loop")
    assert (found.outcome, len(tried)) == ("hung", strategies.TRIES)


@forked
def test_what_works_is_not_taken_for_hung():
    assert fresh.run(watched, 0.75, working, 3.0, timeout=120) == "done"


@forked
def test_a_failure_shows_its_own_message(monkeypatch):
    monkeypatch.setattr(strategy_cell, "trained", raising)
    assert strategies.cell("OneDevice", "own loop").says == "ValueError: of two lines"


def test_weights_are_compared_and_losses_too():
    weights, loss = strategy_cell.alone()
    assert strategies._compared(weights, loss) == (strategies.SAME, "")
    assert strategies._compared(weights, loss + 0.01)[0] == "another loss"
    assert strategies._compared([*weights[:-1], weights[-1] - 0.01], loss)[0] == "other weights"
    assert strategies._compared([float("nan"), *weights[1:]], loss)[0] == "other weights"
    assert strategies._compared([*weights[:-1], float("nan")], loss)[0] == "other weights"
    assert strategies._compared(weights, float("nan"))[0] == "another loss"


def test_a_cell_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="a strategy is one of"):
        strategies.cell("Central", "Keras fit")
    with pytest.raises(KeyError):
        strategies.recorded()["TPU", "fit"]


def test_a_record_is_plain_json_without_a_machines_path():
    text = strategies._RECORDED.read_text(encoding="utf-8")
    assert len(json.loads(text)) == len(strategies.recorded().cells)
    assert "/home" not in text
    assert "site-packages" not in text
