"""A study goes on where it was cut off, survives its runs, and compares runs that stood side by side in time."""

from __future__ import annotations

import itertools
import json
import math
import statistics
import time
from pathlib import Path

import pytest
from processes import forked

from across import study
from across.study import Ratio, Run, Study


def seconds_of(value: float) -> float:
    return value


def moody(value: float) -> float:
    if value == 2:
        raise MemoryError("no room for two")
    if value == 3:
        time.sleep(60)
    return value if value < 4 else math.nan


def filled(path: Path, table: dict[str, list[float | None]], took: float = 1.0) -> Study:
    """A study whose runs are in its file already."""
    repeats = len(next(iter(table.values())))
    made = Study(path, seconds_of, {name: {"value": float(i)} for i, name in enumerate(table)}, repeats)
    for name, values in table.items():
        for repeat, value in enumerate(values):
            run = Run(name, repeat, value, "" if value else "Died: it did", took, 1e9 + repeat, made.keys[name])
            with path.open("a") as file:
                file.write(json.dumps(vars(run)) + "\n")
    return made


@forked
def test_each_run_is_one_line_of_the_file_and_is_not_run_again(tmp_path):
    path = tmp_path / "study.jsonl"
    first = Study(path, seconds_of, {"one": {"value": 1.5}, "two": {"value": 0.5}}, 3).run()
    assert first.seconds() == {"one": [1.5] * 3, "two": [0.5] * 3}
    written = path.read_bytes()
    assert len(written.splitlines()) == 6
    Study(path, seconds_of, {"one": {"value": 1.5}, "two": {"value": 0.5}}, 3).run()
    assert path.read_bytes() == written


@forked
def test_the_repeats_are_the_outer_loop_and_run_in_their_orders(tmp_path):
    made = Study(tmp_path / "s", seconds_of, {"a": {"value": 1}, "b": {"value": 2}}, 3)
    wanted = [("ab"[number], repeat) for repeat, order in enumerate(study.orders(2, 3)) for number in order]
    assert [repeat for _, repeat in wanted] == [0, 0, 1, 1, 2, 2]
    assert made.left() == wanted
    made.run()
    assert [(run.name, run.repeat) for run in made.runs()] == wanted


@pytest.mark.parametrize(("count", "repeats"), [(2, 6), (3, 5), (4, 6), (5, 6), (6, 6), (1, 3)])
def test_any_two_configurations_are_about_as_far_apart_as_any_other_two(count, repeats):
    plan = study.orders(count, repeats)
    assert all(sorted(order) == list(range(count)) for order in plan)
    assert len(plan) == repeats
    pairs = itertools.combinations(range(count), 2)
    apart = [statistics.mean(abs(order.index(a) - order.index(b)) for order in plan) for a, b in pairs]
    assert apart == pytest.approx([(count + 1) / 3] * len(apart), abs=0.51)
    places = [statistics.mean(order.index(number) for order in plan) for number in range(count)]
    assert places == pytest.approx([(count - 1) / 2] * count, abs=0.51)


def test_a_plan_for_more_repeats_begins_like_the_one_for_fewer():
    assert study.orders(5, 6)[:4] == study.orders(5, 4)


@forked
def test_a_study_whose_last_line_was_cut_off_goes_on_with_that_run(tmp_path):
    path, given = tmp_path / "study.jsonl", {"one": {"value": 1.5}, "two": {"value": 0.5}}
    Study(path, seconds_of, given, 2).run()
    cut = path.read_bytes()[:-20]  # as a full disk or a kill leaves it
    path.write_bytes(cut)
    assert Study(path, seconds_of, given, 3).run().seconds() == {"one": [1.5] * 3, "two": [0.5] * 3}
    assert path.read_bytes().startswith(cut)
    assert len([line for line in path.read_bytes().splitlines() if line.endswith(b"}")]) == 6


