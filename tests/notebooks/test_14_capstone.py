"""Chapter 14: its answers, the library's study and the checks share one rule, and what its prose claims is so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import scaling_truth
from autograder.authoring import build
from autograder.model.course import find

NETWORK = {"cores": 16, "size": 100e6, "gradients": 5, "latency": 20e-6, "fixed": 0.001, "example": 0.02 / 6.4}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """The reference's functions that need no TensorFlow."""
    scope: dict[str, Any] = {"np": np, "math": math}
    for name, source in build.solution_source(find(), "14_capstone").items():
        if name in ("calibrate", "speedup", "chance"):
            exec(source, scope)
    return scope


def run_of(n: int, batch: int, **changes: Any) -> dict[str, Any]:
    one = {"way": "all-reduce", "replicas": n, "batch": batch, "packs": 1, "table": 0, "slow": 0.0, "rate": 1.0}
    return {**one, **changes}


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("way", ["all-reduce", "servers", "gpus"])
def test_the_model_of_the_exercise_is_that_of_the_checks(answers, n, way):
    for cores in (2, 8):
        for changes in ({}, {"packs": 0}, {"slow": 0.5} if way != "gpus" else {}, {"table": 20_000}):
            run = run_of(n, 96 * n, way=way, rate=12.5e9, **changes)
            case = run, run_of(1, 96, rate=50e9), {**NETWORK, "cores": cores}
            assert answers["speedup"](*case) == pytest.approx(scaling_truth.predicted(*case))


def test_every_known_mistake_of_the_model_shows_on_the_cases_of_the_visible_check():
    plain = {"cores": 4, "size": 0.0, "gradients": 3, "latency": 0.25, "fixed": 0.0, "example": 0.01}
    four, one = {**plain, "size": 4.0}, run_of(1, 100)
    cases = [(run_of(4, 100), one, plain), (run_of(8, 100), one, plain), (run_of(3, 100), one, {**plain, "cores": 2})]
    cases += [(run_of(8, 100, way="servers"), one, plain)]
    cases += [(run_of(4, 100, way="gpus"), one, {**plain, "cores": 2, "latency": 0.0})]
    cases += [(run_of(n, batch), one, {**plain, "fixed": 1.0}) for n, batch in ((4, 100), (4, 400), (8, 100))]
    cases += [(run_of(2, 51), one, plain), (run_of(1, 300), one, {**four, "fixed": 1.0}), (run_of(2, 100), one, four)]
    cases += [(run_of(n, 100, slow=1.5), one, four) for n in (1, 2)] + [(run_of(4, 100, rate=2.0), one, four)]
    cases += [(run_of(2, 100, table=1), one, four), (run_of(2, 100, way="gpus"), one, four)]
    cases += [(run_of(n, 100, way="gpus", packs=packs), one, four) for n, packs in ((2, 0), (4, 1), (1, 0))]
    cases += [(run_of(n, 100, way="servers"), one, four) for n in (1, 2)]
    cases += [
        (run_of(2, 100, way="servers", slow=8.5), one, four),
        (run_of(2, 100, way="servers", table=9), one, plain),
    ]
    cases += [(one, run_of(2, 100), four)]
    for wrong in scaling_truth.MISREAD:
        seen = [scaling_truth.predicted(*case, wrong) / scaling_truth.predicted(*case) for case in cases]
        assert max(abs(each - 1) for each in seen) > 1e-3, wrong


def test_the_first_loss_of_the_checks_is_that_of_the_notebook():
    scope: dict[str, Any] = {"np": np, "tf": tf}
    for cell in build.solved(find(), "14_capstone")["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and any(
            f"def {name}(" in source for name in ("logits", "weights", "first_loss")
        ):
            exec(source, scope)
    for changes in ({}, {"table": 10_000}, {"replicas": 2, "batch": 64}):
        run = {**scope["ONE"], **changes}
        assert scope["first_loss"](run, 7) == pytest.approx(scaling_truth.first_loss(run, 7), abs=1e-4)
    assert abs(scaling_truth.first_loss(run, 8) - scaling_truth.first_loss(run, 7)) > 1e-2
    assert [(*each.shape,) for each in scope["weights"](scope["ONE"])] == scaling_truth.WIDTHS


def test_every_known_mistake_of_chance_shows_on_the_cases_of_the_visible_check():
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
    machine = {**NETWORK, "example": 0.2 / 64}
    one_box = scaling_truth.predicted(run_of(8, 64, rate=50e9), run_of(1, 64), machine)
    apart = scaling_truth.predicted(run_of(16, 64, rate=12.5e9), run_of(1, 64), machine)
    assert apart == pytest.approx(one_box, rel=0.05)


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
