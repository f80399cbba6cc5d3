"""What a plan, a follow-up and a record must be: each rule has a mistake that only it finds."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from across import planned
from across.study import Run, Study, seed_of

ONE = {"way": "all-reduce", "replicas": 1, "batch": 512, "packs": 1, "table": 0, "slow": 0.0, "rate": 2e8}
PLAN: dict[str, Any] = {
    "question": "share",
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
    "dollars": 1.0,
}
THEN: dict[str, Any] = {
    "suspect": "link",
    "of": "strong",
    "run": {**ONE, "replicas": 2, "rate": 1e9},
    "if it is so": 1.5,
    "if it is not": 1.0,
}
RULES: list[Callable[[Any], planned.Fault | None]] = [planned.within_budget, planned.controlled, planned.contrasted]


def name_of(fault: planned.Fault | None) -> str:
    return fault.name if fault else ""


def test_a_good_plan_has_no_fault():
    read = planned.PLAN(PLAN, "")
    assert [rule(read) for rule in RULES] == [None] * 3
    assert planned.one_thing(read, THEN) is None
    assert planned.tells(read, THEN) is None


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
        ({"predicted": {**PLAN["predicted"], "one": 2.0}}, "base_not_one"),
        ({"predicted": {**PLAN["predicted"], "three": 2.0}}, "predicted_of_nothing"),
        ({"question": "packs"}, "nothing_contrasted"),
    ],
)
def test_each_mistake_of_a_plan_is_told_by_one_rule(change, name):
    found = [fault.name for rule in RULES if (fault := rule({**PLAN, **change}))]
    assert name in found
    assert len(found) == 1 or name == "base_of_many"


TWO = {**ONE, "replicas": 2}
TABLE, SLOW, GPUS = {**TWO, "table": 20_000}, {**TWO, "slow": 0.1}, {**TWO, "way": "gpus"}


@pytest.mark.parametrize(
    ("question", "pair", "name"),
    [
        ("table", (TABLE, {**TABLE, "way": "servers"}), ""),
        ("table", (TWO, {**TWO, "way": "servers"}), "small_table"),
        ("table", ({**TABLE, "slow": 0.1}, {**TABLE, "slow": 0.1, "way": "servers"}), "small_table"),
        ("slow", (SLOW, {**SLOW, "way": "servers"}), ""),
        ("slow", (TABLE, {**TABLE, "way": "servers"}), "slow_with_a_table"),
        ("slow", (SLOW, {**TWO, "way": "servers"}), "nothing_contrasted"),
        ("packs", (GPUS, {**GPUS, "packs": 0}), ""),
        ("packs", (TWO, {**TWO, "packs": 0}), "packs_of_a_ring"),
        ("packs", ({**GPUS, "replicas": 1}, {**GPUS, "replicas": 1, "packs": 0}), "one_replica_only"),
        ("gpus", (GPUS, {**GPUS, "replicas": 4}), ""),
        ("gpus", (TWO, {**TWO, "replicas": 4}), "replicas_of_a_ring"),
        ("share", (TWO, {**TWO, "batch": 2048}), "neither_strong_nor_weak"),
        ("share", (GPUS, {**GPUS, "batch": 1024}), "neither_strong_nor_weak"),
    ],
)
def test_each_question_needs_its_own_two_configurations(question, pair, name):
    runs = {"one": ONE, "again": ONE, "this": pair[0], "that": pair[1]}
    predicted = {"again": 1.0, "this": 0.5, "that": 0.6}
    plan = planned.PLAN({**PLAN, "question": question, "configurations": runs, "predicted": predicted}, "")
    assert [rule(plan) for rule in RULES[:2]] == [None] * 2
    assert name_of(planned.contrasted(plan)) == name


def test_what_gpus_cannot_is_no_run():
    for change in ({"table": 10}, {"slow": 0.1}, {"replicas": 8}):
        assert name_of(planned.runnable("it", {**GPUS, **change})) == "not_on_gpus"
    assert planned.machines(GPUS) == 2
    assert planned.machines({**TWO, "way": "servers"}) == 3


def loss(run: Any, seed: int) -> float:
    """A number of that run and that seed alone."""
    return 1 + zlib.crc32(repr(sorted(run.items())).encode()) % 3 + seed / 2**32


def studies(tmp_path: Path, stated: float = 10.0, then: float = 30.0) -> str:
    """The record of a plan whose runs ended at 20 and whose follow-up's at 40."""
    made = []
    tmp_path.mkdir(exist_ok=True)
    for name, at, ended, predicted, names in (
        ("plan", stated, 20.0, PLAN["predicted"], PLAN["configurations"]),
        ("then", then, 40.0, {"follow-up": 1.5}, ["strong", "follow-up"]),
    ):
        study = Study(tmp_path / name, print, {each: {} for each in names}, 6)
        lines = [{"prediction": predicted, "at": at, "program": study.program_digest}]
        for each in names:
            run = THEN["run"] if each == "follow-up" else PLAN["configurations"][each]
            seen = [loss(run, seed_of(predicted, each, k)) for k in range(6)]
            lines += [vars(Run(each, k, 1e-6, "", 1.0, ended, study.keys[each], seen[k])) for k in range(6)]
        for line in lines:
            study._append(line)
        made.append(study)
    return planned.record(*made)


