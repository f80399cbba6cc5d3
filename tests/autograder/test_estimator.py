"""Chapter 13's Estimator: really run, in the environment of its lock, here and inside the grader's box."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from boxed import CAPS, inside, needs_a_box

from across import scripts

SCRIPT = Path(__file__).parents[2] / "files" / "13_many_workers" / "estimator.py"
RECORDED = SCRIPT.with_name("estimator_recorded.txt")
ROOM = replace(CAPS, memory=6 << 30, pids=2048, file=256 << 20, tmp=512 << 20, cpu_seconds=300)
EPOCH = re.compile(r"(\d+) examples, batches of (\d+), (\d+) replicas: Estimator (\d+) steps, Keras (\d+) steps")

needs_its_environment = pytest.mark.skipif(
    not scripts.folder(SCRIPT).is_dir(), reason="the Estimator's environment is missing: uv run across prepare 13"
)


def holds(said: str) -> None:
    """What chapter 13 tells of such a run is so."""
    epochs = [tuple(map(int, row)) for row in EPOCH.findall(said)]
    assert [row[:3] for row in epochs] == [(200, 10, 1), (200, 10, 2), (70, 10, 1), (70, 10, 2)]
    for count, batch, replicas, estimator, keras in epochs:
        batches = -(-count // batch)
        assert (estimator, keras) == (batches // replicas, batches), (
            "each replica takes a batch; or each batch is divided"
        )
    steps = [int(n) for n in re.findall(r"^(?:chief|worker): did (\d+) of 400 steps", said, re.MULTILINE)]
    assert len(steps) == 2
    assert 400 <= sum(steps) <= 402
    assert min(steps) > 0
    seen = [(int(n), float(loss)) for n, loss in re.findall(r"evaluator: after (\d+) steps the loss is (\S+)", said)]
    assert seen[0][0] == 0
    assert seen[-1][0] >= 400
    assert seen[-1][1] < 0.1 * seen[0][1]
    assert "ps: serves, until it is killed" in said
    assert "TensorFlow 2.15.1" in said


def test_the_recorded_run_is_such_a_run_and_says_that_it_is_recorded():
    said = RECORDED.read_text()
    assert said.startswith("A recorded run, of ")
    holds(said)


@needs_its_environment
@needs_a_box
def test_it_runs_in_the_graders_box():
    texts = {name: Path(name).read_text() for name in (str(SCRIPT), f"{SCRIPT}.lock")}

    def look():
        for name, text in texts.items():
            Path("/box", Path(name).name).write_text(text)
        try:
            return scripts.run("/box/estimator.py")
        except scripts.Failed as failed:
            return str(failed)

    said, code, _ = inside(look, ROOM)
    assert code == 0
    holds(said)


@needs_its_environment
@needs_a_box
def test_nobody_in_the_box_can_write_into_it():
    there = str(scripts.folder(SCRIPT))

    def write():
        try:
            Path(there, "bin", "python").unlink()
        except OSError as error:
            return type(error).__name__ + str(error.errno)
        return "done"

    said, _, _ = inside(write)
    assert said == "OSError30"  # a file system for reading only
