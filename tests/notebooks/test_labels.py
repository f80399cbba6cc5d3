"""Each listed wrong answer of the course, in another hand, is called by its name or unlisted; what is not listed is unlisted.

Through the whole way of a class: real chapters, boxed kernels, marks.csv.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import rewriting

from autograder.authoring import build, unboxed
from autograder.commands import grading
from autograder.engine.request import Request
from autograder.job import forkserver
from autograder.model.behaviour import UNLISTED
from autograder.model.course import Course, find
from autograder.probe import listed
from autograder.sandbox import boxes

pytestmark = [pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem()), pytest.mark.slow]
COURSE = find()
NAMED = 0.5  # of the listed answers, at least, are known again in another hand; the others are unlisted


def handed_in(course: Course, chapter: str, folder: Path, name: str, answers: dict[str, str]) -> None:
    notebook = json.loads(course.notebook(chapter).read_text())
    for cell in notebook["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        if meta.get("solution") and meta["grade_id"] in answers:
            cell["source"] = answers[meta["grade_id"]]
    place = folder / name / chapter
    place.mkdir(parents=True)
    (place / f"{chapter}.ipynb").write_text(json.dumps(notebook))


@pytest.mark.parametrize("chapter", COURSE.chapters)
def test_a_label_is_right_or_there_is_none(chapter: str, tmp_path: Path):
    reference = build.solution_source(COURSE, chapter)
    wrong = [each for each in listed.variants(COURSE.listed_file(chapter)) if not each.correct]
    truth: dict[str, tuple[str, str]] = {}  # student -> exercise, name
    for number, each in enumerate(wrong):
        source = rewriting.rewritten(each.written_over(reference[each.answer]))
        truth[f"listed{number}"] = each.exercise, each.name
        handed_in(COURSE, chapter, tmp_path / "in", f"listed{number}", {**reference, each.answer: source})
    for exercise in COURSE.chapter(chapter).exercises:
        for _, source in [] if exercise.manual else list(unboxed.trivial(reference[exercise.name]))[:1]:
            source = source.replace("return None", "return 'nobody lists this'")
            truth[f"other_{exercise.name}"] = exercise.name, UNLISTED
            handed_in(COURSE, chapter, tmp_path / "in", f"other_{exercise.name}", {**reference, exercise.name: source})
    assert grading.grade_to_the_end(Request(COURSE, chapter, tmp_path / "in", tmp_path / "out")) == 0
    forkserver.close()
    with (tmp_path / "out" / "marks.csv").open(newline="") as file:
        rows = {(row["student"], row["exercise"]): row for row in csv.DictReader(file)}
    found = {student: rows[student, exercise]["misconception"] for student, (exercise, _) in truth.items()}
    odd = {
        student: (truth[student], label)
        for student, label in found.items()
        if label not in ("", UNLISTED) and truth[student][1] not in label.split(" or ")
    }
    assert odd == {}
    known = [
        truth[student][1] in label.split(" or ") for student, label in found.items() if student.startswith("listed")
    ]
    assert sum(known) >= NAMED * len(wrong), f"{sum(known)} of {len(wrong)} are known again"
