"""Chapter 02's checks judge as they promise: the reference, every listed variant and the blank notebook.

The student lives in one fresh process (this file, run as a program), so that nothing here is settled by another test.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

CHAPTER = "02_gpu_memory"
ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(6)  # for the reference
VARIANT_SEEDS = range(100, 102)
DEADLINE = 300.0  # seconds for all of it
EXERCISES = ["prediction", "extend", "first_come", "seen_cards", "cards_for", "fair", "settle"]


# The program: judges everything, prints one JSON object


def judge_all(seeds: range, variant_seeds: range) -> dict[str, Any]:
    """Answer name ("reference", "blank", "where/device_of_the_call") -> exercise -> one message a failed test."""
    from autograder import asking, build
    from autograder.checks import test_02_gpu_memory as checks

    notebook = build.solved(CHAPTER)
    solved = build.solution_source(CHAPTER)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    tests = [test for test in vars(checks).values() if hasattr(test, "exercise")]

    def namespace(answers: dict[str, str]) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "__main__"}
        for cell in cells:
            meta = cell.metadata.get("nbgrader", {})
            if meta.get("grade") or "show" in cell.metadata.get("tags", []):
                continue
            source: str = answers.get(meta.get("grade_id", ""), str(cell.source))
            exec(compile(source, f"<cell {meta.get('grade_id', '')}>", "exec"), names)
        return names

    def judged(answers: dict[str, str], seeds: range, only: str = "") -> dict[str, list[str]]:
        student = asking.in_process(namespace(answers))
        failed: dict[str, list[str]] = {}
        for seed in seeds:
            for test in tests:
                if only and test.exercise != only:
                    continue
                said = message(test, student, seed)
                failed.setdefault(test.exercise, []).extend([said] if said else [])
        return failed

    stubs = {
        cell.metadata["nbgrader"]["grade_id"]: cell.source
        for cell in build.release(CHAPTER).cells
        if cell.metadata.get("nbgrader", {}).get("solution") and cell.cell_type == "code"
    }
    found = {"reference": judged(solved, seeds), "blank": judged(stubs, range(1))}
    for variant in asking.variants(CHAPTER):
        answers = {**solved, variant.answer: variant.written_over(solved[variant.answer])}
        for seed in variant_seeds:
            key = f"{variant.answer}/{variant.name}/{seed}"
            found[key] = judged(answers, range(seed, seed + 1), variant.exercise)
    for name, source in ODD.items():
        found[f"odd/{name}"] = judged({**solved, **dict.fromkeys(EXERCISES, source)}, range(1))
    return found


ODD = {  # answers of every exercise at once: values that no check may choke on
    name: f"a = ()\nextend = first_come = seen_cards = cards_for = fair = settle = lambda *a: {value}\nprediction = {value}"
    for name, value in {
        "none": "None",
        "nan": "float('nan')",
        "half_a_character": "'\\ud800'",
        "nested": "[[[{(1, b'x'): np.zeros((2, 0))}]]]",
        "odd_dict": "{'\\ud800': 1, None: [2]}",
        "array": "np.array([1.0, np.nan])",
        "arrays_by_name": "{each: np.zeros(3) for each in a[0]} if a and isinstance(a[0], list) else [np.zeros(3)] * 3",
    }.items()
}


def message(test: Any, student: Any, seed: int) -> str:
    """What a failed test tells the student; "" if it passed. Raises what only an author's fault raises."""
    import numpy as np

    rng = np.random.default_rng([seed, zlib.crc32(test.__name__.encode())])
    given = {"student": student, "rng": rng}
    try:
        test(**{name: given[name] for name in inspect.signature(test).parameters})
    except AssertionError as error:
        return str(error) or f"{test.__name__}: a bare assert"
    except Exception as error:
        return f"AUTHOR {type(error).__name__} in {test.__name__}: {error}"
    return ""


if __name__ == "__main__":
    seeds, variant_seeds = (range(*map(int, text.split(":"))) for text in sys.argv[1:3])
    out = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()):
        answer = judge_all(seeds, variant_seeds)
    json.dump(answer, out)
    raise SystemExit


# The tests

from autograder import asking  # noqa: E402
from autograder.checks import test_02_gpu_memory as checks  # noqa: E402

VARIANTS = asking.variants(CHAPTER)


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    """What `judge_all` found, in a process of its own."""
    spans = [f"{span.start}:{span.stop}" for span in (SEEDS, VARIANT_SEEDS)]
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONPATH": f"{ROOT / 'lib'}{os.pathsep}{ROOT}",
    }
    done = subprocess.run(
        [sys.executable, __file__, *spans], capture_output=True, text=True, timeout=DEADLINE, env=environment, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_reference_passes_on_every_seed(judged, exercise):
    assert judged["reference"][exercise] == []


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_blank_answer_earns_nothing(judged, exercise):
    tests = [test for test in vars(checks).values() if getattr(test, "exercise", "") == exercise]
    assert len(judged["blank"][exercise]) == len(tests)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if not v.correct], ids=lambda v: f"{v.answer}-{v.name}")
def test_a_listed_misconception_fails_with_its_sentence(judged, variant):
    for seed in VARIANT_SEEDS:
        first = next(iter(judged[f"{variant.answer}/{variant.name}/{seed}"][variant.exercise]), "")
        assert variant.says in first


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.correct], ids=lambda v: f"{v.answer}-{v.name}")
def test_a_right_answer_in_another_way_passes(judged, variant):
    for seed in VARIANT_SEEDS:
        assert judged[f"{variant.answer}/{variant.name}/{seed}"][variant.exercise] == []


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_exercise_lists_two_misconceptions_and_another_right_way(exercise):
    listed = [variant.correct for variant in VARIANTS if variant.exercise == exercise]
    assert (listed.count(False) >= 2, listed.count(True) >= 1) == (True, True)


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_value_gets_a_sentence_and_nothing_else(judged, odd):
    said = [each for messages in judged[f"odd/{odd}"].values() for each in messages]
    assert [each for each in said if each.startswith("AUTHOR") or "assert" in each] == []
