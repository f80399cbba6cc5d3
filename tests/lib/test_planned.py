"""What a plan, a follow-up and a record must be: each rule has a mistake that only it finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from across import planned
from across.study import Run, Study

ONE = {"replicas": 1, "batch": 512, "messages": 1, "threads": 1}
PLAN: dict[str, Any] = {
    "question": "batch",
    "repeats": 6,
    "base": "one",
    "control": "again",
    "configurations": {
        "one": ONE,
        "again": ONE,
        "strong": {**ONE, "replicas": 2},
        "weak": {**ONE, "replicas": 2, "batch": 1024},
    },
    "predicted": {"again": 1.0, "strong": 1.2, "weak": 1.5},
}
THEN: dict[str, Any] = {
    "suspect": "messages",
    "of": "strong",
    "run": {**ONE, "replicas": 2, "messages": 3},
    "if it is so": 0.5,
    "if it is not": 1.0,
}
RULES: list[Callable[[Any], planned.Fault | None]] = [planned.within_budget, planned.controlled, planned.contrasted]


def test_a_good_plan_has_no_fault():
    read = planned.PLAN(PLAN, "")
    assert [rule(read) for rule in RULES] == [None] * 3
    assert planned.one_thing(read, THEN) is None
    assert planned.tells(THEN) is None


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"repeats": 5}, "too_few_repeats"),
        ({"repeats": 9}, "over_budget"),
        ({"control": "one"}, "no_control"),
        ({"control": "strong"}, "another_run"),
        ({"base": "strong"}, "base_of_many"),
        ({"predicted": {"again": 1.0}}, "not_predicted"),
        ({"predicted": {**PLAN["predicted"], "again": 2.0}}, "control_not_one"),
        ({"question": "messages"}, "nothing_contrasted"),
    ],
)
def test_each_mistake_of_a_plan_is_told_by_one_rule(change, name):
    found = [fault.name for rule in RULES if (fault := rule({**PLAN, **change}))]
    assert name in found
    assert len(found) == 1 or name == "base_of_many"


def studies(tmp_path: Path, stated: float = 10.0, then: float = 30.0) -> str:
    """The record of a plan whose runs ended at 20 and whose follow-up's at 40."""
    made = []
    for name, at, ended, predicted, names in (
        ("plan", stated, 20.0, PLAN["predicted"], PLAN["configurations"]),
        ("then", then, 40.0, {"follow-up": 0.5}, ["strong", "follow-up"]),
    ):
        study = Study(tmp_path / name, print, {each: {} for each in names}, 6)
        lines = [{"prediction": predicted, "at": at, "program": study.program_digest}]
        for each in names:
            lines += [vars(Run(each, k, 0.1, "", 1.0, ended, study.keys[each])) for k in range(6)]
        for line in lines:
            study._append(line)
        made.append(study)
    return planned.record(*made)


def test_a_record_says_what_was_stated_before_it_was_measured(tmp_path: Path):
    seen = planned.recorded(studies(tmp_path))
    assert planned.stated_first(seen, PLAN) is None
    assert planned.followed(seen, PLAN, THEN) is None


@pytest.mark.parametrize(
    ("stated", "then", "names"),
    [(25.0, 30.0, ("stated_later", "")), (10.0, 15.0, ("", "follow_up_first")), (10.0, 45.0, ("", "stated_later"))],
)
def test_a_prediction_that_came_later_is_found(tmp_path: Path, stated, then, names):
    seen = planned.recorded(studies(tmp_path, stated, then))
    faults = planned.stated_first(seen, PLAN), planned.followed(seen, PLAN, THEN)
    assert tuple(fault.name if fault else "" for fault in faults) == names


def test_a_record_without_a_run_or_with_another_prediction_is_found(tmp_path: Path):
    seen = planned.recorded(studies(tmp_path))
    later = {**THEN, "if it is so": 0.6}
    assert getattr(planned.followed(seen, PLAN, later), "name", "") == "changed_later"
    typed_again = {**THEN, "if it is so": THEN["if it is so"] * 1.004}
    assert planned.followed(seen, PLAN, typed_again) is None
    seen["plan"]["runs"]["weak"][2] = None
    assert getattr(planned.stated_first(seen, PLAN), "name", "") == "runs_missing"


def test_what_is_no_record_is_told_so():
    with pytest.raises(AssertionError, match="expected the text that the check printed"):
        planned.recorded("None")


def test_each_rule_alone_says_a_sentence_to_a_plan_without_its_base_or_without_runs():
    lost = planned.contrasted(planned.PLAN({**PLAN, "base": "none"}, ""))
    assert lost is not None
    assert lost.name == "neither_strong_nor_weak"
    empty = planned.PLAN({**PLAN, "configurations": {}}, "")
    assert None not in [rule(empty) for rule in RULES[1:]]
    measured = {
        "stated": 1.0,
        "predicted": {"follow-up": 0.5},
        "runs": {each: [[2.0, 1.0]] * 6 for each in ("strong", "follow-up")},
    }
    record = {"plan": {"stated": 0.0, "predicted": {}, "runs": {}}, "follow-up": measured}
    late = planned.followed(record, empty, THEN)
    assert late is not None
    assert late.name == "follow_up_first"
