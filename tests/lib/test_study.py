"""A study goes on where it was cut off, survives its runs, and compares runs that stood side by side in time."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from across import study
from across._process import warm
from across.study import Ratio, Run, Study

needs_fork = pytest.mark.skipif(not warm.available(), reason="each run would cost an import of TensorFlow")


def quiet(text: str) -> None:
    pass


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


@needs_fork
def test_each_run_is_one_line_of_the_file_and_is_not_run_again(tmp_path):
    path = tmp_path / "study.jsonl"
    first = Study(path, seconds_of, {"one": {"value": 1.5}, "two": {"value": 0.5}}, 3).run(say=quiet)
    assert first.seconds() == {"one": [1.5] * 3, "two": [0.5] * 3}
    written = path.read_bytes()
    assert len(written.splitlines()) == 6
    Study(path, seconds_of, {"one": {"value": 1.5}, "two": {"value": 0.5}}, 3).run(say=quiet)
    assert path.read_bytes() == written


@needs_fork
def test_configurations_alternate_and_every_other_repeat_goes_backwards(tmp_path):
    made = Study(tmp_path / "s", seconds_of, {"a": {"value": 1}, "b": {"value": 2}}, 3)
    wanted = [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert made.left() == wanted
    made.run(say=quiet)
    assert [(run.name, run.repeat) for run in made.runs()] == wanted


@needs_fork
def test_a_study_that_is_killed_in_the_middle_goes_on(tmp_path):
    program = """
        import sys, time
        from across.study import Study

        def slow(n):
            time.sleep(0.2)
            return n

        if __name__ == "__main__":
            Study(sys.argv[1], slow, {"one": {"n": 1}, "two": {"n": 2}}, 4).run()
    """
    script, path = tmp_path / "script.py", tmp_path / "study.jsonl"
    script.write_text(textwrap.dedent(program))
    command = [sys.executable, str(script), str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not (path.exists() and path.read_bytes().count(b"\n") >= 3):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    cut = path.read_bytes()
    rows = [line for line in cut.splitlines() if line.endswith(b"}")]
    with path.open("ab") as file:
        file.write(b'{"name": "one", "rep')  # as a full disk would leave it
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    after = path.read_bytes()
    assert after.startswith(cut)
    whole = [json.loads(line) for line in after.splitlines() if line.endswith(b"}")]
    assert len(whole) == 8
    assert len(rows) < 8
    assert {(row["name"], row["repeat"]) for row in whole} == {(n, r) for n in ("one", "two") for r in range(4)}


@needs_fork
def test_a_run_that_fails_or_hangs_is_recorded_and_stops_nothing(tmp_path):
    given: dict[str, dict[str, float]] = {
        name: {"value": i} for i, name in enumerate(["one", "fails", "hangs", "nan", "last"], 1)
    }
    given["last"] = {"value": 0.25}
    made = Study(tmp_path / "s", moody, given, 1, timeout=3.0).run(say=quiet)
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


def test_a_mended_function_that_the_program_calls_makes_it_another_program(tmp_path):
    def version(source: str) -> Study:
        scope: dict = {"__name__": "cell"}
        exec(f"{source}\ndef program(n):\n    return helper(n)\n", scope)
        return Study(tmp_path / "s", scope["program"], {"one": {"n": 1}})

    first, same, other = map(version, ["def helper(n): return n"] * 2 + ["def helper(n): return n + n"])
    assert first.keys == same.keys != other.keys


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


def test_what_is_left_is_reckoned_by_the_median_of_each_configuration(tmp_path):
    path = tmp_path / "s"
    made = filled(path, {"one": [1.0, 1.0]}, took=3.0)
    more = Study(path, seconds_of, {"one": {"value": 0.0}, "two": {"value": 1.0}}, 4)
    assert more.eta() == 2 * 3.0 + 4 * 3.0
    assert made.eta() == 0.0
    said: list[str] = []
    made.run(say=said.append)
    assert said == ["2 of 2 runs"]


@needs_fork
def test_the_line_says_how_many_runs_are_done_and_what_failed(tmp_path):
    said: list[str] = []
    Study(tmp_path / "s", moody, {"fails": {"value": 2}}, 2).run(say=said.append)
    assert [line.split(",")[0] for line in said[:2]] == ["0 of 2 runs", "1 of 2 runs"]
    assert said[-1] == "2 of 2 runs; 2 failed, the first: MemoryError: no room for two"


@needs_fork
def test_a_prediction_stands_with_its_time_and_a_later_one_shows(tmp_path):
    made = Study(tmp_path / "s", seconds_of, {"one": {"value": 1}}, 1)
    assert made.stated() is None
    assert made.state({"one": 1.5}).before
    assert made.state({"one": 1.5}).changed == 0
    made.run(say=quiet)
    assert made.stated() == made.state({"one": 1.5})
    later = made.state({"one": 2})
    assert later.values == {"one": 2.0}
    assert not later.before
    assert later.changed == 1


def test_a_study_of_nothing_and_arguments_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(ValueError, match="needs a configuration"):
        Study(tmp_path / "s", seconds_of, {})
    with pytest.raises(TypeError):
        Study(tmp_path / "s", seconds_of, {"one": {"value": object()}})


def test_the_machine_is_told_with_its_cores():
    assert study.machine().startswith(f"{study.cores()} cores, ")
