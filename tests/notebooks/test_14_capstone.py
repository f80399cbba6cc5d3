"""Chapter 14: its answers, the library's study and the checks share one rule, and what its prose claims is so."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from across import study
from across.study import Run, Study
from autograder.authoring import build
from autograder.checks import scaling_truth
from autograder.model.course import find

NETWORK = {"cores": 16, "size": 100e6, "rate": 50e9, "latency": 20e-6, "fixed": 0.001, "example": 0.02 / 6.4}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """The reference's functions that need no TensorFlow."""
    scope: dict[str, Any] = {"np": np, "math": math}
    for name, source in build.solution_source(find(), "14_capstone").items():
        if name in ("calibrate", "speedup", "ratios", "chance"):
            exec(source, scope)
    return scope


def test_the_ratios_of_the_exercise_are_those_of_the_study(answers, tmp_path: Path):
    base, other = [1.0, None, 3.0, 8.0, 5.0], [2.0, 1.0, None, 2.0, 4.0]
    made = Study(tmp_path / "s", print, {"base": {}, "other": {}}, 5)
    for name, values in (("base", base), ("other", other)):
        for repeat, value in enumerate(values):
            made._append(vars(Run(name, repeat, value, "" if value else "it failed", 1.0, 1.0, made.keys[name])))
    table, found = made.seconds(), made.speedup("base", "other")
    assert found is not None
    assert answers["ratios"](table["base"], table["other"]) == (found.median, found.low, found.high, found.left_out)
    assert scaling_truth.paired(table["base"], table["other"]) == (0.5 + 0.75, 0.5, 4.0, 2)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("weak", [False, True])
def test_the_model_of_the_exercise_is_that_of_the_checks(answers, n, weak):
    for cores in (2, 8):
        machine = {**NETWORK, "cores": cores}
        assert answers["speedup"](n, 96, weak, machine) == pytest.approx(scaling_truth.predicted(n, 96, weak, machine))


def test_every_known_mistake_of_the_model_shows_on_the_cases_of_the_checks():
    slow = {**NETWORK, "latency": 0.002}
    cases = [(n, 480, weak, {**slow, "cores": 2}) for n in (2, 3, 5) for weak in (False, True)]
    cases += [(4, batch, False, {**slow, "cores": 8}) for batch in (256, 7)]
    for wrong in scaling_truth.MISREAD:
        seen = [scaling_truth.predicted(*case, wrong) / scaling_truth.predicted(*case) for case in cases]
        assert max(abs(each - 1) for each in seen) > 1e-3, wrong


def test_every_known_mistake_of_ratios_and_chance_shows_on_the_cases_of_the_visible_checks():
    pairs = [
        ([9.0, 2.0, 3.0, 4.0], [1.0] * 4),
        ([5.0, math.nan], [2.0, 1.0]),
        ([4.0, math.nan, math.nan, 8.0], [1.0, 1.0, math.nan, 4.0]),
    ]
    for wrong in scaling_truth.MISPAIRED:
        assert any(scaling_truth.paired(*each, wrong) != scaling_truth.paired(*each) for each in pairs), wrong
    found = [
        [1.01, 0.98, 1.01, 1.01, 1.02],
        [2.0] * 6,
        [1.0, 1.5, 1.0, 2.0, 3.0],
        [0.8, 0.9, 0.7],
        [1.2, 0.9, 1.1, 1.3],
    ]
    for wrong in scaling_truth.MISCOUNTED:
        assert any(scaling_truth.unevenly(each, wrong) != scaling_truth.unevenly(each) for each in found), wrong


def test_at_least_one_of_four_rows_with_a_common_base_is_at_the_smallest_chance_in_about_one_page_of_nine():
    draw = np.random.default_rng(1).normal
    above = (draw(size=(100_000, 4, 6)) > draw(size=(100_000, 1, 6))).sum(axis=2)
    luck = (above == 0) | (above == 6)
    assert luck[:, 0].mean() == pytest.approx(2 / 64, abs=0.002)
    assert 0.1 < luck.any(axis=1).mean() < 4 * 2 / 64


def test_the_line_and_the_coins_of_the_exercise_are_those_of_the_checks(answers):
    x, y = [64.0, 64.0, 128.0, 512.0], [3.0, 2.0, 4.0, 9.0]
    assert answers["calibrate"](x, y) == pytest.approx(scaling_truth.line(x, y))
    for found in ([1.2, 0.9, 1.1, 1.3], [2.0] * 6, [0.5, 1.0, 1.0], [], [1.1, 0.9]):
        assert answers["chance"](found) == pytest.approx(scaling_truth.unevenly(found))


def test_sixteen_over_a_network_of_a_hundred_gigabits_are_as_fast_as_eight_in_one_machine():
    one_box = scaling_truth.predicted(8, 64, False, NETWORK)
    apart = scaling_truth.predicted(16, 64, False, {**NETWORK, "rate": 12.5e9, "latency": 50e-6})
    assert apart == pytest.approx(one_box, rel=0.03)


def test_five_repeats_cannot_reach_a_chance_of_one_in_twenty(answers):
    assert answers["chance"]([2.0] * 5) > 0.05 > answers["chance"]([2.0] * 6) == 2 / 64


def test_the_gradients_by_numpy_are_those_of_differences():
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(3, 4)), rng.normal(size=(4, 3))]
    parts = [(rng.normal(size=(5, 3)), rng.integers(0, 3, size=5))]
    ((loss,),), after = scaling_truth.one_device(weights, parts, 1.0, 1)
    moved = [each.copy() for each in weights]
    moved[0][1, 2] += 1e-6
    ((higher,),), _ = scaling_truth.one_device(moved, parts, 1.0, 1)
    assert (higher - loss) / 1e-6 == pytest.approx((weights[0] - after[0])[1, 2], abs=1e-4)


def test_the_cores_are_those_that_this_process_may_use():
    assert 1 <= study.cores() <= 4096
