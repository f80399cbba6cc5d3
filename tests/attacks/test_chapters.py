"""Attacks on the course's own chapters: none earns more than the honest part of its answer.

`chapters/NAME.toml` has a row an attack, called by what it does:

    [returns_a_random_number]
    exercise = "seen_with"
    way = "replace"             # the instrument; or "record": writes what it keeps; "spy": on the question; "remember"
    tries = "Returns a random number for the process that it never starts."
    earns = 0                   # points of the exercise, at most
    source = '''
    def seen_with(value): ...
    '''

`answer` names the cell where that is not called like the exercise. The cells of other exercises that it looks at have the
reference's answers, all others are blank.
"""

import os
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autograder.authoring import build
from autograder.authoring.trials import looked_at_with
from autograder.job import forkserver
from autograder.job.grade import Job, grade_job
from autograder.model.course import Course, checkout
from autograder.sandbox import boxes
from autograder.submissions.intake import Submission

pytestmark = [
    pytest.mark.skipif(bool(boxes.problem()), reason=f"{boxes.problem()}"),
    pytest.mark.classes,
]
FILES = sorted((Path(__file__).parent / "chapters").glob("*.toml"))
WAYS = ("replace", "record", "spy", "remember")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_attack_on_a_chapter_earns_more_than_its_honest_part(file):
    course = Course.read(checkout())
    chapter, reference = course.chapter(file.stem), build.solution_source(course, file.stem)
    rows = tomllib.loads(file.read_text(encoding="utf-8"))
    missing = set(WAYS) - {row["way"] for row in rows.values()}
    assert not missing, f"{file.name}: no attack by {sorted(missing)}"
    try:
        rubric = forkserver.make_rubric(course, file.stem)

        def earned(name):
            row = rows[name]
            answer = row.get("answer", row["exercise"])
            answers = looked_at_with(chapter, reference, answer, row["source"].strip("\n") + "\n")
            verdict = grade_job(Job(Submission(name, file.stem, answers), rubric, 1), course)
            return next(mark for mark in verdict.marks if mark.exercise == row["exercise"])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            marks = dict(zip(rows, pool.map(earned, rows), strict=True))
    finally:
        forkserver.close()
    paid = {name: mark for name, mark in marks.items() if mark.points > rows[name]["earns"]}
    assert not paid