def test_a_record_says_what_was_stated_before_it_was_measured(tmp_path: Path):
    seen = planned.recorded(studies(tmp_path))
    assert planned.stated_first(seen, PLAN) is None
    assert planned.followed(seen, PLAN, THEN) is None
    assert planned.side_by_side(seen) is None
    assert planned.ran(seen, PLAN, THEN, loss) is None


def test_runs_that_were_not_run_under_this_prediction_are_found(tmp_path: Path):
    seen = planned.recorded(studies(tmp_path))
    seen["plan"]["predicted"]["weak"] = 1.49  # typed into the record afterwards
    assert name_of(planned.ran(seen, PLAN, THEN, loss)) == "not_run"
    made_up = planned.recorded(studies(tmp_path / "other"))
    made_up["follow-up"]["runs"]["follow-up"][5] = [40.0, 80.0, None]
    assert "no first loss" in getattr(planned.ran(made_up, PLAN, THEN, loss), "says", "")


def test_repeats_that_were_not_measured_one_after_the_other_are_found(tmp_path: Path):
    seen = planned.recorded(studies(tmp_path))
    seen["plan"]["runs"]["weak"] = [[5.0, 1.0, 2.0]] * 6
    seen["plan"]["runs"]["strong"][0] = [9.0, 1.0, 2.0]
    assert name_of(planned.side_by_side(seen)) == "repeats_mixed"


@pytest.mark.parametrize(
    ("stated", "then", "names"),
    [(25.0, 30.0, ("stated_later", "")), (10.0, 15.0, ("", "follow_up_first")), (10.0, 45.0, ("", "stated_later"))],
)
def test_a_prediction_that_came_later_is_found(tmp_path: Path, stated, then, names):
    seen = planned.recorded(studies(tmp_path, stated, then))
    faults = planned.stated_first(seen, PLAN), planned.followed(seen, PLAN, THEN)
    assert tuple(map(name_of, faults)) == names


def test_a_record_without_a_run_or_a_prediction_or_with_failed_runs_alone_is_found(tmp_path: Path):
    seen = planned.recorded(studies(tmp_path))
    seen["plan"]["runs"]["weak"][0] = [20.0, "MemoryError: no room", None]  # one that failed is a result
    assert planned.stated_first(seen, PLAN) is None
    seen["plan"]["runs"]["weak"][1:3] = [[20.0, "MemoryError: no room", None]] * 2
    assert name_of(planned.stated_first(seen, PLAN)) == "runs_failed"
    seen["plan"]["runs"]["weak"][2] = None
    assert name_of(planned.stated_first(seen, PLAN)) == "runs_missing"
    seen["follow-up"]["predicted"] = {}
    assert name_of(planned.followed(seen, PLAN, THEN)) == "not_predicted_there"


def test_runs_that_had_no_time_are_found(tmp_path: Path):
    seen = planned.recorded(studies(tmp_path))
    seen["plan"]["runs"] = {"one": [[11.0, 100.0, 1.0], [11.4, 100.0, 1.0]]}
    assert name_of(planned.side_by_side(seen)) == "no_time"
    seen["plan"]["runs"]["one"][1][0] = 11.5
    seen["follow-up"] = None
    assert planned.side_by_side(seen) is None


def test_what_is_no_record_is_told_so(tmp_path: Path):
    for told in ("None", studies(tmp_path)[:-1]):
        with pytest.raises(AssertionError, match="expected the text that the notebook printed"):
            planned.recorded(told)


def test_a_record_may_stand_in_a_fence(tmp_path: Path):
    told = studies(tmp_path)
    assert planned.recorded(f"```json\n{told}\n```\n") == planned.recorded(told)


def test_what_the_record_says_was_stated_counts_and_not_what_the_follow_up_says_now(tmp_path: Path):
    seen = planned.recorded(studies(tmp_path))
    now = planned.FOLLOWED({**THEN, "if it is so": "a guess", "if it is not": -1.0}, "")
    assert planned.followed(seen, PLAN, now) is None
    assert planned.ran(seen, PLAN, now, loss) is None
    for unless, name in ((1.0, ""), (1.49, "cannot_refute"), (3.0, "wrong_way"), (0.0, "cannot_refute")):
        seen["follow-up"]["predicted"]["if it is not"] = unless
        assert name_of(planned.followed(seen, PLAN, THEN)) == name


