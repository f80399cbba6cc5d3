"""Many answers asked on many seeds, and looked at by the visible checks, in one process: what `verify` adds to its trials.

A share of an exercise's points for each seed, and what the exercise's visible check says: for answers that an author has
written or listed, so without a box. `ask` works in a process of its own, because TensorFlow's devices are settled once.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from autograder.authoring import check_answer
from autograder.model.course import Course

DEADLINE = 1800.0  # seconds for all answers of a chapter
LONG = 3.0  # seconds for the cells before an answer, after which what they left is kept for the next answer
ENOUGH = 6.0  # seconds for one answer: where checks start servers, it is asked on fewer seeds than are wished for
TRIVIAL = ("None", "0", "1", "-1", "True", "False", '""', "[]", "{}", "()")
# What the cells before the last answer left, names and files, where they took long: other answers go on from a copy of it
_BEGUN: dict[tuple[str, ...], tuple[dict[str, Any], tempfile.TemporaryDirectory[str]]] = {}
CROSS = "✗ "  # how a visible check's refusal begins; "" is a tick


@dataclass(frozen=True)
class Answered:
    """One answer to an exercise; every other answer of the chapter is the reference's."""

    exercise: str
    answer: str  # grade id of the cell
    source: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Found:
    """What was found of one answer."""

    earned: tuple[float, ...]  # the share of the exercise's points, a seed each that it was asked on
    visible: str  # the visible check's sentence, after CROSS; "" if it passed
    said: tuple[check_answer.Said, ...] = ()  # of each test on each seed


def ask(course: Course, chapter: str, answers: Sequence[Answered]) -> list[Found]:
    """What the checks say of each answer. Raises CourseError, TimeoutError."""
    if not answers:
        return []
    count = min(os.cpu_count() or 1, len(answers))
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
    try:
        shares = [pool.submit(_ask, course.dumps(), chapter, list(answers[i::count])) for i in range(count)]
        found: list[Found] = [Found((), "")] * len(answers)
        for i, share in enumerate(shares):
            found[i::count] = share.result(DEADLINE)
        return found
    finally:
        for process in (pool._processes or {}).values():  # an answer may not end
            process.kill()
        pool.shutdown()


def trivial(source: str) -> Iterator[tuple[str, str]]:
    """Answers without a thought, (what it returns, source of the cell), to a cell whose reference is `source`.

    Each function of it returns a constant, or what it is given. Nothing for a cell that defines no function.
    """
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    if not functions:
        return
    given = [argument.arg for argument in functions[0].args.args] if len(functions) == 1 else []
    for value in (*TRIVIAL, *given):
        made = []
        for function in functions:
            signature = ast.unparse(function.args)
            made.append(f"def {function.name}({signature}):\n    return {value}\n")
        yield value, "\n\n".join(made)


def _ask(dumped: str, chapter: str, answers: list[Answered]) -> list[Found]:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)  # TensorFlow warns of what students write; nobody reads it here
    with contextlib.redirect_stdout(io.StringIO()):
        asked = check_answer.Asked(Course.loads(dumped), chapter)
        return [_found(asked, each) for each in answers]


def _found(asked: check_answer.Asked, each: Answered) -> Found:
    said = asked.ask(each.exercise, {each.answer: each.source}, each.seeds, ENOUGH)
    earned = []
    for seed in dict.fromkeys(one.seed for one in said):
        of = [one for one in said if one.seed == seed]
        total = sum(one.test.weight for one in of)
        earned.append(sum(one.test.weight for one in of if one.passed) / total if total else 0.0)
    return Found(tuple(earned), visible(asked.course, asked.chapter, each), tuple(said))


def visible(course: Course, chapter: str, each: Answered) -> str:
    """What the exercise's visible check says of an answer: "" if it passes, else its sentence after CROSS.

    Runs in this process the cells that the check needs, in a working folder of their own with what lies beside the notebook.
    Raises CourseError for released cells that raise.
    """
    from across import attempt

    exercises = {exercise.name: exercise.grade_id for exercise in course.chapter(chapter).exercises}
    attempt.count_as_passed(exercises)
    check = exercises[each.exercise]
    cells = list(check_answer.executed(course, chapter, {each.answer: each.source}, check))
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell, _ in cells]
    before = ids.index(each.answer) if each.answer in ids else 0
    first = tuple(source for _, source in cells[:before])
    with tempfile.TemporaryDirectory() as folder:
        began = _BEGUN.get(first)
        for name, content in course.beside(chapter) if began is None else ():
            place = Path(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        names = check_answer.namespace() if began is None else dict(began[0])
        if began is not None:
            shutil.copytree(began[1].name, folder, dirs_exist_ok=True)
        with contextlib.chdir(folder):
            started = time.monotonic()
            for number, (cell, source) in enumerate(cells):
                if number < before and began is not None:
                    continue
                if number == before and began is None and time.monotonic() - started > LONG:
                    _BEGUN.clear()
                    _BEGUN[first] = dict(names), tempfile.TemporaryDirectory()
                    shutil.copytree(folder, _BEGUN[first][1].name, dirs_exist_ok=True)
                try:
                    exec(check_answer.compiled(source, cell.id), names)
                except BaseException as error:  # of the check or of an answer it is what is said
                    if ids[number] == check or cell.metadata.get("nbgrader", {}).get("solution"):
                        return CROSS + f"{error}"
                    raise
    return ""
