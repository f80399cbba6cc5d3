"""A program: judge answers of one chapter by its checks, in this process, and print what each test said.

    python judging.py CHAPTER 1   # 1: how many times as many odd replies as usual

Without sandbox and kernel, so that the sentences are known in seconds. In a process of its own, because TensorFlow's devices
are settled once.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import inspect
import io
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.probe.listed import Variant

ROOT = Path(__file__).resolve().parents[2]
SEED = 0  # for the reference; `odd_replies` asks it with another
DEADLINE = 600.0  # seconds for all of a chapter
ODD = {  # what every answer is, or returns, for the probes to read; plain values more reply to checks in `odd_replies`
    "none": "None",
    "nan": "float('nan')",
    "half_a_character": "'\\ud800'",
    "nested": "[[[{(1, b'x'): np.zeros((2, 0))}]]]",
    "odd_dict": "{'\\ud800': 1, None: [2]}",
    "array": "np.array([1.0, np.nan])",
    "odd_rows": "[(None, float('nan'), '\\ud800', []), (1, 2, 3), np.zeros(3)]",
    "beyond_floats": "10**400",
    "denormals": "[5e-324] * len(a[0]) if a and type(a[0]) is list else 5e-324",
    "arrays_by_device": "{each[0]: np.zeros(3) for each in a[0]} if len(a) == 3 and type(a[0]) is list else np.zeros(3)",
    "arrays_by_name": "{str(each): np.zeros(3) for each in a[0]} if a and type(a[0]) is list else [np.zeros(3)] * 3",
}


def firsts(known: list[Variant]) -> list[Variant]:
    """Of each exercise the first listed answer that is wrong, and the first that is right."""
    return list({(each.exercise, each.correct): each for each in reversed(known)}.values())


def judge_all(chapter: str, times: int) -> dict[str, Any]:
    """Exercise -> a message for each failed test, under "reference", "blank" and "odd/nan" and its like.

    Under "tests" the names of each exercise's tests, under "listed" the messages of "where/device_of_the_call", under
    "replies" what `odd_replies.tried` found.
    """
    import odd_replies

    from autograder.authoring import build, check_answer
    from autograder.model.course import find
    from autograder.probe import asking, listed

    checks = checks_of(chapter)
    course = find()
    solved = build.solution_source(course, chapter)
    tests = tests_of(checks)

    def judged(answers: dict[str, str], seed: int, only: str = "") -> dict[str, list[str]]:
        allowed = course.chapter(chapter).allowed_ops
        student = asking.in_process(namespace(chapter, answers), allowed)
        failed: dict[str, list[str]] = {}
        for test in tests:
            if only and test.exercise != only:
                continue
            with check_answer.beside(course, sources(chapter, answers), allowed) as wanted:
                said = message(test, student, seed, wanted)
            failed.setdefault(test.exercise, []).extend([said] if said else [])
        return failed

    by_hand = {name for each in course.chapter(chapter).exercises if each.manual for name in each.answer_ids}
    stubs = {name: stub for name, stub in course.chapter(chapter).answers.items() if name not in by_hand}
    found: dict[str, Any] = {"reference": judged(solved, SEED), "blank": judged(stubs, SEED)}
    found["tests"], found["listed"] = {}, {}
    for test in tests:
        found["tests"].setdefault(test.exercise, []).append(test.__name__)
    for variant in firsts(listed.variants(course.listed_file(chapter))):
        answers = {**solved, variant.answer: variant.written_over(solved[variant.answer])}
        said = judged(answers, 100, variant.exercise)[variant.exercise]
        found["listed"][f"{variant.answer}/{variant.name}"] = said
    for name, value in ODD.items():
        odd = {answer: odd_answer(solved[answer], value) for answer in stubs}
        found[f"odd/{name}"] = judged({**solved, **odd}, SEED)
    found["replies"] = odd_replies.tried(chapter, times)
    return found


def checks_of(chapter: str) -> Any:
    """The module of a chapter's checks, under a name that no file of tests here has."""
    name = f"checks_of_{chapter}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "checks" / f"test_{chapter}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def tests_of(checks: Any) -> list[Any]:
    """The tests of a check file, in its order."""
    return [test for test in vars(checks).values() if hasattr(test, "exercise")]


def namespace(chapter: str, answers: dict[str, str]) -> dict[str, Any]:
    """The names of a student's notebook after it ran with these answers."""
    from autograder.authoring.check_answer import compiled

    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(sources(chapter, answers)):
        exec(compiled(source, str(number)), names)
    return names


def sources(chapter: str, answers: dict[str, str]) -> list[str]:
    """A student's notebook with these answers, cell by cell, what only shows something not."""
    return [answers.get(name, source) for name, source in solved_cells(chapter)]


@functools.cache
def solved_cells(chapter: str) -> list[tuple[str, str]]:
    """The grade id ("" without one) and the source of each of those cells in the solved notebook."""
    from autograder.authoring import build
    from autograder.model.course import find

    found: list[tuple[str, str]] = []
    for cell in build.solved(find(), chapter).cells:
        meta = cell.metadata.get("nbgrader", {})
        if not (cell.cell_type != "code" or meta.get("grade") or "show" in cell.metadata.get("tags", [])):
            found.append((meta.get("grade_id", ""), str(cell.source)))
    return found


def odd_answer(source: str, value: str) -> str:
    """An answer that binds all names of `source`: its functions to one that returns `value`, the others to `value`."""
    lines = ["import numpy as np", "a = ()"]
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            lines.append(f"{node.name} = lambda *a, **k: {value}")
        elif isinstance(node, ast.Assign):
            lines += [f"{target.id} = {value}" for target in node.targets if isinstance(target, ast.Name)]
    return "\n".join(lines)


def message(
    test: Any,
    student: Any,
    seed: int,
    wanted: Callable[[str], Any] = lambda kind: None,
) -> str:
    """What a failed test tells the student; "" if it passed. "AUTHOR ..." for what only an author's fault raises.

    `wanted` makes a peer or a life.
    """
    import numpy as np

    rng = np.random.default_rng([seed, zlib.crc32(test.__name__.encode())])
    given = {
        "student": lambda: student,
        "rng": lambda: rng,
        "peer": lambda: wanted("peer"),
        "lives": lambda: lambda: wanted("life"),
    }
    try:
        test(**{name: given[name]() for name in inspect.signature(test).parameters})
    except AssertionError as error:
        return str(error) or f"{test.__name__}: a bare assert"
    except Exception as error:
        return f"AUTHOR {type(error).__name__} in {test.__name__}: {error}"
    return ""


def judged(chapter: str, times: int) -> dict[str, Any]:
    """What `judge_all` finds, in a process of its own."""
    path = os.pathsep.join(str(ROOT / each) for each in ("lib", "checks", ""))
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, __file__, chapter, str(times)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        env=environment,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


if __name__ == "__main__":
    out = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()):
        answer = judge_all(sys.argv[1], int(sys.argv[2]))
    json.dump(answer, out)