@pytest.mark.parametrize("took", [-5.0, 0.0, None, " "])
def test_what_no_clock_can_say_is_no_time_of_a_run(tmp_path: Path, took):
    seen = planned.recorded(studies(tmp_path))
    seen["plan"]["runs"]["weak"][2] = [20.0, took, 3.0]
    assert name_of(planned.stated_first(seen, PLAN)) == "no_clock"
    seen["follow-up"]["runs"]["strong"][0] = [40.0, took, None]
    assert name_of(planned.followed(seen, PLAN, THEN)) == "no_clock"


def test_the_error_of_a_run_may_be_pasted_between_three_quotes(tmp_path: Path):
    study = Study(tmp_path / "study", print, {"one": {}}, 1)
    study.state({"one": 1.0})
    study._append(vars(Run("one", 0, None, 'OSError: no "C:\\new"\n there', 1.0, 3e9, study.keys["one"])))
    told: dict[str, str] = {}
    exec(f'told = """{planned.record(study, study)}"""', told)
    assert planned.recorded(told["told"])["plan"]["runs"]["one"][0][1] == "OSError: no 'C:/new' there"


def test_another_follow_up_and_one_of_a_plan_that_was_measured_anew_have_files_of_their_own(tmp_path: Path):
    plan = Study(tmp_path / "plan", print, {"one": {}}, 1)
    first = planned.own_file(plan, {"one": ONE, "follow-up": TWO})
    assert planned.own_file(plan, {"one": ONE, "follow-up": TWO}) == first
    others = [
        planned.own_file(plan, {"one": ONE, "follow-up": SLOW}),
        planned.own_file(plan, {"1": ONE, "follow-up": TWO}),
    ]
    plan.state({"one": 1.0})
    others.append(planned.own_file(plan, {"one": ONE, "follow-up": TWO}))
    assert len({first, *others}) == 4


@pytest.mark.parametrize(
    ("of", "change", "faster"),
    [
        (TWO, {"rate": 1e9}, True),
        (TWO, {"rate": 1e8}, False),
        ({**GPUS, "packs": 0}, {"packs": 1}, True),
        (SLOW, {"slow": 0.0}, True),
        (TABLE, {"table": 40_000}, False),
        (TWO, {"batch": 1024}, None),
        (TWO, {"replicas": 4}, None),
        (TWO, {"way": "servers"}, None),
    ],
)
def test_a_prediction_goes_the_way_that_its_suspect_would_send_it(of, change, faster):
    plan = {**PLAN, "configurations": {"this": of}}
    for so, right in ((1.5, faster is not False), (0.5, faster is not True)):
        then = {**THEN, "of": "this", "run": {**of, **change}, "if it is so": so, "if it is not": 1.0}
        assert (planned.tells(plan, then) is None) == right


def test_an_argument_that_no_run_reads_is_told():
    runs = {**PLAN["configurations"], "fast": {**ONE, "Rate": 1e7}}
    with pytest.raises(AssertionError, match="no entry 'Rate': no run reads it"):
        planned.PLAN({**PLAN, "configurations": runs}, "`plan` is")


@pytest.mark.parametrize(
    ("suspect", "of", "change", "name"),
    [
        ("messages", TWO, {"packs": 0}, "packs_unread"),
        ("messages", GPUS, {"packs": 0}, ""),
        ("messages", {**GPUS, "replicas": 1}, {"packs": 0}, "nothing_sent"),
        ("link", ONE, {"rate": 1e9}, "nothing_sent"),
        ("link", {**ONE, "way": "servers"}, {"rate": 1e9}, ""),
        ("link", TWO, {"rate": 2.1e8}, "too_little"),
        ("link", TWO, {"rate": 1e8}, ""),
        ("own ops", TWO, {"batch": 514}, "too_little"),
        ("table", TWO, {"table": 20_000}, ""),
        ("slow replica", TWO, {"slow": 0.01}, "too_little"),
        ("slow replica", ONE, {"slow": 0.02}, ""),
        ("way", TWO, {"way": "servers"}, ""),
    ],
)
def test_a_follow_up_changes_what_its_run_can_notice(suspect, of, change, name):
    plan = {**PLAN, "configurations": {"this": of}}
    then = {**THEN, "suspect": suspect, "of": "this", "run": {**of, **change}}
    assert name_of(planned.one_thing(plan, then)) == name


def test_each_rule_alone_says_a_sentence_to_a_plan_without_its_base_or_without_runs():
    assert name_of(planned.contrasted(planned.PLAN({**PLAN, "base": "none"}, ""))) == "neither_strong_nor_weak"
    empty = planned.PLAN({**PLAN, "configurations": {}}, "")
    assert None not in [rule(empty) for rule in RULES[1:]]
    measured = {
        "stated": 1.0,
        "predicted": {"follow-up": 1.5},
        "runs": {each: [[2.0, 1.0, 3.0]] * 6 for each in ("strong", "follow-up")},
    }
    record = {"plan": {"stated": 0.0, "predicted": {}, "runs": {}}, "follow-up": measured}
    assert name_of(planned.followed(record, empty, THEN)) == "follow_up_first"