@forked
@pytest.mark.whole
def test_a_run_that_fails_or_hangs_is_recorded_and_stops_nothing(tmp_path):
    given: dict[str, dict[str, float]] = {
        name: {"value": i} for i, name in enumerate(["one", "fails", "hangs", "nan", "last"], 1)
    }
    given["last"] = {"value": 0.25}
    made = Study(tmp_path / "s", moody, given, 1, timeout=3.0).run()
    said = {run.name: run.error for run in made.runs()}
    assert said["one"] == said["last"] == ""
    assert said["fails"] == "MemoryError: no room for two"
    assert said["hangs"].startswith("TimeoutError: moody did not return within 3 s")
    assert said["nan"].startswith("it returned nan")
    assert made.seconds()["last"] == [0.25]
    assert math.isnan(made.seconds()["hangs"][0])
    assert made.left() == []


def test_runs_of_another_program_or_with_other_arguments_are_none_of_the_study(tmp_path):
    path = tmp_path / "s"
    made = filled(path, {"one": [1.0, 1.0]})
    assert not made.left()
    assert len(Study(path, moody, {"one": {"value": 0.0}}, 2).left()) == 2
    assert len(Study(path, seconds_of, {"one": {"value": 7.0}}, 2).left()) == 2
    assert Study(path, seconds_of, {"one": {"value": 0.0}}, 3).left() == [("one", 2)]


def test_a_ratio_is_of_runs_of_the_same_repeat(tmp_path):
    made = filled(tmp_path / "s", {"base": [1.0, 2.0, 4.0, 8.0], "other": [0.5, 0.5, 2.0, 2.0]})
    found = made.speedup("base", "other")
    assert found == Ratio((2.0, 4.0, 2.0, 4.0), 0)
    assert found is not None
    assert (found.median, found.low, found.high) == (3.0, 2.0, 4.0)
    assert made.speedup("base", "other", work=2.0) == Ratio((4.0, 8.0, 4.0, 8.0), 0)
    assert str(found) == "3.00 (2.00 to 4.00, 4 pairs)"


def test_a_pair_with_a_failed_run_is_left_out_and_counted(tmp_path):
    made = filled(tmp_path / "s", {"base": [1.0, None, 3.0], "other": [None, 1.0, 1.0], "never": [None, None, None]})
    assert made.speedup("base", "other") == Ratio((3.0,), 2)
    assert str(made.speedup("base", "other")) == "3.00 (3.00 to 3.00, 1 pair, 2 left out)"
    assert made.speedup("base", "never") is None


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a run has said, each line in the place of the one before."""
    return [line.strip() for line in capsys.readouterr().out.split("\r")[1:]]


def test_what_is_left_is_reckoned_by_the_median_of_each_configuration(tmp_path, capsys):
    path = tmp_path / "s"
    made = filled(path, {"one": [1.0, 1.0]}, took=3.0)
    more = Study(path, seconds_of, {"one": {"value": 0.0}, "two": {"value": 1.0}}, 4)
    assert more.eta() == 2 * 3.0 + 4 * 3.0
    assert made.eta() == 0.0
    made.run()
    assert lines(capsys) == ["2 of 2 runs"]


@forked
def test_the_line_says_how_many_runs_are_done_and_what_failed(tmp_path, capsys):
    Study(tmp_path / "s", moody, {"fails": {"value": 2}}, 2).run()
    said = lines(capsys)
    assert [line.split(",")[0] for line in said[:2]] == ["0 of 2 runs", "1 of 2 runs"]
    assert said[-1] == "2 of 2 runs; 2 failed, the first: MemoryError: no room for two"


@forked
def test_what_counts_is_the_prediction_before_the_first_run_and_a_later_one_shows(tmp_path):
    made = Study(tmp_path / "s", seconds_of, {"one": {"value": 1}}, 1)
    assert made.stated() is None
    made.state({"one": 3})
    assert made.state({"one": 1.5}).values == {"one": 1.5}  # nothing has run yet: one may think again
    assert not made.state({"one": 1.5}).seen
    made.run()
    assert made.stated() == made.state({"one": 1.5})
    assert str(made.stated()).endswith(", before the first run")
    later = made.state({"one": 2})
    assert later.values == {"one": 1.5}
    assert not later.seen
    assert [(each.values, each.seen) for each in later.later] == [({"one": 2.0}, 1)]
    assert "; changed at " in str(later)
    assert str(later).endswith(", after 1 run had been seen")


def test_a_prediction_that_came_after_runs_says_so_also_when_they_were_of_another_program(tmp_path):
    path = tmp_path / "s"
    filled(path, {"one": [1.0, 1.0]})
    other = Study(path, moody, {"one": {"value": 0.0}}, 2)
    stated = other.state({"one": 1.5})
    assert stated.seen == 2
    assert other.others() == {"another version of the program": 2}


def test_a_prediction_stays_when_the_program_is_changed_and_says_that_it_was(tmp_path):
    path = tmp_path / "s"
    Study(path, seconds_of, {"one": {"value": 0.0}}, 2).state({"one": 1.5})
    filled(path, {"one": [1.0, 1.0]})
    other = Study(path, moody, {"one": {"value": 0.0}}, 2)
    stated = other.state({"one": 1.5})
    assert not stated.seen
    assert not stated.same_program
    assert str(stated).endswith("before the first run; for another version of the program")


def test_runs_that_do_not_count_are_told_with_the_reason(tmp_path, monkeypatch, capsys):
    path = tmp_path / "s"
    filled(path, {"one": [1.0, 1.0], "two": [1.0, 1.0]})
    same: dict[str, dict[str, float]] = {"one": {"value": 0.0}, "two": {"value": 1.0}}
    assert Study(path, seconds_of, same, 2).others() == {}
    assert Study(path, seconds_of, same, 1).others() == {}  # a repeat more than wanted is no other program
    assert Study(path, seconds_of, {"one": {"value": 0.0}}, 2).others() == {"another configuration": 2}
    other = Study(path, seconds_of, {**same, "two": {"value": 5.0}}, 2)
    assert other.others() == {"other arguments or settings": 2}
    monkeypatch.setattr(study, "machine", lambda: "another")
    made = Study(path, seconds_of, same, 2, fresh_process=False)
    assert made.others() == {"another machine": 4}
    made.run()
    assert lines(capsys)[-1].endswith("; not counted: 4 of another machine")


def test_a_study_of_nothing_and_arguments_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(ValueError, match="needs a configuration"):
        Study(tmp_path / "s", seconds_of, {})
    with pytest.raises(TypeError):
        Study(tmp_path / "s", seconds_of, {"one": {"value": object()}})


def test_the_machine_is_told_with_its_cores():
    assert study.machine().startswith(f"{study.cores()} cores, ")


def started_here(value: float, seed: int) -> tuple[float, float]:
    if value == 2:
        raise MemoryError("no room for two")
    return value, seed


def test_a_program_that_starts_processes_itself_is_called_here_and_may_say_what_it_saw(tmp_path):
    cases = {"one": {"value": 1.0}, "two": {"value": 2.0}}
    made = Study(tmp_path / "s", started_here, cases, 2, fresh_process=False)
    made.state({"one": 3})
    found = {(run.name, run.repeat): (run.seconds, run.seen, run.error) for run in made.run().runs()}
    assert found["one", 1] == (1.0, float(study.seed_of({"one": 3.0}, "one", 1)), "")
    assert found["two", 0] == (None, None, "MemoryError: no room for two")
    seeds = {study.seed_of(said, name, k) for said in ({}, {"one": 3.1}, {"one": 3}) for name in cases for k in (0, 1)}
    assert len(seeds) == 12


def test_what_a_program_saw_is_a_number_or_the_run_says_what_it_returned(tmp_path):
    (run,) = Study(tmp_path / "s", lambda: (0.5, None), {"one": {}}, 1, fresh_process=False).run().runs()
    assert (run.seconds, run.seen) == (None, None)
    assert run.error == "it returned (0.5, None); expected seconds, a number above 0"
